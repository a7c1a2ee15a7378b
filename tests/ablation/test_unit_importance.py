"""Gradient importance of feed-forward units, against finite differences of the Hugging Face model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qt_bert.ablation.importance import unit_importance
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.scoring.bulk import Scorer

TEXTS = [("北京到上海", "上海到北京"), ("小哥", "京东小哥"), ("狗", "猫追狗")]
LABELS = [(4,), (0, 1), (2,)]


def loss(model, batch, allowed, unit=None, gate=1.0):
    """−log Σ p over the allowed logits with one unit's activation times `gate`."""

    def scale(module, args):
        active = args[0].clone()
        active[..., unit[1]] *= gate
        return (active,)

    handles = []
    if unit is not None:
        layer = model.bert.encoder.layer[unit[0]]
        handles.append(layer.output.dense.register_forward_pre_hook(scale))
    with torch.no_grad():
        logits = model(
            input_ids=batch.input_ids,
            token_type_ids=batch.token_type_ids,
            attention_mask=batch.real.long(),
        ).logits
    for handle in handles:
        handle.remove()
    return float(torch.logsumexp(logits[0], 0) - torch.logsumexp(logits[0, list(allowed)], 0))


def test_it_is_the_mean_of_absolute_gate_gradients(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of("bert"))
    checkpoint.model.double()
    scorer = Scorer(checkpoint)
    found = unit_importance(scorer.encoder, scorer.batches(TEXTS, 64), LABELS)
    step, expected = 1e-5, np.zeros((2, 3))
    for text, allowed in zip(TEXTS, LABELS, strict=True):
        [batch] = scorer.batches([text], 64)
        for layer in range(2):
            for place, unit in enumerate((0, 7, 31)):
                up, down = (
                    loss(checkpoint.model, batch, allowed, (layer, unit), gate)
                    for gate in (1 + step, 1 - step)
                )
                expected[layer, place] += abs(up - down) / (2 * step) / len(TEXTS)
    np.testing.assert_allclose([one[[0, 7, 31]] for one in found], expected, rtol=1e-4, atol=1e-9)
    assert [one.shape for one in found] == [(32,), (32,)]


def test_a_layer_without_heads_has_units_too(checkpoint_of):
    from qt_bert.models.checkpoint import smaller_checkpoint
    from qt_bert.results.kept import KeptLayer

    checkpoint = open_checkpoint(checkpoint_of("bert"))
    bare = (KeptLayer(layer=0, heads=()), KeptLayer(layer=1, heads=(1,)))
    scorer = Scorer(smaller_checkpoint(checkpoint, bare))
    found = unit_importance(scorer.encoder, scorer.batches(TEXTS, 64), LABELS)
    assert all((one > 0).any() for one in found)


def test_coarse_numbers_and_no_pairs_are_refused(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of("bert"))
    encoder = Encoder(checkpoint.model, checkpoint.family)
    with pytest.raises(ArgumentError, match="at least one pair"):
        unit_importance(encoder, [], [])
    coarse = open_checkpoint(checkpoint_of("bert"), dtype="bfloat16")
    with pytest.raises(ArgumentError, match="float32"):
        unit_importance(Encoder(coarse.model, coarse.family), [], [])
