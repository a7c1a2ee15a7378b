"""Word order: a planted head, random models, the whole probe on every kind of model."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.order import study as study_module
from qt_bert.probes.order.masks import Draws
from qt_bert.probes.order.probe import PROBE
from qt_bert.probes.order.scores import order_scores
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes import planted_order
from tests.probes.another_seed import tuned_again
from tests.probes.planted_shift import untrained
from tests.probes.shown import check_shown

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("planted") / "order"
    return planted_order.plant(checkpoint_of(**planted_order.SHAPE), out)


def test_the_planted_head_is_the_only_one_named(planted: Path) -> None:
    found = order_scores(Scorer(open_checkpoint(planted)), planted_order.pairs(), seed=0)
    head = Head(0, planted_order.HEAD)
    assert found.named().heads() == [head] == found.best(1)
    assert found.score[head] > 5 and found.identity[head] < -0.9
    assert found.offset[head] == 2  # the previous token
    assert found.coverage == 1.0 and found.compared == 30
    others = np.delete(found.score.ravel(), planted_order.HEAD)
    assert np.abs(others - 1).max() < 0.01


def context_of(folder: Path, pairs: Sequence[Pair], tmp_path: Path, **changes: Any) -> Context:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\ttitle\tgrade\n", encoding="utf-8")
    middle = len(pairs) // 2
    facts: dict[str, Any] = {
        "label": "order",
        "files": PairFiles(pairs=path, reader=ReaderOptions()),
        "work": tmp_path / "sweeps",
        "open_model": lambda: Scorer(open_checkpoint(folder)),
        "read_pairs": lambda labels: Split(list(pairs[:middle]), list(pairs[middle:]), 0),
        "resamples": 100,
    }
    return Context(**(facts | changes))


def run(context: Context, monkeypatch: pytest.MonkeyPatch) -> ProbeResult:
    small = Draws(matched=4, free=3, curve=2, curve_free=2)
    monkeypatch.setattr(study_module, "QUICK_DRAWS", small)
    monkeypatch.setattr(study_module, "FULL_DRAWS", small)
    return run_probe(PROBE, context)


def test_the_probe_names_the_planted_head(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(planted, planted_order.pairs(), tmp_path)
    found = run(context, monkeypatch)
    assert found.sets["order_named"] == (f"L0H{planted_order.HEAD}",)
    assert f"L0H{planted_order.HEAD}" in found.sets["order"]
    assert found.stability["order_named"].overlap == 1.0
    assert found.stability["order_named"].sources[0].source.en == "validation"
    assert set(found.stability) == {name for name, heads in found.sets.items() if heads}
    assert found.settings["guards"]["shuffled_titles"]["unmasked"] < 1e-4
    assert found.settings["trained_on_shuffled_titles"] == "unknown"
    assert found.settings["queries"] == found.pairs.n_queries == found.findings[0].n_queries
    path = tmp_path / "order.json"
    found.write(path)
    assert ProbeResult.read(path) == found
    assert found == run(context_of(planted, planted_order.pairs(), tmp_path), monkeypatch)
    shutil.rmtree(tmp_path / "sweeps")
    assert found == run(context_of(planted, planted_order.pairs(), tmp_path), monkeypatch)


@pytest.mark.parametrize(
    ("options", "sets"),
    [
        ({"labels": 1}, [(1,), (4,), (5,)]),
        ({"labels": 3}, [(1,), (2,), (3,)]),
        ({}, [(1, 2), (3, 4), (5,)]),
        ({"family": "xlm-roberta"}, [(1,), (3,), (5,)]),
        ({"family": "electra", "layers": 4, "heads": 4}, [(2,), (3,)]),
    ],
)
def test_every_kind_of_model_and_label(
    options: dict[str, Any],
    sets: list[GradeSet],
    checkpoint_of: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(0)
    pairs = [
        Pair(one.query, one.title, sets[n // 2 % len(sets)], str(n), n + 1, None, {})
        for n, one in enumerate(planted_order.pairs(24))
    ]
    rng.shuffle(pairs)
    found = run(context_of(checkpoint_of(**options), pairs, tmp_path), monkeypatch)
    found.write(tmp_path / "order.json")
    claims = [one for one in found.findings if one.primary]
    assert [one.id for one in claims] == ["order_ratio", "order_shuffled_grade"]
    names = {figure.name for figure in found.figures}
    assert ("order_title_grades" in names) == (options.get("labels") != 1)
    check_shown(found)
    if sets == [(2,), (3,)]:  # no high grade: nothing to be sensitive with
        assert [one.value for one in claims] == [None, None]
        assert all("no pair of a high grade" in one.claim.en for one in claims)  # type: ignore[union-attr]


@pytest.mark.parametrize("texts", [("a", "b"), ("iphone 15", "buy an iphone"), ("哈", "哈哈哈")])
def test_texts_with_nothing_to_shuffle_or_no_characters(
    texts: tuple[str, str],
    checkpoint_of: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [
        planted_order.pair(texts[0] + "c" * n, texts[1], (1 if n % 3 else 5,)) for n in range(12)
    ]
    found = run(context_of(checkpoint_of(), pairs, tmp_path), monkeypatch)
    found.write(tmp_path / "order.json")
    if len(texts[1]) == 1:
        assert found.settings["scored"]["validation"]["ineligible"] == 6
        assert found.sets["order"] == ()


def test_full_adds_the_other_mode_and_the_loud_control(
    checkpoint_of: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoint_of(layers=4, heads=4)
    context = context_of(folder, planted_order.pairs(), tmp_path, full=True)
    found = run(context, monkeypatch)
    assert {"order_mean", "order_loud"} <= {one.id for one in found.findings}


@pytest.mark.slow
def test_random_models_have_no_order_heads(checkpoint_of: Build, tmp_path: Path) -> None:
    pairs, base = planted_order.pairs(), checkpoint_of()
    named = 0
    for seed in range(20):
        folder = untrained(base, tmp_path / str(seed), seed)
        scores = order_scores(Scorer(open_checkpoint(folder)), pairs, seed=seed)
        named += bool(scores.named().heads())
    assert named <= 2


def test_another_seed_is_asked_for_the_same_heads(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = tuned_again(planted, tmp_path / "second")
    context = context_of(planted, planted_order.pairs(), tmp_path, second=second)
    sources = run(context, monkeypatch).stability["order_named"].sources
    assert [(one.source.en, one.overlap) for one in sources] == [
        ("validation", 1.0),
        ("another seed (second)", 1.0),
    ]
