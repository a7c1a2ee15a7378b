"""How often verdicts are wrong: simulations from real differences per query.

`per_query_differences.csv` holds what ablated heads of an earlier `graded` change for each of the 160
queries of the shipped test split, in points of the probability of the label (`…_accuracy`: of accuracy),
averaged over a query's titles. Samples of queries are drawn with replacement, and a claim is judged at a
margin that is the true value: every decision is then false. `-s` prints the rates. The quick runs allow
three standard errors more on one rate, but none on their mean; the nightly ones hold the limits
themselves, on 10,000 runs and 2,000 contests.
"""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from qt_bert.stats.estimate import Estimate, from_leave_one_out, studentised_interval
from qt_bert.stats.tests import sign_flip_p
from qt_bert.stats.verdict import judge_contest, judge_difference

MOST, MOST_CONTESTS = 0.032, 0.06
FAR = -50.0  # a margin that any target passes: the rank alone decides
NIGHTLY = pytest.mark.nightly
SIZES = pytest.mark.parametrize("n", (20, 40, 160))

with Path(__file__).with_name("per_query_differences.csv").open(encoding="utf-8") as _handle:
    _ROWS = list(csv.DictReader(_handle))
REAL = {name: np.array([float(row[name]) for row in _ROWS]) for name in _ROWS[0]}
CONTROLS = np.stack([REAL[f"control_{i:02d}"] for i in range(1, 21)], axis=1)
DIFFERENCES = {name: x for name, x in REAL.items() if not name.startswith("control")} | {
    "control_01": REAL["control_01"],
    "2 of 72 lost": np.repeat([-100.0, 0.0], [2, 70]),
    "6 of 72 lost": np.repeat([-100.0, 0.0], [6, 66]),
    "5 lost, 1 won": np.repeat([-100.0, 100.0, 0.0], [5, 1, 66]),
}


def drawn(of: int, n: int, runs: int) -> np.ndarray:
    """Places of queries [n, runs], drawn from `of` of them with replacement."""
    return np.random.default_rng([n, 20]).integers(of, size=(n, runs))


def decided(values: np.ndarray, margin: float) -> tuple[float, ...]:
    """The rule of `judge_difference` on many samples at once [queries, runs]: the shares that are
    `reproduced` and `not reproduced`, on the side `above`."""
    low, high = studentised_interval(values)
    significant = (sign_flip_p(values, margin) < 0.05) & (low < high)
    return tuple(float((beyond & significant).mean()) for beyond in (low > margin, high < margin))


def allowed(most: float, runs: int, full: int) -> float:
    """`most`, with three standard errors of a rate more under the `full` number of runs."""
    return most + (3 * np.sqrt(most * (1 - most) / runs) if runs < full else 0)


Statistic = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Places of queries → the value, and those without each query in turn."""


def rho(a: str, b: str) -> Statistic:
    """Spearman's ρ, without a query: mid-ranks lose 1 for a smaller value gone, ½ for an equal one."""

    def pearson(x: np.ndarray, y: np.ndarray, kept: np.ndarray) -> np.ndarray:
        n = kept.sum(axis=-1, keepdims=True)
        x = (x - (x * kept).sum(axis=-1, keepdims=True) / n) * kept
        y = (y - (y * kept).sum(axis=-1, keepdims=True) / n) * kept
        return (x * y).sum(axis=-1) / np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))

    def left(x: np.ndarray) -> np.ndarray:
        return rankdata(x) - (x[:, None] < x) - 0.5 * (x[:, None] == x)

    def statistic(places: np.ndarray) -> tuple[float, np.ndarray]:
        x, y = REAL[a][places], REAL[b][places]
        value = pearson(rankdata(x), rankdata(y), np.ones(len(places)))
        return float(value), pearson(left(x), left(y), 1 - np.eye(len(places)))

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


def jackknifed(name: str, n: int, runs: int) -> tuple[float, ...]:
    truth, samples = STATISTICS[name](np.arange(len(_ROWS)))[0], []
    for places in drawn(len(_ROWS), n, runs).T:
        estimate = from_leave_one_out(
            *STATISTICS[name](places), range(n), correlation=name.startswith("rho")
        )
        values, edge = estimate.judged(truth)
        samples.append(values)
    return decided(np.stack(samples, axis=1), edge)


@pytest.mark.parametrize("runs", [250, pytest.param(10_000, marks=NIGHTLY)])
@SIZES
def test_without_an_effect_few_are_decided(n, runs):
    plain = {
        name: decided(x[drawn(len(x), n, runs)], float(x.mean())) for name, x in DIFFERENCES.items()
    }
    for rates in (plain, {name: jackknifed(name, n, runs) for name in STATISTICS}):
        for name, rate in rates.items():
            print(f"{name:34s} n = {n:3d}   {rate[0]:6.2%} {rate[1]:6.2%}")
            assert max(rate) <= allowed(MOST, runs, 10_000), (name, n)
        assert (np.mean(list(rates.values()), axis=0) <= MOST).all()


@SIZES
def test_a_difference_with_an_effect_is_found_as_often_as_queries_needed_says(n):
    x = REAL["random_five_1"]
    values, effect = x[drawn(len(x), n, 500)], 2.8 * x.std() / np.sqrt(n)
    found, missed = decided(values, x.mean() - effect)
    assert missed == 0 and 0.68 <= found <= 0.86
    assert decided(values, x.mean() + effect)[0] == 0


def test_many_samples_at_once_are_judged_as_each_alone():
    x = REAL["layer_10_accuracy"]
    values, margin = x[drawn(len(x), 20, 150)], float(x.mean()) - 2.0
    claim = {"id": "x", "side": "above", "margin": margin, "unit": "points"}
    estimates = (Estimate(float(x.mean()), x, tuple(range(20))) for x in values.T)
    verdicts = [judge_difference(estimate, **claim).verdict for estimate in estimates]
    shares = tuple(verdicts.count(verdict) / 150 for verdict in ("reproduced", "not reproduced"))
    assert decided(values, margin) == pytest.approx(shares)


def mixtures(rng: np.random.Generator, sets: int) -> np.ndarray:
    """`sets` random sets: means of three controls, stretched to a control's spread."""
    weights = np.zeros((CONTROLS.shape[1], sets))
    for column in weights.T:
        column[rng.choice(len(column), 3, replace=False)] = 1.5 / np.sqrt(3)
    return CONTROLS @ weights


def contest(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Differences of a target [queries] and of its sets [queries, sets], and the margin."""
    if kind == "one of 20 controls":
        at = rng.permutation(20)
        return CONTROLS[:, at[0]], CONTROLS[:, at[1:]], 0.0
    if kind == "one of 100 sets":
        sets = mixtures(rng, 100)
        return sets[:, 0], sets[:, 1:], FAR
    if kind == "far ahead":
        return -REAL["matching_five"], mixtures(rng, 99), 2.0
    every = mixtures(rng, 1_000)  # the target truly stands at this quantile of its sets
    means, quantile = every.mean(axis=0), 0.95 if kind == "in the best 20th" else 0.99
    target = np.argsort(means)[int(quantile * 1_000)]
    margin = FAR if kind == "in the best 20th" else float(means[target] - means.mean())
    return every[:, target], every[:, rng.choice(1_000, 99, replace=False)], margin


@pytest.mark.parametrize("runs", [100, pytest.param(2_000, marks=NIGHTLY)])
@pytest.mark.parametrize(
    ("kind", "reproduced", "not_reproduced"),
    [
        ("one of 20 controls", MOST_CONTESTS, 1.0),
        ("one of 100 sets", MOST_CONTESTS, 1.0),
        ("in the best 20th", 1.0, MOST),
        ("at the margin", MOST, MOST),
        ("far ahead", 1.0, 0.0),
    ],
)
@SIZES
def test_contests(n, kind, reproduced, not_reproduced, runs):
    rng, verdicts = np.random.default_rng([n, 24]), []
    for run in range(runs):
        (target, sets, margin), places = contest(kind, rng), rng.integers(len(_ROWS), size=n)
        target, *others = (
            Estimate(float(x.mean()), x, tuple(range(n))) for x in (target[places], *sets[places].T)
        )
        options = {"enumerated": kind == "one of 20 controls", "resamples": 400, "seed": run}
        claim = {"id": "x", "side": "above", "margin": margin, "unit": "points"}
        verdicts.append(judge_contest(target, others, **claim, **options).verdict)
    rates = [verdicts.count(verdict) / runs for verdict in ("reproduced", "not reproduced")]
    print(f"{kind:34s} n = {n:3d}   {rates[0]:6.2%} {rates[1]:6.2%}")
    for rate, most in zip(rates, (reproduced, not_reproduced), strict=True):
        assert rate <= allowed(most, runs, 2_000)
    assert kind != "far ahead" or rates[0] == 1
