"""The proof on opening: the fast forward is the Hugging Face model's, its maps are attention, heads count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from qt_bert.models.batches import batches_of
from qt_bert.models.devices import whole_products
from qt_bert.models.forward import Encoder

if TYPE_CHECKING:
    from qt_bert.models.checkpoint import Checkpoint

PAIRS = (
    ("北京到上海高铁票价", "北京上海高铁票多少钱一张,几点发车"),
    ("苹果", "苹果手机 iPhone 15 的价格"),
    ("怎么去除衣服上的油渍", "红烧排骨的家常做法"),
    ("狗", "猫"),
)
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-6, torch.bfloat16: 0.15, torch.float16: 0.05}
"""Largest |difference| of logits / max(1, |logit|): roundings of random weights; another build is further."""


@torch.inference_mode()
def fault_of(checkpoint: Checkpoint, encoder: Encoder) -> str:
    """Why the fast forward is not the model of `checkpoint`, in a clause; empty where it is (nnterp's checks).

    On four pairs: every row of attention sums to one, the logits are those of the Hugging Face model, and
    leaving all heads out moves them.
    """
    with whole_products():
        return _fault(checkpoint, encoder)


def _fault(checkpoint: Checkpoint, encoder: Encoder) -> str:
    encoded = checkpoint.pair_tokenizer().encode(PAIRS, offsets=False)
    (batch,) = batches_of(encoded, 10**6, pad=checkpoint.pad)
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
    bound = TOLERANCE[layer.dtype]
    theirs = hugging_face_logits(checkpoint, batch)
    apart = _distance(encoder.logits_of(batch), theirs)
    if not apart <= bound:
        return f"its logits differ from transformers' by {apart:.2g}"
    return ""


def hugging_face_logits(checkpoint: Checkpoint, batch: Any) -> torch.Tensor:
    """What transformers gives a batch, padded as it is [B, labels]."""
    types = {"token_type_ids": batch.token_type_ids} if checkpoint.family.segments else {}
    return checkpoint.model(  # type: ignore[no-any-return]
        input_ids=batch.input_ids, attention_mask=batch.real.long(), **types
    ).logits


def _distance(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    ours, theirs = ours.double(), theirs.double()
    return float(((ours - theirs).abs() / theirs.abs().clamp(min=1)).max())
