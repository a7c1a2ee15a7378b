"""The equivalence checks hold on every family, and a sabotaged loop does not pass them."""

from typing import Any

import numpy as np
import pytest
import torch

from qt_bert.ablation import checks
from qt_bert.ablation.checks import check_equivalence, distance, eight_of, some_of_each
from qt_bert.ablation.engine import LayerPass
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask, Replacement, SegmentBlock, Unseen
from qt_bert.ablation.patches import DonorZ, Patch, Path
from qt_bert.ablation.resample import Donors, Resample, Resampled
from qt_bert.ablation.weights import AffineMap
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.heads import Head
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.forward import Layer
from qt_bert.models.opening import open_checkpoint
from tests.ablation.test_loop import TEXTS, erased, mask
from tests.ablation.test_parts import COUPLES
from tests.conftest import FAMILIES


def figures_of(checkpoint: Checkpoint, variants: list[Variant] | None = None) -> dict[str, Any]:
    encoded = checkpoint.pair_tokenizer().encode(TEXTS)
    return check_equivalence(
        checkpoint, checkpoint.encoder(), variants or some(checkpoint), encoded
    )


def some(checkpoint: Checkpoint) -> list[Variant]:
    heads = (Head(0, 1), Head(1, 0))
    made = [Variant(mode, (HeadMask(heads, mode),)) for mode in ("zero", "uniform")]
    layers = checkpoint.encoder().layers
    size = 2, len(layers), layers[0].heads, 5, layers[0].width
    z = torch.randn(*size, generator=torch.Generator().manual_seed(2))
    made.append(Variant("resample", (Resample(heads, Donors.of(z, ((1,), (2,)))),)))
    return [*made, Variant("block", (SegmentBlock(heads),))]


@pytest.fixture
def opened(checkpoint_of) -> Checkpoint:
    return open_checkpoint(checkpoint_of())


@pytest.mark.parametrize("family", FAMILIES)
def test_checks_hold_and_give_figures(checkpoint_of, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    result = figures_of(checkpoint)
    assert result["pairs"] == len(TEXTS)
    assert result["unmasked"] <= result["bound"]
    assert set(result["variants"]) == {"zero", "uniform", "resample", "block"}
    assert max(result["variants"].values()) <= result["bound"]
    assert list(result["layers_off"]) == ["L0", "L1"]
    assert all(moved > 10 * result["bound"] for moved in result["layers_off"].values())
    hooks = [
        h for m in checkpoint.model.modules() for h in (*m._forward_hooks, *m._forward_pre_hooks)
    ]
    assert hooks == []


def test_a_bfloat16_run_is_checked_in_float32(checkpoint_of, opened):
    short = open_checkpoint(checkpoint_of(), dtype="bfloat16")
    assert figures_of(short) == figures_of(opened)


PLAIN_ATTEND = Layer.attend
SABOTAGED = [
    (Layer, "attend", lambda self, query, *others: PLAIN_ATTEND(self, query * 1.01, *others)),
    (LayerPass, "_mixed", lambda self, branch: None),
    (Replacement, "z", lambda self, site: site.hidden.new_ones(1, len(self.heads), 1, 4)),
    (Resampled, "z", lambda self, site: site.hidden.new_ones(1, len(self.heads), 1, 4)),
    (Unseen, "bias", lambda self, site: torch.zeros(1, 1, 1, 1)),
    (AffineMap, "outputs", lambda self, hidden, *_: hidden),
]


@pytest.mark.parametrize("sabotage", SABOTAGED, ids=[str(one[:-1]) for one in SABOTAGED])
def test_a_wrong_loop_is_caught(checkpoint_of, monkeypatch, sabotage):
    checkpoint = open_checkpoint(checkpoint_of("bert", layers=3, heads=4))
    sender = mask([Head(0, 1)], "uniform")
    variants = [*some(checkpoint), erased(1), Variant("path", (Path(sender, Head(2, 1), "k"),))]
    figures = figures_of(checkpoint, variants)
    assert max(figures["variants"].values()) <= figures["bound"]
    monkeypatch.setattr(*sabotage)
    message = "unmasked pass differs|differs from the Hugging Face model with hooks"
    with pytest.raises(EquivalenceError, match=message):
        figures_of(checkpoint, variants)


def test_patches_are_checked_beside_their_donors(opened, monkeypatch):
    encoded = opened.pair_tokenizer().encode(COUPLES, offsets=False)
    variants = [Variant("patch:L0H1", (Patch((Head(0, 1),)),), "patch")]
    given = (opened, opened.encoder(), variants)
    figures = check_equivalence(*given, encoded, donors=True)
    assert figures["pairs"] == 6 and figures["variants"]["patch:L0H1"] <= figures["bound"]
    with pytest.raises(ArgumentError, match="has no donor"):
        check_equivalence(*given, encoded[::2])
    monkeypatch.setattr(DonorZ, "z", lambda self, site: site.clean.z(0)[:, :1, : site.rows])
    with pytest.raises(EquivalenceError, match="with hooks"):
        check_equivalence(*given, encoded, donors=True)


def test_a_layer_off_that_moves_nothing_is_caught(opened, monkeypatch):
    """Loop and hooks both ignore masks, so they agree; the logits stand still."""
    monkeypatch.setattr(HeadMask, "changes", lambda self: {})
    monkeypatch.setattr(HeadMask, "install", lambda self, model: None)
    with pytest.raises(EquivalenceError, match="takes no effect"):
        figures_of(opened)


def test_a_layer_without_live_heads_is_skipped(fresh_checkpoint):
    checkpoint = open_checkpoint(fresh_checkpoint())
    with torch.no_grad():
        checkpoint.model.bert.encoder.layer[1].attention.output.dense.weight.zero_()
    result = figures_of(checkpoint)
    assert result["layers_off"]["L0"] > 1e-4
    assert result["layers_off"]["L1"] is None


def test_a_model_with_coarse_rounding_widens_its_bound(fresh_checkpoint):
    """Huge weights before a softmax: float32 itself is further from float64 than 1e-5."""
    checkpoint = open_checkpoint(fresh_checkpoint("bert", layers=4))
    with torch.no_grad():
        for layer in checkpoint.model.bert.encoder.layer:
            layer.attention.self.query.weight *= 30
    one = [Variant(str(head), (HeadMask((head,)),)) for head in checkpoint.shape.all_heads]
    result = figures_of(checkpoint, one)
    assert max(result["variants"].values()) <= result["bound"]


@pytest.mark.parametrize("family", FAMILIES)
def test_float64_tells_rounding_from_a_fault(checkpoint_of, monkeypatch, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    monkeypatch.setattr(checks, "TOLERANCE", 0)
    result = figures_of(checkpoint)
    assert 0 < max(result["variants"].values()) <= result["bound"] < 1e-2
    monkeypatch.setattr(checks, "EXACT", -1)
    assert figures_of(checkpoint)["bound"] == pytest.approx(result["bound"] / 25)


def test_padding_that_a_window_hides_from_itself_bounds_nothing(checkpoint_of, monkeypatch):
    """Rows of padding see nothing in Qwen's window, and its softmax of float64 scores is none there."""
    narrow = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
    monkeypatch.setattr(checks, "TOLERANCE", 0)
    result = figures_of(open_checkpoint(checkpoint_of("qwen2", **narrow)))
    assert 0 < max(result["variants"].values()) <= result["bound"] < 1e-2


def test_a_fault_of_float32_alone_is_caught(opened, monkeypatch):
    def attend(self, query, *others):
        return PLAIN_ATTEND(self, query * (1.01 if query.dtype == torch.float32 else 1), *others)

    monkeypatch.setattr(Layer, "attend", attend)
    with pytest.raises(EquivalenceError, match="differs from the Hugging Face model"):
        figures_of(opened)


def test_eight_pairs_hold_the_shortest_and_the_longest(opened):
    texts = [("狗", "猫" * n) for n in (9, 1, 30, 4, 5, 6, 7, 8, 2, 12)]
    encoded = opened.pair_tokenizer().encode(texts)
    assert [len(one) for one in eight_of(encoded)] == [5, 6, 9, 10, 11, 12, 16, 34]
    assert len(eight_of(encoded[:3])) == 3


def test_each_mode_is_among_those_tested():
    many = [Variant(f"z{i}", (HeadMask((Head(0, 0),)),), family="single") for i in range(50)]
    last = Variant("u", (HeadMask((Head(0, 0),), "uniform"),), family="single")
    chosen = some_of_each([NONE, *many, last], seed=0)
    assert len(chosen) == 5 and last in chosen and NONE not in chosen
    assert some_of_each([NONE, *many, last], seed=0) == chosen


def test_distance_is_relative_above_one():
    assert distance(np.array([100.0, 0.1]), np.array([101.0, 0.1])) == pytest.approx(1 / 101)
    assert distance(np.array([0.3]), np.array([0.1])) == pytest.approx(0.2)
    assert distance(np.array([np.nan]), np.array([0.1])) == float("inf")
