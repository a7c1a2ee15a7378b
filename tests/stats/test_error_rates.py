"""How often verdicts are wrong: simulations from real differences per query.

`per_query_differences.csv` holds what heads left out of the shipped model change for each of the
160 queries of the shipped test split, in points of the probability of the label (`…_accuracy`: of
accuracy), averaged over a query's titles: the five best matching heads, four of them, single heads,
random fives, layers, and twenty layer-matched controls of the five. Samples of queries are drawn
from it with replacement, and a claim is judged at a margin that is the true value: every decision
is then false. Run with `-s` to see the rates.

A rate has a standard error itself (.8 % of 500 runs, .4 % of 2,000), and there are over a hundred of
them. The quick tests therefore allow three standard errors more on one rate, but none on their mean;
the slow ones hold the limits themselves, on 10,000 runs and 2,000 contests.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from qt_bert.stats.estimate import Estimate, from_leave_one_out, studentised_interval
from qt_bert.stats.tests import sign_flip_p
from qt_bert.stats.verdict import judge_contest

SIZES = (20, 40, 160)
MOST = 0.032
MOST_CONTESTS = 0.06
RUNS, MORE = 500, 10_000
CONTESTS, MORE_CONTESTS = 100, 2_000

FILE = Path(__file__).with_name("per_query_differences.csv")
with FILE.open(encoding="utf-8") as _handle:
    _ROWS = list(csv.DictReader(_handle))
REAL = {name: np.array([float(row[name]) for row in _ROWS]) for name in _ROWS[0]}
CONTROLS = np.stack([REAL[f"control_{i:02d}"] for i in range(1, 21)], axis=1)
RARE = {
    "2 of 72 lost": np.repeat([-100.0, 0.0], [2, 70]),
    "6 of 72 lost": np.repeat([-100.0, 0.0], [6, 66]),
    "5 lost, 1 won": np.repeat([-100.0, 100.0, 0.0], [5, 1, 66]),
}
DIFFERENCES = {name: x for name, x in REAL.items() if not name.startswith("control")} | {
    "control_01": REAL["control_01"],
    **RARE,
}


class Rates(NamedTuple):
    """Shares of runs that are `reproduced`, `not reproduced`, on the side `above`."""

    reproduced: float
    not_reproduced: float

    def __str__(self) -> str:
        return f"reproduced {self.reproduced:6.2%}   not reproduced {self.not_reproduced:6.2%}"


def decided(values: np.ndarray, margin: float) -> Rates:
    """The rule of `judge_difference` on many samples at once [queries, runs]."""
    low, high = studentised_interval(values)
    significant = (sign_flip_p(values, margin) < 0.05) & (low < high)
    beyond, short = (low > margin) & significant, (high < margin) & significant
    return Rates(float(beyond.mean()), float(short.mean()))


def drawn(n: int, runs: int) -> np.ndarray:
    """Queries drawn from those of the file [queries, runs]."""
    return np.random.default_rng([n, 20]).integers(len(_ROWS), size=(n, runs))


def allowed(most: float, runs: int, full: int) -> float:
    """`most`, with three standard errors of a rate more under the `full` number of runs."""
    return most + (3 * np.sqrt(most * (1 - most) / runs) if runs < full else 0)


def check(rates: dict[str, Rates], n: int, runs: int) -> None:
    for name, rate in rates.items():
        print(f"{name:34s} n = {n:3d}   {rate}")
        assert max(rate) <= allowed(MOST, runs, MORE), (name, n)
    assert (np.mean(list(rates.values()), axis=0) <= MOST).all()


def differences(name: str, n: int, runs: int = RUNS) -> tuple[np.ndarray, float]:
    population = DIFFERENCES[name]
    places = np.random.default_rng([n, 20]).integers(len(population), size=(n, runs))
    return population[places], float(population.mean())


@pytest.mark.parametrize("n", SIZES)
def test_differences_without_an_effect(n: int, runs: int = RUNS) -> None:
    check({name: decided(*differences(name, n, runs)) for name in DIFFERENCES}, n, runs)


@pytest.mark.parametrize("n", SIZES)
def test_a_difference_with_an_effect_is_found_as_often_as_queries_needed_says(n: int) -> None:
    values, truth = differences("random_five_1", n)
    effect = 2.8 * REAL["random_five_1"].std() / np.sqrt(n)
    rates = decided(values, truth - effect)
    print(f"{'effect of 2.8 standard errors':34s} n = {n:3d}   {rates}")
    assert rates.not_reproduced == 0
    assert 0.68 <= rates.reproduced <= 0.86
    assert decided(values, truth + effect).reproduced == 0


def test_many_samples_at_once_are_judged_as_each_alone() -> None:
    values, truth = differences("layer_10_accuracy", 20)
    at = truth - 2.0
    alone = [
        Estimate(float(one.mean()), one, tuple(range(20))).claim(
            "x", side="above", margin=at, unit="points"
        )
        for one in values[:, :150].T
    ]
    for verdict, share in zip(
        ("reproduced", "not reproduced"), decided(values[:, :150], at), strict=True
    ):
        assert np.mean([claim.verdict == verdict for claim in alone]) == share


Statistic = Callable[[np.ndarray], tuple[float, np.ndarray]]


def ranks(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mid-ranks [n], and those without each item in turn [n, n]."""
    rank = rankdata(x)
    return rank, rank - (x[:, None] < x) - 0.5 * (x[:, None] == x)


def pearson(x: np.ndarray, y: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Pearson's r of the `kept` items of each row."""
    n = kept.sum(axis=-1, keepdims=True)
    x = (x - (x * kept).sum(axis=-1, keepdims=True) / n) * kept
    y = (y - (y * kept).sum(axis=-1, keepdims=True) / n) * kept
    return (x * y).sum(axis=-1) / np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))


def rho(a: str, b: str) -> Statistic:
    def statistic(places: np.ndarray) -> tuple[float, np.ndarray]:
        (x, left_x), (y, left_y) = ranks(REAL[a][places]), ranks(REAL[b][places])
        value = pearson(x, y, np.ones(len(places)))
        return float(value), pearson(left_x, left_y, 1 - np.eye(len(places)))

    return statistic


def change_of_rho(a: str, b: str, other: str) -> Statistic:
    def statistic(places: np.ndarray) -> tuple[float, np.ndarray]:
        (x, left_x), (y, left_y) = rho(a, other)(places), rho(b, other)(places)
        return x - y, left_x - left_y

    return statistic


def ratio(a: str, b: str) -> Statistic:
    def statistic(places: np.ndarray) -> tuple[float, np.ndarray]:
        x, y = REAL[a][places], REAL[b][places]
        return float(x.sum() / y.sum()), (x.sum() - x) / (y.sum() - y)

    return statistic


STATISTICS = {
    "rho, strong": rho("matching_five", "L0H3"),
    "rho, weak": rho("layer_10", "control_20"),
    "change of rho": change_of_rho("matching_five", "L0H3", "four_of_five"),
    "change of rho, weak": change_of_rho("layer_7", "random_five_1", "control_05"),
    "ratio of sums": ratio("four_of_five", "matching_five"),
    "ratio of sums, near 1": ratio("matching_five", "L0H3"),
    "ratio of sums, near 0": ratio("layer_7", "matching_five"),
}


def test_the_statistics_leave_one_query_out() -> None:
    places = np.arange(12) * 5
    value, left = STATISTICS["rho, weak"](places)
    x, y = REAL["layer_10"][places], REAL["control_20"][places]
    assert value == pytest.approx(spearmanr(x, y).statistic)
    without = spearmanr(np.delete(x, 4), np.delete(y, 4)).statistic
    assert left[4] == pytest.approx(without)


def jackknifed(name: str, n: int, runs: int) -> Rates:
    statistic, correlation = STATISTICS[name], name.startswith("rho")
    truth = statistic(np.arange(len(_ROWS)))[0]
    made = []
    for places in drawn(n, runs).T:
        value, left = statistic(places)
        estimate = from_leave_one_out(value, left, range(n), correlation=correlation)
        values, edge = estimate.judged(truth)
        made.append(values)
    return decided(np.stack(made, axis=1), edge)


@pytest.mark.parametrize("n", SIZES)
def test_jackknifed_statistics_without_an_effect(n: int, runs: int = RUNS) -> None:
    check({name: jackknifed(name, n, runs) for name in STATISTICS}, n, runs)


@pytest.mark.nightly
@pytest.mark.parametrize("n", SIZES)
def test_no_effect_many_times(n: int) -> None:
    test_differences_without_an_effect(n, MORE)
    test_jackknifed_statistics_without_an_effect(n, MORE)


class Contest(NamedTuple):
    """Differences of a target and of its sets for every query of the file, and the margin."""

    target: np.ndarray
    sets: np.ndarray
    margin: float
    enumerated: bool = False


FAR = -50.0
"""A margin that any target passes: the rank alone decides."""


def mixtures(rng: np.random.Generator, sets: int) -> np.ndarray:
    """As many sets as wanted: means of three controls, stretched to a control's spread."""
    weights = np.zeros((CONTROLS.shape[1], sets))
    for column in weights.T:
        column[rng.choice(len(column), 3, replace=False)] = 1.5 / np.sqrt(3)
    return CONTROLS @ weights


def one_of_20_controls(rng: np.random.Generator) -> Contest:
    at = rng.permutation(20)
    return Contest(CONTROLS[:, at[0]], CONTROLS[:, at[1:]], 0.0, enumerated=True)


def one_of_100_sets(rng: np.random.Generator) -> Contest:
    sets = mixtures(rng, 100)
    return Contest(sets[:, 0], sets[:, 1:], FAR)


def ranked(rng: np.random.Generator, quantile: float) -> tuple[np.ndarray, np.ndarray, float]:
    """A target truly at this quantile of its sets, 99 sets, the true target − mean set."""
    every = mixtures(rng, 1_000)
    means = every.mean(axis=0)
    target = np.argsort(means)[int(quantile * 1_000)]
    sets = every[:, rng.choice(1_000, 99, replace=False)]
    return every[:, target], sets, float(means[target] - means.mean())


def truly_in_the_best_20th(rng: np.random.Generator) -> Contest:
    target, sets, _ = ranked(rng, 0.95)
    return Contest(target, sets, FAR)


def truly_at_the_margin(rng: np.random.Generator) -> Contest:
    return Contest(*ranked(rng, 0.99))


def far_ahead(rng: np.random.Generator) -> Contest:
    return Contest(-REAL["matching_five"], mixtures(rng, 99), 2.0)


def contests(make: Callable[[np.random.Generator], Contest], n: int, runs: int) -> Rates:
    rng = np.random.default_rng([n, 24])
    verdicts = []
    for run in range(runs):
        made, places = make(rng), rng.integers(len(_ROWS), size=n)
        queries = tuple(range(n))
        target, *sets = (
            Estimate(float(one.mean()), one, queries)
            for one in (made.target[places], *made.sets[places].T)
        )
        claim = judge_contest(
            target,
            sets,
            id="x",
            side="above",
            margin=made.margin,
            unit="points",
            enumerated=made.enumerated,
            resamples=400,
            seed=run,
        )
        verdicts.append(claim.verdict)
    share = [verdicts.count("reproduced") / runs, verdicts.count("not reproduced") / runs]
    return Rates(*share)


def hold(runs: int, n: int) -> None:
    """Every contest's rates are within their limits."""
    for make, reproduced, not_reproduced in (
        (one_of_20_controls, MOST_CONTESTS, 1.0),
        (one_of_100_sets, MOST_CONTESTS, 1.0),
        (truly_in_the_best_20th, 1.0, MOST),
        (truly_at_the_margin, MOST, MOST),
        (far_ahead, 1.0, 0.0),
    ):
        rates = contests(make, n, runs)
        print(f"{make.__name__:34s} n = {n:3d}   {rates}")
        for rate, most in zip(rates, (reproduced, not_reproduced), strict=True):
            assert rate <= allowed(most, runs, MORE_CONTESTS), (make.__name__, n)
        if make is far_ahead:
            assert rates.reproduced == 1


@pytest.mark.parametrize("n", SIZES)
def test_contests(n: int) -> None:
    hold(CONTESTS, n)


@pytest.mark.nightly
@pytest.mark.parametrize("n", SIZES)
def test_contests_many(n: int) -> None:
    hold(MORE_CONTESTS, n)
