"""What is set back, by name, and the proof that both ends are what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.interventions import EMBEDDINGS, Variant
from qt_bert.ablation.weights import Earlier, RevertedLayers
from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.revert import earlier as module
from qt_bert.probes.revert.earlier import earlier_of, guard
from qt_bert.probes.revert.variants import Reversions, reversions
from qt_bert.probes.streams import stream
from qt_bert.scoring.bulk import Scorer
from tests.probes import planted_shift
from tests.probes.planted_shift import opened

Build = Callable[..., Path]
SHAPE, CHANGED = Shape(2, 4), Head(0, 1)
PAIRS = planted_shift.pairs()


@pytest.fixture(scope="module")
def tuned(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scorer]:
    """The folder of a base, and a model whose L0H1 alone is another."""
    folder, out = checkpoint_of(**planted_shift.SHAPE), tmp_path_factory.mktemp("planted")
    base = planted_shift.plant(folder, out / "base", 0.0)
    return base, opened(planted_shift.plant(folder, out / "model", 1.0))


def made(tuned: tuple[Path, Scorer], heads: list[Head]) -> Reversions:
    _, earlier = earlier_of(*tuned)
    return reversions(earlier, SHAPE, heads, draws=9, seed=0, each=True)


def test_names_and_heads(tuned: tuple[Path, Scorer]) -> None:
    found = made(tuned, [CHANGED, Head(1, 0)])
    names = [one.name for one in found.variants]
    assert names[:3] == ["revert:all", "revert:heads", "revert:set"]
    assert {"keep:set", "revert:L0H1", "keep:L0H1", "revert:embeddings", "revert:L1"} < set(names)
    assert len(set(names)) == len(names) == 3 + 9 + 1 + 8 + 8 + 3
    assert found.kept is not None and len(found.kept.heads) == 6
    assert len(found.kept_alone[CHANGED].heads) == 7
    assert found.contest is not None and len(found.contest.matched) == 9
    assert list(found.layers) == [EMBEDDINGS, 0, 1]


def test_without_heads_to_ask_about_and_with_all_of_them(tuned: tuple[Path, Scorer]) -> None:
    alone = reversions(earlier_of(*tuned)[1], SHAPE, [], draws=9, seed=0)
    assert [one.name for one in alone.variants] == ["revert:all", "revert:heads"]
    every = made(tuned, SHAPE.all_heads)
    assert every.kept is None and every.contest is not None and not every.contest.matched


def test_the_changed_head_alone_brings_the_base_back(tuned: tuple[Path, Scorer]) -> None:
    found, scorer = made(tuned, [CHANGED]), tuned[1]
    variants = found.variants
    texts = [(pair.query, pair.title) for pair in PAIRS]
    logits = dict(
        zip(
            [one.name for one in variants],
            stream(scorer, texts, (), variants)["logits"],
            strict=True,
        )
    )
    plain, base = scorer.logits(texts), opened(tuned[0]).logits(texts)
    assert np.abs(plain - base).max() > 0.01
    for name in ("revert:L0H1", "revert:set", "revert:heads", "revert:all", "revert:L0"):
        np.testing.assert_allclose(logits[name], base, atol=5e-5)
    same = ["keep:L0H1", "keep:set", "revert:L1", "revert:embeddings", "revert:L1H3"]
    for name in (*same, *(one.name for one in found.contest.matched)):
        np.testing.assert_allclose(logits[name], plain, atol=5e-5)
    np.testing.assert_allclose(logits["keep:L0H0"], base, atol=5e-5)


def test_the_guard_measures_both_ends(
    tuned: tuple[Path, Scorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, scorer = tuned
    _, earlier = earlier_of(folder, scorer)

    def run() -> dict[str, float]:
        return guard(scorer, folder, earlier, lambda _: made(tuned, [CHANGED]).variants, PAIRS)

    figures = run()
    assert max(figures["nothing"], figures["everything"]) <= figures["ends_bound"] < 1e-3
    assert figures["variants"]

    def half(earlier: Earlier) -> Variant:
        return Variant("revert:all", (RevertedLayers((1,), earlier, embeddings=True),), "revert")

    monkeypatch.setattr(module, "everything", half)
    with pytest.raises(EquivalenceError, match="with everything set back"):
        run()


def test_a_base_that_the_model_cannot_come_from(
    checkpoint_of: Build, tuned: tuple[Path, Scorer]
) -> None:
    scorer = opened(checkpoint_of())
    with pytest.raises(CheckpointError, match="number of layers"):
        earlier_of(checkpoint_of(layers=3), scorer)
    with pytest.raises(CheckpointError, match="number of positions"):
        earlier_of(checkpoint_of(positions=32), scorer)
    with pytest.raises(ArgumentError, match="do not fit the model's"):
        earlier_of(checkpoint_of(hidden=32), scorer)
