"""Gradient importance of heads and feed-forward units.

Michel et al. 2019 ("Are Sixteen Heads Really Better than One?", section 4.1): a gate ξ = 1 multiplies a
head's z, and its importance is the mean over pairs of |∂L/∂ξ|. For units the gate multiplies a
feed-forward unit's activation, in every token of a pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch

from qt_bert.ablation.effects import logits_in_label
from qt_bert.ablation.engine import batch_tokens
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch, row_at
from qt_bert.models.forward import Encoder
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray


def importance_on(scorer: Scorer, pairs: Sequence[Pair], shown: Progress = silent) -> FloatArray:
    """The importance of heads [layers, heads], in float32; `shown` counts pairs."""
    scorer = scorer.exact()
    return np.stack(importance(scorer.encoder, *_labelled(scorer, pairs), shown))


def unit_importance_on(
    scorer: Scorer, pairs: Sequence[Pair], shown: Progress = silent
) -> list[FloatArray]:
    """The same for every feed-forward unit: for each layer [units]; the scorer's model must be in float32."""
    return importance(scorer.encoder, *_labelled(scorer, pairs), shown, units=True)


def _labelled(scorer: Scorer, pairs: Sequence[Pair]) -> tuple[Iterator[Batch], BoolArray | None]:
    """The pairs in batches, and the logits that each pair's label may mean; None for a model of one logit."""
    labels, texts = scorer.checkpoint.settings.labels, [(pair.query, pair.title) for pair in pairs]
    allowed = None if labels.logits == 1 else logits_in_label(list(pairs), labels)
    return scorer.fresh().batches(texts, batch_tokens()), allowed


def importance(
    encoder: Encoder,
    batches: Iterable[Batch],
    allowed: BoolArray | None,
    shown: Progress = silent,
    *,
    units: bool = False,
) -> list[FloatArray]:
    """The mean over pairs of |∂L/∂ξ| of each layer [heads or `units`], for a gate ξ = 1 per pair.

    L = −log Σ p over the logits that the pair's label may mean, `allowed` [pairs, labels], whose rows are
    those of `Batch.rows`. For a model of one logit `allowed` is None and L the logit. Raises ArgumentError
    for a pair without a label, for no pairs, and for a model in less than float32.
    """
    if encoder.layers[0].dtype not in (torch.float32, torch.float64):
        raise ArgumentError("gradient importance needs a model opened in float32")
    totals: list[FloatArray] = [np.zeros(())] * len(encoder.layers)
    pairs = 0
    for batch in batches:
        in_label = None
        if allowed is not None:
            unlabelled = batch.rows[~allowed[batch.rows].any(1)]
            if len(unlabelled):
                raise ArgumentError(
                    f"gradient importance: the label of pair {unlabelled[0]} names the logits (); it must "
                    f"name at least one of 0 to {allowed.shape[1] - 1}"
                )
            in_label = torch.from_numpy(allowed[batch.rows]).to(encoder.device)
        gradients = _gate_gradients(encoder, batch.to(encoder.device), in_label, units)
        totals = [
            total + gradient.abs().sum(0, dtype=torch.float64).cpu().numpy()
            for total, gradient in zip(totals, gradients, strict=True)
        ]
        pairs += len(batch)
        shown.advance(len(batch))
    if not pairs:
        raise ArgumentError("gradient importance needs at least one pair; there is none")
    return [total / pairs for total in totals]


@torch.inference_mode(False)
@torch.enable_grad()
def _gate_gradients(
    encoder: Encoder, batch: Batch, allowed: torch.Tensor | None, units: bool
) -> Sequence[torch.Tensor]:
    """∂L/∂ξ of each layer [B, heads or units]; a pair's gates affect only its own loss."""
    gates: list[torch.Tensor] = []
    with torch.no_grad():  # there is no gate below
        hidden = encoder.embed(batch)
    for layer, bias in zip(encoder.layers, encoder.biases(batch), strict=True):
        z = layer.attend(*layer.project(hidden), bias)
        if units:
            gates.append(z.new_ones(len(batch), layer.units, requires_grad=True))
            hidden = layer.feed_forward(layer.mix(z), hidden, gates[-1][:, None])
        else:
            gates.append(z.new_ones(len(batch), layer.heads, requires_grad=True))
            hidden = layer.finish(z * gates[-1][:, :, None, None], hidden)
    if encoder.reads != "mean":
        hidden = row_at(hidden, batch.at)
    logits = encoder.family.head(encoder.model, encoder.pooled(hidden, batch.mask))
    return torch.autograd.grad(_losses(logits, allowed).sum(), gates)


def _losses(logits: torch.Tensor, allowed: torch.Tensor | None) -> torch.Tensor:
    """−log Σ p over the allowed logits of each pair [B]; the logit itself where there is one."""
    if allowed is None:
        return logits[:, 0]
    in_label = logits.masked_fill(~allowed, float("-inf"))
    return torch.logsumexp(logits, 1) - torch.logsumexp(in_label, 1)
