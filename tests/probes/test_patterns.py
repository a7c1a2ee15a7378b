"""The probe `patterns`: planted heads, with and without a base, models of every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.figures import Bars, HeatMap
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.models.heads import Head
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.patterns import study as patterns
from qt_bert.probes.patterns.claims import findings
from qt_bert.probes.patterns.classifier import open_classifier
from qt_bert.probes.patterns.correction import are_known, rates
from qt_bert.probes.patterns.errors import Errors
from qt_bert.probes.patterns.figures import commonest
from qt_bert.probes.patterns.probe import PROBE
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import Finding, ProbeResult
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import PATTERNS, shipped
from tests.conftest import CHARACTERS
from tests.probes import planted_shift
from tests.probes.judged import outcome
from tests.probes.planted_matching import HEADS, WIDTH, plant_matching
from tests.probes.planted_matching import _plant as plant

Run = Callable[..., ProbeResult]
PAIRS = planted_shift.pairs()
KINDS = ("vertical", "diagonal", "both", "block", "heterogeneous")


@pytest.fixture
def run(tmp_path: Path, pair_file: Path) -> Run:
    """The probe's result on a folder, over made pairs of as many queries."""

    def result(model: Path, base: Path | None = None, pairs: int = 20) -> ProbeResult:
        def split(labels: ModelLabels) -> Split:
            graded = [
                replace(pair, grades=(1 + row % labels.logits,)) for row, pair in enumerate(PAIRS)
            ]
            return Split(graded[:5], graded[-pairs:], 0)

        context = Context(
            label="patterns",
            files=PairFiles(pairs=pair_file),
            read_pairs=split,
            work=tmp_path / "sweeps",
            open_model=lambda: Scorer(open_checkpoint(model)),
            base=base,
            resamples=100,
        )
        return run_probe(PROBE, context)

    return result


def scores(result: ProbeResult) -> dict[str, dict[str, float | None]]:
    return {one.head: one.scores for one in result.heads}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of uniform heads, but L0H1 looks five places on, L0H2 one place on, L1H0 at [CLS]."""
    import torch
    from transformers import BertForSequenceClassification

    folder = plant_matching(tmp_path_factory.mktemp("planted") / "model")
    model = BertForSequenceClassification.from_pretrained(folder)
    next_one, first = np.zeros((2, 2, WIDTH, HEADS * WIDTH))
    next_one[:, :, WIDTH : 2 * WIDTH] = np.eye(WIDTH)
    next_one[0] = np.roll(next_one[0], 1, axis=0)
    first[0, 0, WIDTH : 2 * WIDTH] = first[1, 0, WIDTH] = 1
    for head, projections in ((Head(0, 2), next_one), (Head(1, 0), first)):
        with torch.no_grad():
            plant(model, head, (projections[0], projections[1]))
    model.save_pretrained(folder)
    return folder


def test_planted_heads_are_told_apart(planted: Path) -> None:
    han = sorted({one for one in CHARACTERS if not one.isascii()})
    texts = [("".join(han[i : i + 4]), "".join(han[i + 8 : i + 24])) for i in range(3)]
    pairs = [Pair(*text, (4,), str(i), i + 1, "4", {}) for i, text in enumerate(texts)]
    scorer = Scorer(open_checkpoint(planted))
    classifier = open_classifier(shipped(PATTERNS))
    found = patterns.read(scorer, pairs, scorer.checkpoint.shape.all_heads, classifier)
    assert found.of_head("heterogeneous")[0, 1] == 1
    assert found.of_head("diagonal")[0, 2] == 1
    assert found.of_head("vertical")[1, 0] == 1
    assert found.of_head("whole")[0, 0] == found.of_head("block")[0, 0] == 1
    assert commonest(found)[Head(0, 2)] == "diagonal"
    np.testing.assert_allclose(found.of_all[:, :5].sum(1), 1)


def test_shares_before_and_after(run: Run, checkpoint_of: Callable[..., Path]) -> None:
    model, base = checkpoint_of(seed=1, heads=4), checkpoint_of(seed=2, heads=4)
    result = run(model, base)
    by_id = {one.id: one for one in result.findings}
    names = ("vertical_rises", "a_third_vertical", "under_half_heterogeneous")
    assert [one.id for one in result.findings if one.primary] == [f"patterns.{n}" for n in names]
    assert all(f"patterns.{name}_corrected" in by_id for name in names)
    assert all(not by_id[f"patterns.{name}_second_pass"].primary for name in names)
    found = scores(result)
    after, before = (
        np.mean([one[name] for one in found.values()]) for name in ("vertical", "vertical_before")
    )
    assert by_id["patterns.vertical_rises"].value == pytest.approx(100 * (after - before))
    assert by_id["patterns.a_third_vertical"].margin == pytest.approx(100 / 3)
    turned = {one.id: one for one in run(base, model).findings}
    rise = by_id["patterns.vertical_rises"].value
    assert turned["patterns.vertical_rises"].value == pytest.approx(-(rise or 0))
    figures = {one.name: one for one in result.figures}
    assert {"shares", "layers_before", "layers_after", "vertical_change", "commonest"} < set(
        figures
    )
    layers = figures["layers_after"]
    assert isinstance(layers, HeatMap)
    assert sum(layers.values[0][:5]) == pytest.approx(100)  # type: ignore[arg-type]
    shares = figures["shares"]
    assert isinstance(shares, Bars) and len(shares.series) == 2
    assert set(result.settings["commonest"].values()) <= set(KINDS)


Stated = Callable[..., dict[str, Finding]]


@pytest.fixture
def stated(tmp_path: Path, pair_file: Path) -> Stated:
    """The findings on made shares of two heads, about [KINDS] each, over 60 queries."""

    def found(after: list[float], before: list[float], **options: object) -> dict[str, Finding]:
        def shares(about: list[float], seed: int) -> patterns.Shares:
            drawn = np.random.default_rng(seed).dirichlet(200 * np.array(about), (60, 1, 2))
            seen = np.concatenate([drawn, np.zeros((60, 1, 2, 1))], axis=-1)
            return patterns.Shares(seen, [Head(0, 0), Head(0, 1)], seen)

        classifier = replace(open_classifier(shipped(PATTERNS)), **options)
        study = patterns.Study([], classifier, shares(after, 1), None, shares(before, 2))
        context = Context(
            label="patterns",
            files=PairFiles(pairs=pair_file),
            work=tmp_path,
            open_model=lambda: pytest.fail("no model is needed"),
            resamples=200,
        )
        return {one.id.partition(".")[2]: one for one in findings(study, context)}

    return found


def test_planted_shares_are_judged_rightly(stated: Stated) -> None:
    names = ("vertical_rises", "a_third_vertical", "under_half_heterogeneous")
    many, few = [0.45, 0.1, 0.01, 0.1, 0.34], [0.2, 0.1, 0.01, 0.1, 0.59]
    found = stated(many, few)
    assert [outcome(found[name]) for name in names] == ["reproduced"] * 3
    assert found["vertical_rises"].value == pytest.approx(25, abs=2)
    assert found["under_half_heterogeneous"].value == pytest.approx(66, abs=2)
    found = stated(few, many)
    assert [outcome(found[name]) for name in names] == ["not reproduced"] * 3
    found = stated([1 / 3, 0.08, 0.02, 0.067, 0.5], [1 / 3, 0.08, 0.02, 0.067, 0.5])
    assert [outcome(found[name]) for name in names] == ["inconclusive"] * 3


def test_correction_gives_back_planted_shares(stated: Stated) -> None:
    """Answers made of known shares by known errors; the interval holds what so few labels leave open."""
    tables = np.zeros((40, 5, 5))
    tables[:, [0, 1, 3, 4], [0, 1, 3, 4]] = 2
    tables[:10, 0, 0], tables[:10, 0, 4] = 0, 2
    tables[:5, 4, 4], tables[:5, 4, 0] = 0, 2
    errors = Errors(tables)
    told = rates(errors.confusion, are_known(errors.confusion))
    after, before = np.array([0.4, 0.1, 0.0, 0.1, 0.4]), np.array([0.2, 0.1, 0.0, 0.1, 0.6])
    answers = [(told.T @ one).clip(1e-4).tolist() for one in (after, before)]
    found = stated(*answers, errors=errors, errors_second=errors)
    for name in ("corrected", "second_pass"):
        for claim, truth in (
            ("vertical_rises", 20),
            ("a_third_vertical", 40),
            ("under_half_heterogeneous", 60),
        ):
            one, plain = found[f"{claim}_{name}"], found[claim]
            assert not one.primary and one.p is None
            assert one.value == pytest.approx(truth, abs=2.5)
            assert one.ci_low is not None and one.ci_high is not None
            assert one.ci_low < truth < one.ci_high
            assert plain.ci_low is not None and plain.ci_high is not None
            assert one.ci_high - one.ci_low > 2 * (plain.ci_high - plain.ci_low)
    # Without errors nothing is corrected.
    perfect = Errors(np.tile(20 * np.eye(5), (10, 1, 1)))
    found = stated(*answers, errors=perfect, errors_second=None)
    assert found["a_third_vertical_corrected"].value == pytest.approx(
        found["a_third_vertical"].value, abs=1e-6
    )
    assert "a_third_vertical_second_pass" not in found


def test_a_model_beside_itself_has_not_changed(
    run: Run, checkpoint_of: Callable[..., Path]
) -> None:
    found = {one.id: one for one in run(checkpoint_of(), checkpoint_of()).findings}
    rise = found["patterns.vertical_rises"]
    assert rise.value == rise.ci_low == rise.ci_high == 0 and outcome(rise) == "not reproduced"


@pytest.mark.parametrize(
    ("family", "labels"), [("bert", 1), ("xlm-roberta", 3), ("electra", 5), ("ernie", 2)]
)
def test_any_family_without_a_base(
    family: str, labels: int, run: Run, checkpoint_of: Callable[..., Path]
) -> None:
    result = run(checkpoint_of(family, labels=labels), pairs=4)
    assert [one.id for one in result.findings if one.primary] == [
        "patterns.a_third_vertical",
        "patterns.under_half_heterogeneous",
    ]
    assert "--base" in result.summary.en and "--base" in result.summary.zh
    assert "vertical_before" not in result.heads[0].scores


def test_heads_that_were_pruned_take_no_part(
    run: Run, checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    teacher = open_checkpoint(checkpoint_of(layers=3, heads=4, hidden=32))
    kept = tuple(KeptLayer(layer=n, heads=heads) for n, heads in enumerate([(1, 3), (), (0,)]))
    result = run(save_smaller(tmp_path / "small", smaller_checkpoint(teacher, kept)))
    assert list(scores(result)) == ["L0H1", "L0H3", "L2H0"]
    (layers,) = (one for one in result.figures if one.name == "layers_after")
    assert isinstance(layers, HeatMap) and layers.values[1] == (None,) * 6
    (heads,) = (one for one in result.figures if one.name == "commonest")
    assert isinstance(heads, HeatMap) and heads.annotations is not None
    assert heads.annotations[0][0] == "" != heads.annotations[0][1]


def test_a_single_query_has_no_interval(run: Run, checkpoint_of: Callable[..., Path]) -> None:
    result = run(checkpoint_of(), pairs=1)
    found = result.findings
    assert all(one.ci_low is None for one in found)
    assert {outcome(one) for one in found if one.primary} == {"inconclusive"}
    assert result.settings["resolution"]["en"] == "No claim has an interval."


def test_a_base_of_another_shape_is_refused(run: Run, checkpoint_of: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match="number of heads"):
        run(checkpoint_of(), checkpoint_of(heads=4))


def test_without_the_classifier_it_says_so(
    run: Run, checkpoint_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(patterns, "shipped", lambda name: tmp_path)
    with pytest.raises(ArgumentError, match="no classifier of patterns"):
        run(checkpoint_of())
