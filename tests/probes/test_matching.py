"""The probe of term matching as a whole: planted heads, claims and figures, odd inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.ablation.variant import Variant
from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.heads import Head
from qt_bert.pairs import Pair, ReaderOptions
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.probes.term_matching import scores as scoring
from qt_bert.probes.term_matching import study as studying
from qt_bert.probes.term_matching.scores import chosen_heads
from qt_bert.probes.term_matching.slices import by_grade
from qt_bert.probes.term_matching.study import study
from qt_bert.results import Bars, Finding, HeatMap, ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes.another_seed import tuned_again
from tests.probes.planted_matching import MATCHING, pairs_of, plant_matching, write_pairs
from tests.probes.shown import check_shown

Build = Callable[..., ProbeContext]


@pytest.fixture
def context(checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path) -> Build:
    """A context around a tiny model and the eight pairs, any of its fields changed by keyword."""

    def build(model: Path | None = None, **changes: Any) -> ProbeContext:
        facts: dict[str, Any] = {
            "label": "matching",
            "files": PairFiles(pairs=pair_file),
            "work": tmp_path / "sweeps" / "matching",
            "open_model": lambda: Scorer(open_checkpoint(model or checkpoint_of())),
            "resamples": 50,
        }
        return ProbeContext(**(facts | changes))

    return build


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant_matching(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many steps as in the profile, each of a few draws."""
    few = studying.Draws(matched=5, free=3, beside=3, curve=2)
    monkeypatch.setattr(studying, "QUICK", few)
    monkeypatch.setattr(studying, "FULL", few)


def test_another_seed_is_asked_for_the_same_heads(
    context: Build, planted: Path, tmp_path: Path, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(40)))
    second = tuned_again(planted, tmp_path / "second")
    found = run(context(planted, files=files, second=second), tmp_path)
    sources = found.stability["named"].sources
    assert [(one.source.en, one.overlap) for one in sources] == [
        ("validation", 1.0),
        ("another seed (second)", 1.0),
    ]
    assert found.settings["second_seed"]["name"] == "second"


def test_discovery_is_scored_once(
    context: Build, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(30)))
    assert chosen_heads(context(planted, files=files), 1) == [MATCHING]

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("scored again")

    monkeypatch.setattr(scoring, "scores_on", refuse)
    made = context(planted, files=files)
    low = [Head(0, head) for head in range(4)]
    assert chosen_heads(made)[0] == MATCHING and len(chosen_heads(made)) == 2
    assert len(chosen_heads(made, within=low)) == 1 and chosen_heads(made, within=low)[0] in low
    assert chosen_heads(made, within=[]) == []


# The whole probe


def run(made: ProbeContext, tmp_path: Path) -> ProbeResult:
    """Run the probe, and read its result back."""
    found = run_probe(probe_named("matching"), made)
    found.write(tmp_path / "matching.json")
    return ProbeResult.read(tmp_path / "matching.json")


def test_the_probe_on_a_planted_model(
    context: Build, planted: Path, tmp_path: Path, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(40)))
    found = run(context(planted, files=files), tmp_path)
    assert found.sets["named"] == (str(MATCHING),)
    assert found.sets["named_query_to_title"] + found.sets["named_title_to_query"] == (
        str(MATCHING),
    )
    assert found.sets["matching"][0] == str(MATCHING)
    assert found.findings[0].id == "matching_found"
    assert found.findings[0].verdict == "reproduced"
    named = found.stability["named"]
    assert (named.overlap, named.halves, named.k) == (1.0, 1.0, 1)
    assert named.verdict == "undecided"  # of four heads in its layer chance draws it often
    assert [(one.source.en, one.overlap) for one in named.sources] == [("validation", 1.0)]
    assert set(found.stability) == {name for name, heads in found.sets.items() if heads}
    assert "--second" in found.settings["second_seed"]["en"]
    assert found.summary.en.startswith(
        "Heads named as matching on discovery: 1; of these at least 2× on validation, too: 1."
    )
    assert {figure.name for figure in found.figures} == {
        "matching_scores",
        "matching_kinds",
        "matching_curve",
        "matching_by_grade",
        "matching_by_overlap",
        "matching_kept",
        "matching_cut",
    }
    check_shown(found)


def finding(found: ProbeResult, id: str) -> Finding:
    return next(one for one in found.findings if one.id == id)


def test_validation_gives_the_figures(
    context: Build, planted: Path, tmp_path: Path, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(40)))
    made = context(planted, files=files)
    found, done = run(made, tmp_path), study(made)
    [best] = [one.scores for one in found.heads if one.head == str(MATCHING)]
    at = (*MATCHING, done.discovery.direction[MATCHING])
    study_score = float(done.validation.ratio()[at])
    assert best["score"] == pytest.approx(study_score)
    assert best["discovery_score"] == pytest.approx(done.discovery.ratio()[at])
    assert best["score"] == pytest.approx(finding(found, "matching_found").value)
    figures = {figure.name: figure for figure in found.figures}
    shown = figures["matching_scores"]
    assert isinstance(shown, HeatMap) and shown.marked == (tuple(MATCHING),)
    at_head = shown.values[MATCHING.layer][MATCHING.head]
    assert at_head == pytest.approx(np.log2(study_score))
    kept, cut = figures["matching_kept"], figures["matching_cut"]
    assert isinstance(kept, Bars) and len(kept.categories) == 3
    assert isinstance(cut, Bars) and len(cut.categories) == 4
    change = finding(found, "matching_change")
    assert not change.primary and change.value == pytest.approx(cut.series[0].values[-1])
    assert not finding(found, "matching_free").primary
    assert found.settings["queries"]["punctuation"] == {"title_to_query": 0, "query_to_title": 0}
    assert best["punctuation"] is None


def test_no_resamples_leave_the_intervals_out(
    context: Build, planted: Path, tmp_path: Path, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(20)))
    found = run(context(planted, files=files, resamples=0), tmp_path)
    assert {one.ci_low for one in found.findings} == {None}
    assert found.settings["resolution"] is None


def test_claims_are_set_against_controls(
    context: Build, planted: Path, tmp_path: Path, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(40)))
    made = context(planted, files=files)
    done = study(made)
    assert done.contests is not None and done.changes is not None
    changes, out = done.changes, done.contests.out
    loss, p = changes.against(out.target, out.matched)
    values = changes.values([out.target, *out.matched])
    assert loss.value == pytest.approx(values[0] - values[1:].mean())
    assert p == pytest.approx((1 + (values[1:] <= values[0]).sum()) / (1 + len(out.matched)))
    base = changes.base
    assert base.value == pytest.approx(100 * (changes.effects.base("accuracy") or 0))
    kept, low = done.contests.kept, done.contests.low_off
    assert kept is not None and low is not None
    assert {head.layer for head in kept.target.heads} == {0}
    assert set(kept.target.heads) | set(done.low) == {Head(0, head) for head in range(4)}
    whole = Variant("low:off")
    assert low.name == whole.name and len(low.heads) == 4
    grades = by_grade(changes, out.target, out.matched)
    assert sum(one.n_pairs for one in grades) == len(done.pairs)
    weighted = sum((one.change or 0) * one.n_pairs for one in grades) / len(done.pairs)
    assert weighted == pytest.approx(changes.of(out.target).value)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bert", {}),
        ("bert", {"labels": 1}),
        ("electra", {"layers": 4, "heads": 4}),
        ("xlm-roberta", {}),
        ("bert", {"layers": 1, "heads": 1}),
        ("bert", {"layers": 3, "heads": 1}),
    ],
)
def test_any_model_is_answered(
    family: str,
    options: dict[str, int],
    checkpoint_of: Callable[..., Path],
    context: Build,
    tmp_path: Path,
    few_draws: None,
) -> None:
    found = run(context(checkpoint_of(family, **options)), tmp_path)
    assert found.findings[0].id == "matching_found"
    assert 0 < found.settings["scored"]["discovery"]["coverage"] <= 1


def test_full_adds_the_louder_controls_and_means(
    context: Build, planted: Path, tmp_path: Path, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(20)))
    found = run(context(planted, files=files, full=True), tmp_path)
    assert {"matching_loud", "matching_mean"} <= {one.id for one in found.findings}
    assert finding(found, "matching_free").primary and found.settings["shortened"] is None


def test_louder_controls_are_matched_on_discovery(
    context: Build, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(20)))
    made, seen = context(planted, files=files, full=True), []

    def norms(scorer: Scorer, pairs: list[Pair]) -> np.ndarray:
        seen.append(pairs)
        return np.ones((2, 4))

    monkeypatch.setattr(studying, "head_norms", norms)
    study(made)
    assert seen == [made.discovery]


def test_coarse_labels_and_texts_without_han_characters(
    context: Build, tmp_path: Path, few_draws: None
) -> None:
    rows = [("abc", "abd"), ("xyz", "zyw"), ("k9", "9k"), ("qrs", "qr1"), ("def", "fed")]
    path = tmp_path / "p.tsv"
    lines = [f"{q}{n}\t{t}{n}\t{n % 2}" for n, (q, t) in enumerate(rows * 3)]
    path.write_text("query\ttitle\tgrade\n" + "\n".join(lines) + "\n", encoding="utf-8")
    files = PairFiles(pairs=path, reader=ReaderOptions(grades="0=1-2,1=4-5"))
    found = run(context(files=files), tmp_path)
    assert found.settings["scored"]["discovery"]["coverage"] == 1


def test_pairs_that_share_nothing_leave_the_claims_open(
    context: Build, tmp_path: Path, few_draws: None
) -> None:
    path = tmp_path / "p.tsv"
    rows = [("北京", "手机", 1), ("上海", "苹果", 2), ("红烧", "电影", 3), ("排骨", "高铁", 5)]
    found = run(context(files=PairFiles(pairs=write_pairs(path, rows))), tmp_path)
    assert [one.verdict for one in found.findings] == ["inconclusive"]
    assert found.sets["matching"] == ()
    assert found.summary.en.startswith("No pair")
