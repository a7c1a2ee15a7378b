"""The probe of term matching as a whole: planted heads, claims and measurements, odd inputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.ablation.interventions import Variant
from qt_bert.data.reader import ReaderOptions
from qt_bert.figures import Bars, HeatMap
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head
from qt_bert.probes import contests, matching, matching_scores
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.contests import ablate, zeroed
from qt_bert.probes.matching_scores import chosen_heads
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.probes.texts import texts_of
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes.another_seed import tuned_again
from tests.probes.planted_matching import MATCHING, pairs_of, plant_matching, write_pairs
from tests.probes.shown import check_shown

Build = Callable[..., Context]


@pytest.fixture
def context(checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path) -> Build:
    """A context around a tiny model and the eight pairs, any of its fields changed by keyword."""

    def build(model: Path | None = None, **changes: Any) -> Context:
        facts: dict[str, Any] = {
            "label": "matching",
            "files": PairFiles(pairs=pair_file),
            "work": tmp_path / "sweeps" / "matching",
            "open_model": lambda: Scorer(open_checkpoint(model or checkpoint_of())),
            "resamples": 50,
        }
        return Context(**(facts | changes))

    return build


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant_matching(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture
def grading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of these tests grade at random; claims are judged all the same."""
    monkeypatch.setattr(matching, "grades_nothing", lambda context: False)


def run(made: Context, tmp_path: Path) -> ProbeResult:
    """Run the probe, and read its result back."""
    found = run_probe(probe_named("matching"), made)
    found.write(tmp_path / "matching.json")
    return ProbeResult.read(tmp_path / "matching.json")


def values_of(found: ProbeResult) -> dict[str, float | None]:
    return {one.id: one.value for one in found.measurements}


def reasons_of(found: ProbeResult) -> dict[str, str]:
    return {one.id: one.reason for one in found.claims}


def test_discovery_is_scored_once(
    context: Build, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(30)))
    assert chosen_heads(context(planted, files=files), 1) == [MATCHING]

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("scored again")

    monkeypatch.setattr(matching_scores, "scores_on", refuse)
    made = context(planted, files=files)
    low = [Head(0, head) for head in range(4)]
    assert chosen_heads(made)[0] == MATCHING and len(chosen_heads(made)) == 2
    assert len(chosen_heads(made, within=low)) == 1 and chosen_heads(made, within=low)[0] in low
    assert chosen_heads(made, within=[]) == []


def test_the_planted_head_is_found_and_shown(context: Build, planted: Path, tmp_path: Path) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(60)))
    second = tuned_again(planted, tmp_path / "second")
    found = run(context(planted, files=files, second=second), tmp_path)
    assert found.sets["named"] == (str(MATCHING),)
    assert found.sets["named_query_to_title"] + found.sets["named_title_to_query"] == (
        str(MATCHING),
    )
    assert found.sets["matching"][0] == str(MATCHING) and str(MATCHING) in found.sets["by_weight"]
    assert [len(found.sets[name]) for name in ("matching", "by_weight", "low_half")] == [2, 2, 1]
    assert set(found.stability) == {name for name, heads in found.sets.items() if heads}
    named = found.stability["named"]
    assert (named.overlap, named.halves, named.k) == (1.0, 1.0, 1)
    assert [(one.source.en, one.overlap) for one in named.sources] == [
        ("validation", 1.0),
        ("another seed (second)", 1.0),
    ]
    scores = {one.head: one.scores for one in found.heads}
    best = scores[str(MATCHING)]
    values = values_of(found)
    assert best["score"] == pytest.approx(values["best_lift"]) and best["score"] > 20
    assert 0.5 < best["matched_weight"] <= best["weight"] < 1.001
    assert best["punctuation"] is None
    figures = {figure.name: figure for figure in found.figures}
    assert list(figures) == ["lift", "matched_weight", "losses", "labels", "kinds"]
    lift, weight = figures["lift"], figures["matched_weight"]
    assert isinstance(lift, HeatMap) and isinstance(weight, HeatMap)
    assert lift.marked == weight.marked == (tuple(MATCHING),)
    assert lift.values[1][2] == pytest.approx(np.log2(best["score"]))
    assert weight.values[1][2] == pytest.approx(100 * best["matched_weight"])
    check_shown(found)
    # A model that grades at random has nothing to lose.
    assert set(reasons_of(found).values()) == {"grades_nothing"}
    texts = texts_of("matching")
    for path, _ in texts.every_text():
        assert all((texts.text(path, found.facts).zh, texts.text(path, found.facts).en)), path


def test_what_is_lost_is_counted_on_validation(
    context: Build, planted: Path, tmp_path: Path
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(40)))
    made = context(planted, files=files)
    found = run(made, tmp_path)
    values, five = values_of(found), [Head.parse(one) for one in found.sets["matching"]]
    assert [one for one in values if one.startswith("alone")] == ["alone_1", "alone_2"]
    low = {Head(0, head) for head in range(4)} - {Head.parse(one) for one in found.sets["low_half"]}
    again = ablate(
        made,
        "again",
        [Variant("out", (zeroed(five),)), Variant("kept", (zeroed(low),))],
        made.validation,
    )
    assert values["five_loss"] == pytest.approx(
        np.mean(again.points("none") - again.points("out")), abs=1e-4
    )
    right = {
        name: np.mean(
            [
                row.argmax() + 1 in pair.grades
                for row, pair in zip(again.logits(name), again.pairs, strict=True)
            ]
        )
        for name in ("none", "out", "kept")
    }
    assert values["accuracy_relative"] == pytest.approx(100 * (right["out"] / right["none"] - 1))
    assert values["low_half_kept"] == pytest.approx(100 * right["kept"] / right["none"])
    labels = next(one for one in found.figures if one.name == "labels")
    assert isinstance(labels, Bars)
    sizes = [sum(pair.grades == (grade,) for pair in again.pairs) for grade in range(1, 6)]
    mean = np.average(labels.series[0].values, weights=sizes)
    assert mean == pytest.approx(values["five_loss"], abs=1e-4)


def test_claims_are_set_against_every_layer_matched_set(
    context: Build,
    checkpoint_of: Callable[..., Path],
    tmp_path: Path,
    grading: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    five = [Head(layer, 1) for layer in range(4)]
    monkeypatch.setattr(
        matching, "chosen_heads", lambda context, within=None: five[:2] if within else five
    )
    monkeypatch.setattr(matching_scores.Scores, "named", lambda self: [Head(0, 0)])
    monkeypatch.setattr(contests, "_goes_beyond", lambda *asked: True)  # else 33 sets are enough
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(60)))
    made = context(checkpoint_of("bert", layers=4, heads=4), files=files, resamples=200)
    found = run(made, tmp_path)
    claims = {one.id: one for one in found.claims}
    assert list(claims) == ["matching.five", "matching.rest", "matching.cut"]
    # One head a layer, but for the five and the named one: 2 · 3 · 3 · 3 sets.
    sets = list(product((2, 3), *3 * ((0, 2, 3),)))
    variants = [Variant("five", (zeroed(five),))]
    variants += [
        Variant(str(numbers), (zeroed(Head(*one) for one in enumerate(numbers)),))
        for numbers in sets
    ]
    again = ablate(made, "again", variants, made.validation)
    losses = [again.loss(one.name).value for one in variants]
    assert claims["matching.five"].value == pytest.approx(losses[0] - np.mean(losses[1:]), abs=1e-4)
    rank = (1 + sum(one >= losses[0] for one in losses[1:])) / 55
    assert claims["matching.five"].p == pytest.approx(rank)
    assert "not testable" not in {claims[f"matching.{name}"].verdict for name in ("five", "cut")}
    alone = [Variant(str(head), (zeroed([head]),)) for head in five]
    cost = ablate(made, "alone_again", alone, made.discovery)
    worst = max(five, key=lambda head: cost.loss(str(head)).value)
    assert found.facts["costliest"] == str(worst)
    rest = ablate(made, "rest_again", [Variant("r", (zeroed({*five} - {worst}),))], made.validation)
    assert values_of(found)["rest_loss"] == pytest.approx(rest.loss("r").value, abs=1e-4)


def test_a_one_logit_model_is_judged_by_its_ordinal_map(
    context: Build, checkpoint_of: Callable[..., Path], tmp_path: Path, grading: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(60)))
    model = checkpoint_of("xlm-roberta", labels=1, layers=4, heads=8)
    found = run(context(model, files=files), tmp_path)
    assert all(one.value is not None for one in found.claims)
    values = values_of(found)
    assert values["five_loss"] is not None and "accuracy_relative" not in values


@pytest.mark.parametrize(
    ("options", "full"),
    [({"layers": 1, "heads": 1}, False), ({"layers": 3, "heads": 1}, True)],
)
def test_a_model_without_other_heads_has_no_contest(
    options: dict[str, int],
    full: bool,
    checkpoint_of: Callable[..., Path],
    context: Build,
    tmp_path: Path,
    grading: None,
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(60)))
    found = run(context(checkpoint_of(**options), files=files, full=full), tmp_path)
    assert reasons_of(found) == {
        "matching.five": "few_sets",
        "matching.rest": "no_others",
        "matching.cut": "few_sets",
    }
    assert {one.verdict for one in found.claims} == {"not testable"}


def test_a_tiny_file_tests_nothing_but_measures(context: Build, tmp_path: Path) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(20)))
    found = run(context(files=files), tmp_path)
    assert set(reasons_of(found).values()) == {"few_queries"}
    assert {one.verdict for one in found.claims} == {"not testable"}
    assert values_of(found)["five_loss"] is not None


def test_coarse_labels_and_texts_without_han_characters(context: Build, tmp_path: Path) -> None:
    rows = [("abc", "abd"), ("xyz", "zyw"), ("k9", "9k"), ("qrs", "qr1"), ("def", "fed")]
    path = tmp_path / "p.tsv"
    lines = [f"{q}{n}\t{t}{n}\t{n % 2}" for n, (q, t) in enumerate(rows * 3)]
    path.write_text("query\ttitle\tgrade\n" + "\n".join(lines) + "\n", encoding="utf-8")
    files = PairFiles(pairs=path, reader=ReaderOptions(grades="0=1-2,1=4-5"))
    found = run(context(files=files), tmp_path)
    assert found.settings["scored"]["discovery"]["coverage"] == 1


def test_pairs_that_share_nothing_measure_nothing(context: Build, tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    rows = [("北京", "手机", 1), ("上海", "苹果", 2), ("红烧", "电影", 3), ("排骨", "高铁", 5)]
    found = run(context(files=PairFiles(pairs=write_pairs(path, rows))), tmp_path)
    assert set(reasons_of(found).values()) == {"nothing_shared"} and found.measurements == ()
    assert found.sets["matching"] == () and found.heads[0].scores["score"] is None
    assert found.summary.en.startswith("No pair")
