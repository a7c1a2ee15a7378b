"""How often verdicts are wrong: simulations from real differences per query.

`per_query_differences.csv` holds what heads left out of one `graded` (an earlier one than what
ships may be) change for each of the 160 queries of the shipped test split, in points of the probability of the label (`…_accuracy`: of
accuracy), averaged over a query's titles. `per_title_differences.csv` holds the same of what ships for each title
of the 160 queries, one of each grade, and `per_order_differences.csv` the mean loss of each of 40 random orders of
all heads, cut in five, on one title a query. Samples of queries (and of orders) are drawn with replacement,
and a claim is judged at a margin that is the true value: every decision is then false. Run with
`-s` to see the rates. The quick runs allow three standard errors more on a rate and on
their mean; the nightly ones hold the limits themselves, on 10,000 runs and 2,000 contests.

An effect on so few queries that samples miss it no sample can see: 3 % of the queries at n = 160
and 15 % at n = 40 are the rarest that hold the limits.
"""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from qt_bert.stats.estimate import (
    Estimate,
    draws_reach,
    from_leave_one_out,
    over_classes,
    studentised_interval,
)
from qt_bert.stats.tests import sign_flip_p
from qt_bert.stats.verdict import CLAIM_QUERIES, judge_contest, judge_difference

MOST, MOST_CONTESTS = 0.032, 0.06
FAR = -50.0  # a margin that any target passes: the rank alone decides
NIGHTLY = pytest.mark.nightly
SIZES = pytest.mark.parametrize("n", (40, 160))


def columns(file: str) -> dict[str, np.ndarray]:
    with Path(__file__).with_name(file).open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


REAL = columns("per_query_differences.csv")
QUERIES = 160
ORDERS = np.stack(list(columns("per_order_differences.csv").values()), axis=1)
TITLES = columns("per_title_differences.csv")
EFFECTS = tuple(TITLES)[3:]
BY_GRADE = {
    name: TITLES[name][np.lexsort((TITLES["grade"], TITLES["query"]))].reshape(QUERIES, 5)
    for name in EFFECTS
}
"""Differences [queries, grades]."""


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """What a share is judged on, at its true value: part − share × whole, against 0."""
    return part - part.sum() / whole.sum() * whole


CONTROLS = np.stack([REAL[f"control_{i:02d}"] for i in range(1, 21)], axis=1)
DIFFERENCES = {name: x for name, x in REAL.items() if not name.startswith("control")} | {
    "control_01": REAL["control_01"],
    "2 of 72 lost": np.repeat([-100.0, 0.0], [2, 70]),
    "6 of 72 lost": np.repeat([-100.0, 0.0], [6, 66]),
    "5 lost, 1 won": np.repeat([-100.0, 100.0, 0.0], [5, 1, 66]),
    "share of the low half": share(
        BY_GRADE["five"].mean(axis=1), BY_GRADE["low_half"].mean(axis=1)
    ),
    "share of the five": share(BY_GRADE["costliest"].mean(axis=1), BY_GRADE["five"].mean(axis=1)),
}


def drawn(of: int, n: int, runs: int) -> np.ndarray:
    """Places of queries [n, runs], drawn from `of` of them with replacement."""
    return np.random.default_rng([n, 20]).integers(of, size=(n, runs))


def decided(
    values: np.ndarray, margin: float | np.ndarray, reach: np.ndarray | None = None
) -> tuple[float, ...]:
    """The rule of `judge_difference` on many samples at once [queries, runs]: the shares that are
    `reproduced` and `not reproduced`, on the side `above`. `margin` and `reach` may be those of each run."""
    values = values - margin
    margin = 0.0
    low, high = studentised_interval(values)
    if reach is not None:
        mean, half = values.mean(axis=0), (high - low) / 2
        low, high = mean - np.hypot(mean - low, reach), mean + np.hypot(high - mean, reach)
        values = values + (half / np.hypot(half, reach) - 1) * mean
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
    truth, samples = STATISTICS[name](np.arange(QUERIES))[0], []
    for places in drawn(QUERIES, n, runs).T:
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
        within_limits(rates, n, runs)


MIXES = {
    "even": (0.2, 0.2, 0.2, 0.2, 0.2),
    "85 % of grade 5": (0.05, 0.04, 0.03, 0.03, 0.85),
    "grades 1 and 4": (0.5, 0, 0, 0.5, 0),
    "60 % of grade 1": (0.6, 0.1, 0.1, 0.1, 0.1),
}


def classes_of_mix(name: str, mix: str, n: int, runs: int) -> tuple[float, float]:
    """Points averaged within each grade, two titles of a query drawn by the mix."""
    rng = np.random.default_rng([n, 33])
    effects, made, margins = BY_GRADE[name], [], []
    for places in drawn(QUERIES, n, runs).T:
        grades = rng.choice(5, size=(n, 2), p=MIXES[mix])
        grades[:, 1] = np.where(grades[:, 1] == grades[:, 0], -1, grades[:, 1])
        query, which = np.nonzero(grades >= 0)
        grade = grades[query, which]
        kept = [g for g in range(5) if (grade == g).sum() >= 20]
        if not kept:
            continue
        estimate = over_classes(effects[places[query], grade], grade.tolist(), query.tolist())
        made.append(estimate)
        margins.append(effects[:, kept].mean(axis=0).mean())
    return shares_of(made, margins)


def shares_of(estimates: list[Estimate], margins: list[float]) -> tuple[float, float]:
    """`decided` for samples of different sizes, those of one size at once; under 40 none is."""
    counts, total = np.zeros(2), 0
    for size in {estimate.n_queries for estimate in estimates}:
        rows = [i for i, estimate in enumerate(estimates) if estimate.n_queries == size]
        total += len(rows)
        if size >= CLAIM_QUERIES:
            values = np.stack([estimates[i].centred for i in rows], axis=1)
            rates = decided(values, np.array([margins[i] for i in rows]))
            counts += len(rows) * np.array(rates)
    reproduced, not_reproduced = counts / total
    return float(reproduced), float(not_reproduced)


def within_limits(rates: dict[str, tuple[float, float]], n: int, runs: int) -> None:
    for name, rate in rates.items():
        print(f"{name:34s} n = {n:3d}   {rate[0]:6.2%} {rate[1]:6.2%}")
        assert max(rate) <= allowed(MOST, runs, 10_000), (name, n)
    every = len(rates)
    mean = np.mean(list(rates.values()), axis=0)
    assert (mean <= allowed(MOST, runs * every, 10_000 * every)).all(), n


@pytest.mark.parametrize("runs", [250, pytest.param(10_000, marks=NIGHTLY)])
@SIZES
def test_no_mix_of_grades_decides_a_claim(n, runs):
    within_limits(
        {
            f"{name}, {mix}": classes_of_mix(name, mix, n, runs)
            for name in EFFECTS
            for mix in MIXES
            if n == 160 or mix != "even"  # else no grade has 20 queries
        },
        n,
        runs,
    )


@pytest.mark.parametrize("runs", [1_000, pytest.param(10_000, marks=NIGHTLY)])
@SIZES
def test_the_draw_of_heads_decides_no_claim(n, runs):
    """Eight of the forty orders; also with the spread between orders five times as large."""
    rates = {}
    for name, spread in (("eight orders", 1.0), ("eight orders, spread out", 5.0)):
        x = ORDERS + (spread - 1) * (ORDERS.mean(axis=0) - ORDERS.mean())
        rng = np.random.default_rng([n, 34])
        orders = rng.integers(x.shape[1], size=(runs, 8))
        chosen = x[drawn(QUERIES, n, runs).T[:, :, None], orders[:, None, :]]  # [runs, n, 8]
        reach = [draws_reach(means, 8) for means in chosen.mean(axis=1)]
        rates[name] = decided(chosen.mean(axis=2).T, float(x.mean()), np.array(reach))
    within_limits(rates, n, runs)


@pytest.mark.parametrize("runs", [1_000, pytest.param(10_000, marks=NIGHTLY)])
@pytest.mark.parametrize(("n", "share"), [(160, 0.03), (40, 0.15)])
def test_rare_effects_are_not_overlooked(n, share, runs):
    rng = np.random.default_rng([n, 35])
    rates = {}
    for name, size in (("one loses 100", -100.0), ("one gains 40", 40.0)):
        hit = rng.random((n, runs)) < share
        values = np.where(hit, size, 0.0) + rng.normal(0, 1, (n, runs))
        rates[f"{share:.0%}: {name}"] = decided(values, share * size)
    within_limits(rates, n, runs)


@SIZES
def test_a_difference_with_an_effect_is_found_as_often_as_queries_needed_says(n):
    x = REAL["random_five_1"]
    values, effect = x[drawn(len(x), n, 500)], 2.8 * x.std() / np.sqrt(n)
    found, missed = decided(values, x.mean() - effect)
    assert missed == 0 and 0.68 <= found <= 0.86
    assert decided(values, x.mean() + effect)[0] == 0


@pytest.mark.parametrize("reach", [0.0, 1.0])
def test_many_samples_at_once_are_judged_as_each_alone(reach):
    x = REAL["layer_10_accuracy"]
    values, margin = x[drawn(len(x), 40, 150)], float(x.mean()) - 2.0
    claim = {"id": "x", "side": "above", "margin": margin, "unit": "points"}
    estimates = (Estimate(float(x.mean()), x, tuple(range(40)), reach=reach) for x in values.T)
    verdicts = [judge_difference(estimate, **claim).verdict for estimate in estimates]
    shares = tuple(verdicts.count(verdict) / 150 for verdict in ("reproduced", "not reproduced"))
    assert decided(values, margin, np.full(150, reach)) == pytest.approx(shares)


def mixtures(rng: np.random.Generator, sets: int) -> np.ndarray:
    """`sets` random sets: means of three controls, stretched to a control's spread."""
    weights = np.zeros((CONTROLS.shape[1], sets))
    for column in weights.T:
        column[rng.choice(len(column), 3, replace=False)] = 1.5 / np.sqrt(3)
    return CONTROLS @ weights


def contest(
    kind: str, rng: np.random.Generator, sets_run: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Differences of a target [queries] and of its sets [queries, sets], and the margin."""
    if kind == "one of 20 controls":
        at = rng.permutation(20)
        return CONTROLS[:, at[0]], CONTROLS[:, at[1:]], 0.0
    if kind == "one of the sets":
        sets = mixtures(rng, sets_run + 1)
        return sets[:, 0], sets[:, 1:], FAR
    if kind == "far ahead":
        return -REAL["matching_five"], mixtures(rng, sets_run), 2.0
    every = mixtures(rng, 1_000)  # the target truly stands at this quantile of its sets
    means, quantile = every.mean(axis=0), 0.95 if kind == "in the best 20th" else 0.99
    target = np.argsort(means)[int(quantile * 1_000)]
    margin = FAR if kind == "in the best 20th" else float(means[target] - means.mean())
    return every[:, target], every[:, rng.choice(1_000, sets_run, replace=False)], margin


@pytest.mark.parametrize(
    ("runs", "sets_run"),
    [(100, 39), pytest.param(2_000, 39, marks=NIGHTLY), pytest.param(2_000, 99, marks=NIGHTLY)],
)
@pytest.mark.parametrize(
    ("kind", "reproduced", "not_reproduced"),
    [
        ("one of 20 controls", MOST_CONTESTS, 1.0),
        ("one of the sets", MOST_CONTESTS, 1.0),
        ("in the best 20th", 1.0, MOST),
        ("at the margin", MOST, MOST),
        ("far ahead", 1.0, 0.0),
    ],
)
@SIZES
def test_contests(n, kind, reproduced, not_reproduced, runs, sets_run):
    rng, verdicts = np.random.default_rng([n, 24]), []
    for run in range(runs):
        (target, sets, margin), places = contest(kind, rng, sets_run), rng.integers(QUERIES, size=n)
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
