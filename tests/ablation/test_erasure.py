"""Affine maps of a layer's output in the masked loop, against hooks on the Hugging Face model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.engine import LayerPass, Reduction, sweep
from qt_bert.ablation.interventions import EMBEDDINGS, NONE, LayerIntervention, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.weights import AffineMap, Erasure
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head
from tests.ablation.test_loop import TEXTS, batches, plain, run
from tests.conftest import FAMILIES

LAYERS, SIZE = 3, 16
OPTIONS = {"layers": LAYERS, "heads": 4, "hidden": SIZE}
PLACES = range(LAYERS + 1)


@pytest.fixture
def opened(checkpoint_of: Callable[..., Path]) -> Callable[..., tuple]:
    def build(family: str = "bert", **options) -> tuple:
        checkpoint = open_checkpoint(checkpoint_of(family, **OPTIONS), **options)
        return checkpoint, Encoder(checkpoint.model, checkpoint.family)

    return build


def a_map(seed: int = 0, rank: int = 3) -> AffineMap:
    """An oblique map in float64, as LEACE gives them."""
    made = torch.Generator().manual_seed(seed)
    left, right = (
        torch.randn(*shape, generator=made).double() for shape in ((SIZE, rank), (rank, SIZE))
    )
    return AffineMap(left / 4, right / 4, torch.randn(SIZE, generator=made).double())


def identity() -> AffineMap:
    return AffineMap(torch.zeros(SIZE, 0), torch.zeros(0, SIZE), torch.ones(SIZE))


def at(place: int, seed: int = 0, **options) -> Variant:
    return Variant(f"r{place}#{seed}", (Erasure(place, a_map(seed, **options)),), "erased")


def test_the_map_by_hand():
    one = AffineMap(torch.tensor([[2.0], [0.0]]), torch.tensor([[1.0, 1.0]]), torch.ones(2))
    assert one.outputs(torch.tensor([[3.0, 0.0], [1.0, 1.0]])).tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert (one.size, one.rank) == (2, 1)


def test_bfloat16_goes_through_float32():
    vectors = torch.randn(5, SIZE, generator=torch.Generator().manual_seed(3)).bfloat16()
    found = a_map().outputs(vectors)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, a_map().outputs(vectors.float()).bfloat16())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [1, 1000])
def test_equal_to_hooks_at_every_place(opened, family, budget):
    checkpoint, encoder = opened(family)
    given = batches(checkpoint, budget)
    variants = [NONE, *(at(place, seed) for place in PLACES for seed in (0, 1))]
    got = run(encoder, given, variants, len(TEXTS), tokens=60)
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(TEXTS)), atol=1e-5)
    assert all(np.abs(got[i] - got[0]).max() > 1e-3 for i in range(1, len(variants)))


def test_together_with_heads_out_and_with_each_other(opened):
    checkpoint, encoder = opened()
    given = batches(checkpoint, 1000)
    off = HeadMask(tuple(Head(2, head) for head in range(4)))
    variants = [
        NONE,
        Variant("same layer", (HeadMask((Head(1, 2),)), Erasure(2, a_map()))),
        Variant("layer above", (Erasure(1, a_map()), HeadMask((Head(1, 2),), "uniform"))),
        Variant("only the first token above", (Erasure(2, a_map()), off)),
        Variant("twice", (Erasure(0, a_map()), Erasure(3, a_map(1)))),
    ]
    got = run(encoder, given, variants, len(TEXTS))
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(TEXTS)), atol=1e-5)


def test_the_identity_changes_no_bit(opened):
    checkpoint, encoder = opened()
    variants = [NONE, *(Variant(f"r{n}", (Erasure(n, identity()),)) for n in PLACES)]
    got = run(encoder, batches(checkpoint, 1), variants, len(TEXTS))
    assert all(np.array_equal(one, got[0]) for one in got)


def test_padding_stays_as_it_was(opened):
    checkpoint, encoder = opened()
    (batch,) = batches(checkpoint, 1000)
    kept: list[torch.Tensor] = []
    watch = Reduction("watch", "hidden", (1,), lambda view: kept.append(view.values) or zero(view))

    def zero(view):
        return torch.zeros(len(view.batch))

    list(sweep(encoder, [batch], [NONE, at(2)], [watch]))
    before, after = kept
    padding = ~batch.real
    assert padding.any()
    assert torch.equal(before[padding], after[padding])
    np.testing.assert_allclose(
        after[batch.real], a_map().outputs(before[batch.real]), rtol=1e-5, atol=1e-6
    )


def test_variants_at_one_place_share_all_below(opened, monkeypatch):
    """Twenty maps behind the last layer cost no layer more than the plain pass."""
    checkpoint, encoder = opened()
    finished: list[int] = []
    finish = LayerPass.finish

    def counted(self, chunk):
        finished.append(len(chunk))
        return finish(self, chunk)

    monkeypatch.setattr(LayerPass, "finish", counted)
    given = batches(checkpoint, 1000)[:1]
    list(sweep(encoder, given, [NONE, *(at(LAYERS, seed) for seed in range(20))], tokens=100_000))
    assert finished == [1] * LAYERS
    finished.clear()
    list(sweep(encoder, given, [NONE, *(at(2, seed) for seed in range(20))], tokens=100_000))
    assert finished == [1, 1, 21]


@pytest.mark.parametrize("place", [0, 2])
def test_a_stack_keeps_within_its_budget(opened, place, monkeypatch):
    checkpoint, encoder = opened()
    sizes: list[int] = []
    begin = LayerPass.__init__

    def watched(self, number, layer, clean, hidden, branches, **options):
        sizes.append(hidden.shape[0] * hidden.shape[1] * hidden.shape[2])
        begin(self, number, layer, clean, hidden, branches, **options)

    monkeypatch.setattr(LayerPass, "__init__", watched)
    given = batches(checkpoint, 1)
    variants = [NONE, *(at(place, seed) for seed in range(12))]
    some = run(encoder, given, variants, len(TEXTS), tokens=70)
    assert max(sizes) <= 70
    np.testing.assert_allclose(some, run(encoder, given, variants, len(TEXTS)), atol=1e-5)


def test_the_guards_hold_it_against_hooks(opened, monkeypatch):
    checkpoint, encoder = opened()
    encoded = checkpoint.pair_tokenizer().encode(TEXTS)
    variants = [at(place) for place in PLACES]
    figures = check_equivalence(checkpoint, encoder, variants, encoded)
    assert set(figures["variants"]) == {one.name for one in variants}
    monkeypatch.setattr(AffineMap, "outputs", lambda self, hidden, *_: hidden)
    with pytest.raises(EquivalenceError, match="differs from the Hugging Face model with hooks"):
        check_equivalence(checkpoint, encoder, variants, encoded)


def test_what_cannot_be(opened):
    _, encoder = opened()
    with pytest.raises(ArgumentError, match="r-1: places are counted from r0"):
        Erasure(-1, a_map())
    with pytest.raises(ArgumentError, match="no affine map of 2 numbers"):
        AffineMap(torch.zeros(2, 1), torch.zeros(2, 1), torch.zeros(2))
    with pytest.raises(ArgumentError, match="changes layer 3; the model has layers 0 to 2"):
        list(sweep(encoder, [], [at(LAYERS + 1)]))
    with pytest.raises(ArgumentError, match="changes the output of layer 1 twice"):
        _ = Variant("twice", (Erasure(2, a_map()), Erasure(2, a_map(1)))).changes
    with pytest.raises(ArgumentError, match="changed besides"):
        LayerIntervention(output=a_map(), skipped=True)

    class Strange:
        kind, heads, means = "strange", (), None

        def changes(self):
            return {EMBEDDINGS: LayerIntervention(skipped=True)}

    with pytest.raises(ArgumentError, match="more of the embeddings than what they give"):
        list(sweep(encoder, [], [Variant("strange", (Strange(),))]))
