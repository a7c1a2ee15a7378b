"""The check on opening: on raw text, our logits equal those of transformers' tokenizer and forward."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from qt_bert.data.tokenise import EncodedPair
from qt_bert.errors import CheckpointError
from qt_bert.models.batches import batches_of
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.devices import whole_products
from qt_bert.models.forward import Encoder
from qt_bert.models.plain import PlainEncoder
from qt_bert.models.tokenizer import PAIRS, TYPES, first_line

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-6, torch.bfloat16: 0.15, torch.float16: 0.05}
"""Largest |difference| of logits / max(1, |logit|): rounding stays below, another model does not."""


class Proof:
    """Transformers' tokens and logits of `PAIRS`, called as a user would, and ours compared with them.

    `theirs` are transformers' logits [pair, output] of each pair alone. Raises CheckpointError where
    transformers cannot run the model on a query and a title, and where our tokens differ from its own.
    """

    @torch.inference_mode()
    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        longest = checkpoint.longest
        each = [(pair, _call(checkpoint, *pair)) for pair in PAIRS]
        each = [(pair, call) for pair, call in each if len(call["input_ids"]) <= longest]
        pairs, calls = [pair for pair, _ in each], [call for _, call in each]
        self.encoded = checkpoint.pair_tokenizer(longest).encode(pairs, offsets=False)
        self._same_tokens(pairs, calls)
        accepted = inspect.signature(checkpoint.model.forward).parameters
        try:
            with whole_products():
                logits = [
                    checkpoint.model(
                        **{
                            name: torch.tensor([ids], device=checkpoint.device)
                            for name, ids in call.items()
                            if name in accepted
                        }
                    ).logits
                    for call in calls
                ]
                self.theirs = torch.cat(logits).double()
        except Exception as error:  # models of 120 types: there is no common error
            kind = checkpoint.family.model_type
            raise CheckpointError(
                f"{checkpoint.folder}: transformers cannot run this {kind} on a query and a title alone "
                f"({first_line(error)})"
            ) from error
        outputs = checkpoint.model.config.num_labels
        if self.theirs.shape != (len(pairs), outputs):
            raise CheckpointError(
                f"{checkpoint.folder}: transformers gives logits of the shape "
                f"{tuple(self.theirs.shape)} for {len(pairs)} pairs, not {outputs} a pair"
            )

    def _same_tokens(self, pairs: list[tuple[str, str]], calls: list[dict[str, list[int]]]) -> None:
        for pair, ours, call in zip(pairs, self.encoded, calls, strict=True):
            types = call.get(TYPES, [0] * len(call["input_ids"]))
            for name, tokens, theirs in (
                ("tokens", ours.input_ids, call["input_ids"]),
                ("token types", ours.token_type_ids, types),
            ):
                if tokens != theirs:
                    raise CheckpointError(
                        f"{self.checkpoint.folder}: the {name} of {pair[0]!r} and {pair[1]!r} are {tokens} "
                        f"here, but {theirs} by transformers' {type(self.checkpoint.tokenizer).__name__}; "
                        "such a tokenizer is not known here"
                    )

    def fast_fault(self) -> str:
        """A clause on why the fast engine cannot run the model; empty where it can."""
        try:
            encoder = Encoder(self.checkpoint.model, self.checkpoint.family, laid_out=False)
        except Exception as error:  # a build of the type that the family does not declare
            return f"the fast engine stops with {first_line(error)}"
        faults = (self.fault_of(encoder, padded=padded) for padded in (False, True))
        return next(filter(None, faults), "") or attention_fault(self, encoder)

    @torch.inference_mode()
    def fault_of(self, encoder: Encoder | PlainEncoder, *, padded: bool) -> str:
        """A clause on how the logits of `encoder` differ from `theirs`; empty where they agree. Pairs
        are run alone, or `padded` in one batch."""
        each = [self.encoded] if padded else [[pair] for pair in self.encoded]
        try:
            with whole_products():
                logits = torch.cat([self._logits(encoder, pairs) for pairs in each])
        except Exception as error:  # as above, or a type that takes no padding
            return f"the forward stops with {first_line(error)}"
        difference = float(((logits - self.theirs).abs() / self.theirs.abs().clamp(min=1)).max())
        if difference <= TOLERANCE[self.checkpoint.model.dtype]:
            return ""
        how = "padded among others" if padded else "alone"
        return f"its logits of pairs {how} differ from transformers' by {difference:.2g}"

    def _logits(self, encoder: Any, pairs: list[EncodedPair]) -> torch.Tensor:
        """Logits in the order of `pairs`, of one batch."""
        (batch,) = batches_of(pairs, 10**6, pad=self.checkpoint.pad)
        return encoder.logits_of(batch).double()[batch.rows.argsort()]


def _call(checkpoint: Checkpoint, query: str, title: str) -> dict[str, list[int]]:
    """Transformers' tokens of a pair; with a template, prefix and suffix are tokenised apart."""
    tokenizer, template = checkpoint.tokenizer, checkpoint.settings.template
    if template is None:
        return dict(tokenizer(query, title))
    body = f"{template.before}{query}{template.between}{title}"
    texts = (template.prefix, body, template.suffix)
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    joined = [token for part in ids for token in part]
    return {"input_ids": joined, "attention_mask": [1] * len(joined)}


@torch.inference_mode()
def attention_fault(proof: Proof, encoder: Encoder) -> str:
    """A clause where a row of the fast `encoder`'s attention does not sum to one; else empty."""
    (batch,) = batches_of(proof.encoded, 10**6, pad=proof.checkpoint.pad)
    batch = batch.to(encoder.device)
    hidden = encoder.embed(batch)
    for number, (layer, bias) in enumerate(zip(encoder.layers, encoder.biases(batch), strict=True)):
        if not layer.heads:
            continue
        query, key, _ = layer.project(hidden)
        sums = layer.attention(query, key, bias).float().sum(-1)
        rows = sums.transpose(1, 2)[batch.real]
        if not bool(((rows - 1).abs() < 0.05).all()):
            return f"rows of attention of layer {number} do not sum to one"
    return ""
