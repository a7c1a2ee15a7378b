"""The redundancy study: claims against hand-made sweeps, and the whole of it on tiny models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from qt_bert.ablation.effects import Effects, effect_rows
from qt_bert.ablation.importance import Importance
from qt_bert.ablation.interventions import MeanZ
from qt_bert.data.pairs import Pair
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Shape
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.claims import bootstrap_p
from qt_bert.probes.redundancy import claims, harm
from qt_bert.probes.redundancy.averages import mean_over_draws, steps_of
from qt_bert.probes.redundancy.probe import PROBE
from qt_bert.probes.redundancy.study import Study, Sweep, study
from qt_bert.probes.split import PairFiles
from qt_bert.results.probe import Finding, ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes.judged import outcome

PAIRS = 40
SHAPE = Shape(4, 2)
GRADES = ModelLabels(5, tuple((grade,) for grade in range(1, 6)))
Wrong = dict[str, tuple[str, int]]
"""Variant → its family, and how many pairs it grades wrong (of those graded right without it)."""


def made_sweep(wrong: Wrong, *, gained: dict[str, int] | None = None) -> Sweep:
    """Forty queries of one pair each, of grade 3; the plain model grades all but ten right.

    A variant grades the first n pairs wrong, or (`gained`) n of the last ten right.
    """
    pairs = [Pair(f"q{i}", "t", (3,), str(i), i + 1, "3", {}) for i in range(PAIRS)]
    right = np.array([[2] * 30 + [0] * 10])
    table = np.repeat(right, 1 + len(wrong), axis=0)
    for row, (name, (_, count)) in enumerate(wrong.items(), 1):
        table[row, :count] = 1
        table[row, 30 : 30 + (gained or {}).get(name, 0)] = 2
    logits = np.full((*table.shape, 5), -4.0, np.float32)
    np.put_along_axis(logits, table[..., None], 4.0, axis=2)
    names = ["none", *wrong]
    families = ["", *(family for family, _ in wrong.values())]
    draws = [int(name.rpartition("#")[2]) if "#" in name else None for name in names]
    effects = Effects(logits, pairs, GRADES, resamples=400, draws=2000)
    folder = SimpleNamespace(
        variants=pd.DataFrame({"name": names, "family": families}),
        effects=effect_rows(effects, names, families, draws),
        pairs=pairs,
        row=names.index,
    )
    return Sweep(folder, effects)  # type: ignore[arg-type]


def made_study(validation: Sweep, discovery: Sweep | None = None) -> Study:
    ones = np.ones(SHAPE.size)
    means = MeanZ("none", torch.zeros(1))
    return Study(SHAPE, validation, discovery or validation, Importance(ones, ones), means)


def single(**wrong: int) -> Wrong:
    return {str(head): ("single", wrong.get(str(head), 0)) for head in SHAPE.all_heads}


def layers(**wrong: int) -> Wrong:
    return {f"L{n}": ("layers", wrong.get(f"L{n}", 0)) for n in range(SHAPE.layers)}


def found(made: Study) -> dict[str, Finding]:
    findings = claims.findings(made, seed=0)
    return {finding.id.removeprefix("redundancy."): finding for finding in findings}


def test_a_mean_over_draws_is_in_points() -> None:
    sweep = made_sweep({"random:10%#00": ("random", 4), "random:10%#01": ("random", 0)})
    mean = mean_over_draws(sweep, [1, 2], seed=0)
    assert mean.value == pytest.approx(-5.0)  # −4/40 and 0, in points
    assert mean.samples.shape == (400,)
    every = (
        100 * (sweep.effects.resampled(1, "accuracy") + sweep.effects.resampled(2, "accuracy")) / 2
    )
    # Two draws of which one is taken twice as often as not: half their distance, times √2.
    ratios = np.unique(np.round((mean.samples - every)[every != 0] / every[every != 0], 4))
    assert ratios.tolist() == pytest.approx([-np.sqrt(2), 0, np.sqrt(2)], abs=1e-3)


def test_draws_that_agree_leave_the_queries_interval() -> None:
    sweep = made_sweep({f"random:10%#0{n}": ("random", 4) for n in range(3)})
    mean = mean_over_draws(sweep, [1, 2, 3], seed=0)
    np.testing.assert_allclose(mean.samples, 100 * sweep.effects.resampled(1, "accuracy"))


def test_steps_are_shares_of_all_heads() -> None:
    wrong = {n: ("low", 0) for n in ("low:20%#00", "low:20%#01", "low:33.3%", "low:10%#00")}
    assert steps_of(made_sweep(wrong), "low") == {10.0: [4], 20.0: [1, 2], 33.3: [3]}
    assert steps_of(made_sweep(wrong), "high") == {}


def test_a_bootstrap_p_is_two_sided() -> None:
    samples = np.array([1.0, 2.0, 0.0, np.nan])
    assert bootstrap_p(samples, 0.0, n_queries=9) == pytest.approx(
        1.0
    )  # twice (1 + 2) / 5, at most 1
    assert bootstrap_p(np.arange(1.0, 100), 0.0, n_queries=9) == pytest.approx(0.02)
    assert bootstrap_p(-np.arange(1.0, 100), 0.0, n_queries=9) == pytest.approx(0.02)
    assert bootstrap_p(np.array([]), 0.0, n_queries=9) is None
    assert bootstrap_p(np.arange(1.0, 100), 0.0, n_queries=1) is None


def test_low_over_high_is_the_difference_of_losses() -> None:
    wrong: Wrong = {"low:50%": ("low", 30), "high:50%": ("high", 2)}
    wrong |= {f"low:40%#0{n}": ("low", 20) for n in range(2)}
    wrong |= {f"high:40%#0{n}": ("high", 20) for n in range(2)}
    got = found(made_study(made_sweep(single() | layers() | wrong)))
    whole, most = got["low_over_high_100"], got["low_over_high_80"]
    assert (whole.value, outcome(whole)) == (pytest.approx(70.0), "reproduced")
    assert (most.value, outcome(most)) == (pytest.approx(0.0), "not reproduced")
    assert whole.margin == 5.0


@pytest.mark.parametrize(
    ("layers_", "expected"), [(12, [5, 6, 7, 8, 9]), (4, [2, 3]), (24, [10, 12, 14, 16, 18])]
)
def test_layers_stand_at_the_articles_height(layers_: int, expected: list[int]) -> None:
    assert sorted(claims.gaining_layers(layers_)) == expected


def test_the_articles_layer_8_keeps_its_figure() -> None:
    assert claims.gaining_layers(12)[8] == "+2.3 %"
    assert claims.gaining_layers(4)[3] == "+2.3 %"


def test_layers_that_lose_do_not_gain() -> None:
    got = found(made_study(made_sweep(single() | layers(L2=12, L3=12))))
    assert {outcome(got[f"layer_{n}_off"]) for n in (2, 3)} == {"not reproduced"}
    assert got["layer_2_off"].value == pytest.approx(-30.0)


def test_redundant_heads_and_one_that_matters() -> None:
    got = found(made_study(made_sweep(single(L2H1=12) | layers())))
    assert got["single_mean"].value == pytest.approx(-30 / 8)
    assert got["single_within_one_point"].value == pytest.approx(7 / 8)
    assert outcome(got["single_within_one_point"]) == "reproduced"
    for name in ("one_head_matters", "penultimate_head_matters"):
        assert "L2H1" in got[name].claim.en
        assert (got[name].value, outcome(got[name])) == (pytest.approx(-30.0), "reproduced")


def test_the_head_that_matters_is_chosen_on_discovery() -> None:
    """On validation another head costs more: the one chosen before is what is shown."""
    discovery = made_sweep(single(L0H0=6))
    got = found(made_study(made_sweep(single(L0H0=3, L1H1=20) | layers()), discovery))
    assert "L0H0" in got["one_head_matters"].claim.en
    assert got["one_head_matters"].value == pytest.approx(-7.5)


def test_where_no_head_loses_none_matters() -> None:
    got = found(made_study(made_sweep(single() | layers())))
    assert (got["one_head_matters"].value, outcome(got["one_head_matters"])) == (
        None,
        "inconclusive",
    )
    assert "None" not in got["one_head_matters"].claim.en + got["one_head_matters"].claim.zh


def test_heads_without_effect_are_within_whatever_the_sample() -> None:
    """Flips of 2 % either way in 100 pairs, no true effect: never `not reproduced`."""
    rng = np.random.default_rng(0)
    for pairs in (40, 100, 400):
        noise = rng.choice([-1, 0, 1], p=[0.02, 0.96, 0.02], size=(144, pairs)) * 100
        resamples = rng.integers(pairs, size=(200, pairs))
        resampled = np.stack([noise[:, rows].mean(axis=1) for rows in resamples], axis=1)
        share, spread, _ = claims.within_one_point(noise.mean(axis=1), resampled)
        assert spread is not None and spread[0] <= share <= spread[1]
        assert spread[1] > 0.95


def test_harmful_heads_must_harm_on_both_splits() -> None:
    discovery = made_sweep(single(), gained={"L1H0": 10, "L0H0": 10})
    validation = made_sweep(single() | layers(), gained={"L1H0": 10})
    made = made_study(validation, discovery)
    assert harm.candidates(made) == ["L0H0", "L1H0"]
    assert harm.confirmed(made) == ["L1H0"]
    head, mean = harm.harmful(made)
    assert head.p == pytest.approx(2 * validation.rows["L1H0", "accuracy"].p, rel=1e-6)
    assert (mean.value, mean.primary) == (pytest.approx((25.0 + 0.0) / 2), False)
    assert harm.known_of(made, "L1H0") == (pytest.approx(25.0), pytest.approx(25.0), 3)
    stable = harm.stable_harm(made, ["L0H0", "L1H0"], seed=0)
    assert stable is not None and stable.overlap > 0.9 and stable.chance_mean == pytest.approx(0.5)
    assert stable.sources[0].overlap == 1.0  # no other head gains on validation
    assert harm.stable_harm(made, [], seed=0) is None


def test_a_gain_under_one_point_is_no_harm() -> None:
    sweep = made_sweep(single() | layers(), gained={"L1H0": 10})
    row = sweep.rows["L1H0", "accuracy"]
    sweep.rows["L1H0", "accuracy"] = row._replace(absolute=0.009)
    assert harm.candidates(made_study(sweep)) == []


def test_without_candidates_the_reason_is_told() -> None:
    made = made_study(made_sweep(single() | layers()))
    assert (harm.candidates(made), harm.confirmed(made)) == ([], [])
    [only] = harm.harmful(made)
    assert (only.value, only.p) == (None, None)
    assert "40 queries" in only.conclusions["inconclusive"].en


def test_the_least_number_of_queries_for_one_head() -> None:
    """2 / 2ⁿ × 8 heads < 0.05 first holds at n = 9: 0.031; at 8 it is 0.0625."""
    assert harm.least_queries(made_study(made_sweep(single()))) == 9


@pytest.fixture
def probed(
    checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path
) -> Callable[..., tuple[ProbeResult, Context]]:
    """The probe's result on a tiny model and eight pairs."""

    def run(family: str = "bert", *, full: bool = False, **options: Any) -> tuple[Any, Any]:
        folder = checkpoint_of(family, **options)
        context = Context(
            label="redundancy",
            files=PairFiles(pairs=pair_file),
            work=tmp_path / f"sweeps-{full}",
            open_model=lambda: Scorer(open_checkpoint(folder)),
            resamples=200,
            full=full,
        )
        return run_probe(PROBE, context), context

    return run


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bert", {"layers": 4, "heads": 4}),
        ("xlm-roberta", {"layers": 2, "heads": 2}),
        ("electra", {"layers": 1, "heads": 2, "labels": 1}),
        ("bert", {"layers": 3, "heads": 2, "labels": 1}),
    ],
)
def test_any_model_gives_a_result(probed, family: str, options: dict[str, int]) -> None:
    result, context = probed(family, **options)
    assert len(result.heads) == options["layers"] * options["heads"]
    assert all(np.isfinite(one.scores["importance"]) for one in result.heads)
    assert set(context.guards) == {"validation", "discovery"}
    maps = [figure for figure in result.figures if figure.kind == "heat_map"]
    assert {(len(m.rows), len(m.columns)) for m in maps} == {(options["layers"], options["heads"])}
    assert ProbeResult.read(_written(result, context)) == result


def _written(result: ProbeResult, context: Context) -> Path:
    path = context.work / "redundancy.json"
    result.write(path)
    return path


def test_full_adds_modes_and_heads(probed) -> None:
    quick, _ = probed(layers=2, heads=2)
    full, _ = probed(layers=2, heads=2, full=True)
    assert "change_mean" not in quick.heads[0].scores
    assert {"change_uniform", "change_mean"} <= full.heads[0].scores.keys()
    assert full.settings["draws"]["random"]["40%"] > quick.settings["draws"]["random"]["40%"]


def test_a_second_run_takes_the_stored_sweeps(probed, monkeypatch) -> None:
    first, context = probed(layers=2, heads=2)
    monkeypatch.setattr("qt_bert.ablation.sweep.sweep", None)
    again = study(context)
    rows = again.validation.rows
    assert rows["L0H0", "accuracy"].absolute == first.heads[0].scores["change"]
