"""Whole layers left out, against the Hugging Face model with these layers deleted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.engine import LayerPass, Reduction, sweep
from qt_bert.ablation.folder import write_variants
from qt_bert.ablation.interventions import NONE, LayerIntervention, Variant
from qt_bert.ablation.masks import BlocksOut, HeadMask, blocks, without_blocks
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head, Shape
from tests.ablation.test_loop import TEXTS
from tests.conftest import FAMILIES

SHAPE = Shape(4, 2)
OPTIONS = {"layers": 4, "heads": 2, "hidden": 16}
SETS = [(0,), (2,), (3,), (0, 1), (2, 3), (1, 3), (0, 1, 2), (1, 2, 3), (0, 1, 3)]
"""One block; the last; all but the last; all but the first; what lies between."""


@pytest.fixture
def opened(checkpoint_of: Callable[..., Path]) -> Callable[..., tuple]:
    def build(family: str = "bert", **options) -> tuple:
        checkpoint = open_checkpoint(checkpoint_of(family, **OPTIONS), **options)
        return checkpoint, Encoder(checkpoint.model, checkpoint.family)

    return build


def batches(checkpoint, budget: int = 1000) -> list[Batch]:
    return list(batches_of(checkpoint.pair_tokenizer().encode(TEXTS), budget, pad=checkpoint.pad))


def masked(*heads: Head) -> HeadMask:
    return HeadMask(heads)


def run(encoder, given: list[Batch], variants, **options) -> np.ndarray:
    out = np.full((len(variants), len(TEXTS), encoder.model.config.num_labels), np.nan, np.float32)
    for swept in sweep(encoder, given, variants, **options):
        out[:, swept.rows] = swept.logits
    return out


def deleted(checkpoint, given: list[Batch], out: Iterable[int], heads: Iterable[Head] = ()):
    """Logits of the Hugging Face model without some layers; heads are zeroed in W_O's columns."""
    model = copy.deepcopy(checkpoint.model)
    encoder = getattr(model, checkpoint.family.backbone).encoder
    for head in heads:
        columns = encoder.layer[head.layer].attention.output.dense.weight.data
        columns.unflatten(1, (SHAPE.heads, -1))[:, head.head] = 0
    kept = [module for n, module in enumerate(encoder.layer) if n not in set(out)]
    encoder.layer = torch.nn.ModuleList(kept)
    logits = np.full((len(TEXTS), model.config.num_labels), np.nan, np.float32)
    for batch in given:
        with torch.no_grad():
            found = model(batch.input_ids, batch.real.long(), batch.token_type_ids).logits
        logits[batch.rows] = found.numpy()
    return logits


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [1, 1000])
def test_equal_to_the_model_without_these_layers(opened, family, budget):
    checkpoint, encoder = opened(family)
    given = batches(checkpoint, budget)
    variants = [NONE, *map(without_blocks, SETS)]
    got = run(encoder, given, variants, tokens=60)
    for out, logits in zip([(), *SETS], got, strict=True):
        np.testing.assert_allclose(logits, deleted(checkpoint, given, out), rtol=1e-5, atol=1e-5)
    assert all(np.abs(logits - got[0]).max() > 1e-3 for logits in got[1:])


def test_together_with_head_masks_in_other_layers(opened):
    checkpoint, encoder = opened()
    given = batches(checkpoint)
    cases = [
        ((1,), [Head(0, 1), Head(2, 0)]),
        ((3,), [Head(2, 0), Head(2, 1)]),  # nothing above layer 1 mixes
        ((0, 2), [Head(3, 1)]),
        ((0,), [Head(n, h) for n in (2, 3) for h in (0, 1)]),
    ]
    variants = [NONE] + [
        Variant(str(at), (BlocksOut(out), masked(*heads))) for at, (out, heads) in enumerate(cases)
    ]
    got = run(encoder, given, variants)
    for (out, heads), logits in zip(cases, got[1:], strict=True):
        np.testing.assert_allclose(
            logits, deleted(checkpoint, given, out, heads), rtol=1e-5, atol=1e-5
        )


def test_beside_other_variants_of_the_same_states(opened):
    """One stack holds branches that run a layer, masked or not, and one that skips it."""
    checkpoint, encoder = opened()
    given = batches(checkpoint)
    variants = [NONE, *blocks(SHAPE)]
    variants += [Variant(str(head), (masked(head),)) for head in SHAPE.all_heads]
    together = run(encoder, given, variants, tokens=100_000)
    for variant, logits in zip(variants, together, strict=True):
        np.testing.assert_allclose(run(encoder, given, [variant])[0], logits, atol=1e-5)


def test_a_skipped_layer_costs_nothing(opened, monkeypatch):
    """Layers below the first block are shared, a skipped one is not computed for those without it."""
    checkpoint, encoder = opened()
    finished, projected = [], []
    kind = type(encoder.layers[0])
    feed_forward, project = kind.feed_forward, kind.project
    monkeypatch.setattr(
        kind, "feed_forward", lambda s, m, h: finished.append(len(m)) or feed_forward(s, m, h)
    )
    monkeypatch.setattr(kind, "project", lambda s, h: projected.append(len(h)) or project(s, h))
    (batch,) = batches(checkpoint)
    variants = [without_blocks(out) for out in ((1,), (1, 2))]
    list(sweep(encoder, [batch], variants, tokens=100_000))
    assert finished == [1, 1, 2]
    assert projected == [len(batch), len(batch)]  # the last layer's first row needs none


def test_the_first_row_alone_goes_on_below_a_skipped_top(opened, monkeypatch):
    checkpoint, encoder = opened()
    rows = []
    kind = type(encoder.layers[0])
    original = kind.feed_forward
    monkeypatch.setattr(
        kind, "feed_forward", lambda s, m, h: rows.append(m.shape[2]) or original(s, m, h)
    )
    given = batches(checkpoint)
    length = given[0].input_ids.shape[1]
    list(sweep(encoder, given, [without_blocks((2, 3))]))
    assert rows == [length, 1]


def test_reductions_of_the_output_see_the_input(opened):
    checkpoint, encoder = opened()
    given = batches(checkpoint)
    hidden = Reduction("hidden", "hidden", (1, 2), lambda view: view.values)
    (swept,) = sweep(encoder, given, [NONE, without_blocks((2,))], [hidden])
    below, above = swept.reduced["hidden"][1, :, 0], swept.reduced["hidden"][1, :, 1]
    np.testing.assert_array_equal(below, above)
    np.testing.assert_allclose(below, swept.reduced["hidden"][0, :, 0], atol=1e-6)


def test_faults_are_named(opened):
    checkpoint, encoder = opened()
    given = batches(checkpoint)
    with pytest.raises(ArgumentError, match="'B0[+]B1[+]B2[+]B3' leaves out every layer"):
        list(sweep(encoder, given, [without_blocks((0, 1, 2, 3))]))
    with pytest.raises(ArgumentError, match="changes layer 4; the model has layers 0 to 3"):
        list(sweep(encoder, given, [without_blocks((4,))]))
    with pytest.raises(ArgumentError, match="name layers from 0"):
        BlocksOut(())
    with pytest.raises(ArgumentError, match="name layers from 0"):
        BlocksOut((2, -1))
    with pytest.raises(ArgumentError, match="the only layer"):
        blocks(Shape(1, 4))
    both = Variant("v", (BlocksOut((1,)), masked(Head(1, 0))))
    with pytest.raises(ArgumentError, match="variant 'v', layer 1: a layer that is left out whole"):
        list(sweep(encoder, given, [both]))
    twice = Variant("v", (BlocksOut((1,)), BlocksOut((1, 2))))
    with pytest.raises(ArgumentError, match="changes the skipped of layer 1 twice"):
        list(sweep(encoder, given, [twice]))
    weights = Reduction("r", "attention", (2,), lambda view: view.values)
    with pytest.raises(ArgumentError, match="'r' asks for the attention of layer 2, which .*'B2'"):
        list(sweep(encoder, given, blocks(SHAPE), [weights]))


def test_a_change_knows_that_a_skipped_layer_does_not_mix():
    assert not LayerIntervention(skipped=True).mixes(4)
    assert LayerIntervention().mixes(4)


def test_names_and_table(tmp_path):
    made = blocks(Shape(3, 2)) + [without_blocks((2, 0, 2))]
    assert [(v.name, v.mode, v.family, v.heads) for v in made] == [
        ("B0", "skip", "blocks", ()),
        ("B1", "skip", "blocks", ()),
        ("B2", "skip", "blocks", ()),
        ("B0+B2", "skip", "blocks", ()),
    ]
    write_variants(tmp_path / "variants.csv", made[:1])
    assert (tmp_path / "variants.csv").read_text().splitlines()[-1] == "B0,blocks,skip,,,"


@pytest.mark.parametrize("family", FAMILIES)
def test_checks_hold_for_blocks(opened, family):
    checkpoint, encoder = opened(family)
    encoded = checkpoint.pair_tokenizer().encode(TEXTS)
    variants = blocks(SHAPE) + [Variant("both", (BlocksOut((1,)), masked(Head(2, 0))))]
    found = check_equivalence(checkpoint, encoder, variants, encoded)
    assert len(found["variants"]) == 5 and max(found["variants"].values()) <= found["bound"]


def test_a_guard_catches_a_block_that_is_not_skipped(opened, monkeypatch):
    checkpoint, encoder = opened()
    finish = LayerPass.finish

    def scaled(self, chunk):
        output = finish(self, chunk)
        for place, branch in enumerate(chunk):
            output[place] *= 1.0 if branch.passed is None else 1.5
        return output

    monkeypatch.setattr(LayerPass, "finish", scaled)
    encoded = checkpoint.pair_tokenizer().encode(TEXTS)
    with pytest.raises(EquivalenceError, match="variant B. differs from the Hugging Face model"):
        check_equivalence(checkpoint, encoder, blocks(SHAPE), encoded)


def test_bfloat16_follows_float32(opened):
    variants = [NONE, *blocks(SHAPE)]
    exact, short = (
        run(encoder, batches(checkpoint), variants)
        for checkpoint, encoder in (opened(dtype=d) for d in ("float32", "bfloat16"))
    )
    assert np.corrcoef(exact.ravel(), short.ravel())[0, 1] > 0.99
