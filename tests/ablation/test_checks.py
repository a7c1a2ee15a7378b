"""Each check passes on every family, and fails when what it checks is sabotaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.checks import check_equivalence, distance, eight_of, some_of_each
from qt_bert.ablation.engine import LayerPass
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import Blocked, HeadMask, Replacement, SegmentBlock
from qt_bert.errors import EquivalenceError
from qt_bert.models import forward
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head, Shape
from tests.ablation.test_loop import TEXTS, means
from tests.conftest import FAMILIES

SHAPE = Shape(2, 2)


def variants(*modes: str) -> list[Variant]:
    heads = SHAPE.all_heads
    made = [NONE]
    for mode in modes:
        given = means(SHAPE, 8) if mode == "mean" else None
        made += [Variant(f"{mode} {head}", (HeadMask((head,), mode, given),)) for head in heads]
    return [*made, Variant("block", (SegmentBlock(tuple(heads)),))]


def figures_of(checkpoint, tested: list[Variant]) -> dict:
    encoder = Encoder(checkpoint.model, checkpoint.family)
    return check_equivalence(checkpoint, encoder, tested, checkpoint.pair_tokenizer().encode(TEXTS))


@pytest.fixture
def checked(checkpoint_of: Callable[..., Path]) -> Callable[..., dict]:
    def run(family: str = "bert", *, dtype: str = "float32", modes=("zero", "uniform", "mean")):
        checkpoint = open_checkpoint(checkpoint_of(family), dtype=dtype)
        return figures_of(checkpoint, variants(*modes))

    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_checks_hold_and_give_figures(checked, family):
    found = checked(family)
    assert found["pairs"] == len(TEXTS)
    assert found["unmasked"] <= found["bound"]
    assert max(found["variants"].values()) <= found["bound"]
    assert all(moved > 10 * found["bound"] for moved in found["layers_off"].values())
    assert list(found["layers_off"]) == ["L0", "L1"]
    assert {name.split()[0] for name in found["variants"]} == {"zero", "uniform", "mean", "block"}


def test_a_bfloat16_run_is_checked_in_float32(checked):
    assert checked(dtype="bfloat16") == checked()


def test_another_unmasked_pass_is_caught(checked, monkeypatch):
    plain = forward.attention
    monkeypatch.setattr(
        "qt_bert.ablation.engine.attention", lambda q, k, bias: plain(q * 1.01, k, bias)
    )
    with pytest.raises(EquivalenceError, match="unmasked pass differs"):
        checked()


def test_a_mask_without_effect_is_caught_by_the_hooks(checked, monkeypatch):
    monkeypatch.setattr(LayerPass, "_mixed", lambda self, branch: None)
    with pytest.raises(EquivalenceError, match="differs from the Hugging Face model with hooks"):
        checked()


@pytest.mark.parametrize(
    ("owner", "method", "wrong"),
    [
        (Replacement, "z", lambda self, site: torch.ones(1, len(self.heads), 1, 8)),
        (Blocked, "bias", lambda self, site: torch.zeros(1, 1, 1, 1)),
    ],
)
def test_a_wrong_replacement_is_caught(checked, monkeypatch, owner, method, wrong):
    monkeypatch.setattr(owner, method, wrong)
    with pytest.raises(EquivalenceError, match="with hooks"):
        checked(modes=("uniform",))


def test_a_layer_off_that_moves_nothing_is_caught(checked, monkeypatch):
    """Loop and hooks both ignore masks, so they agree; the logits stand still."""
    monkeypatch.setattr(HeadMask, "changes", lambda self: {})
    monkeypatch.setattr(HeadMask, "install", lambda self, model: None)
    with pytest.raises(EquivalenceError, match="takes no effect"):
        checked()


def test_a_layer_without_live_heads_is_skipped(fresh_checkpoint):
    checkpoint = open_checkpoint(fresh_checkpoint())
    with torch.no_grad():
        checkpoint.model.bert.encoder.layer[1].attention.output.dense.weight.zero_()
    found = figures_of(checkpoint, variants("zero"))
    assert found["layers_off"]["L0"] > 1e-4
    assert found["layers_off"]["L1"] is None


def test_a_model_with_coarse_rounding_widens_its_bound(fresh_checkpoint):
    """Huge weights before a softmax: float32 itself is further from float64 than 1e-5."""
    checkpoint = open_checkpoint(fresh_checkpoint("bert", layers=4))
    with torch.no_grad():
        for layer in checkpoint.model.bert.encoder.layer:
            layer.attention.self.query.weight *= 30
    shape = Shape(4, 2)
    one = [Variant(str(head), (HeadMask((head,)),)) for head in shape.all_heads]
    found = figures_of(checkpoint, one)
    assert max(found["variants"].values()) <= found["bound"]


def test_eight_pairs_hold_the_shortest_and_the_longest(checkpoint_of):
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer()
    encoded = tokenizer.encode([("狗", "猫" * n) for n in (9, 1, 30, 4, 5, 6, 7, 8, 2, 12)])
    assert [len(one) for one in eight_of(encoded)] == [5, 6, 9, 10, 11, 12, 16, 34]
    assert len(eight_of(encoded[:3])) == 3


def test_each_mode_is_among_those_tested():
    many = [Variant(f"z{i}", (HeadMask((Head(0, 0),)),), family="single") for i in range(50)]
    last = Variant("u", (HeadMask((Head(0, 0),), "uniform"),), family="single")
    chosen = some_of_each([NONE, *many, last], 5, seed=0)
    assert len(chosen) == 5 and last in chosen and NONE not in chosen
    assert some_of_each([NONE, *many, last], 5, seed=0) == chosen


def test_distance_is_relative_above_one():
    assert distance(np.array([100.0, 0.1]), np.array([101.0, 0.1])) == pytest.approx(1 / 101)
    assert distance(np.array([0.3]), np.array([0.1])) == pytest.approx(0.2)
    assert distance(np.array([np.nan]), np.array([0.1])) == float("inf")


def test_no_hook_is_left_behind(checked, checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of())
    figures_of(checkpoint, variants("zero"))
    hooks = [
        h for m in checkpoint.model.modules() for h in (*m._forward_hooks, *m._forward_pre_hooks)
    ]
    assert hooks == []


def test_weights_changed_behind_the_encoder_are_caught(fresh_checkpoint):
    checkpoint = open_checkpoint(fresh_checkpoint())
    encoder = Encoder(checkpoint.model, checkpoint.family)
    with torch.no_grad():
        checkpoint.model.bert.encoder.layer[0].intermediate.dense.weight.zero_()
    with pytest.raises(EquivalenceError, match="unmasked pass differs"):
        check_equivalence(
            checkpoint, encoder, variants(), checkpoint.pair_tokenizer().encode(TEXTS)
        )
