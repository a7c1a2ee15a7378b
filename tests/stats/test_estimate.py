"""Estimates against values computed by hand, by scipy and by brute force."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from qt_bert.errors import ArgumentError
from qt_bert.stats.estimate import (
    Estimate,
    classes_judged,
    from_leave_one_out,
    jackknife,
    mean_of,
    over_classes,
    over_queries,
    paired,
    pooled,
    query_draws,
    simultaneous_bound,
    studentised_interval,
)
from qt_bert.stats.judgements import index_queries


def titles(n_queries: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Two numbers and the query of each of 1 to 4 titles a query, queries mixed."""
    rng = np.random.default_rng(seed)
    index = rng.permutation(np.repeat(np.arange(n_queries), rng.integers(1, 5, n_queries)))
    x = rng.normal(1, 2, len(index)) + index % 3
    return x, np.abs(x) + rng.random(len(index)), [f"q{i}" for i in index]


def without(queries: list[str], removed: str) -> np.ndarray:
    return np.array([query != removed for query in queries])


def test_mean_within_a_query_first_then_over_the_defined_queries():
    nan = float("nan")
    mean = over_queries([1, 2, 6, nan, 4, nan], ["a", "b", "b", "b", "c", "d"])
    assert (mean.value, mean.n_queries, mean.queries) == (3, 3, ("a", "b", "c"))
    assert mean.values.tolist() == [1, 4, 4]
    assert mean.leave_one_out.tolist() == [4, 2.5, 2.5]


def test_without_values_an_estimate_is_undefined():
    undefined = (over_queries([float("nan")], ["a"]), over_queries([], []), pooled([0], [0], ["a"]))
    for estimate in (*undefined, jackknife(lambda places: 1.0, [])):
        assert np.isnan(estimate.value)
        assert (estimate.n_queries, estimate.interval()) == (0, None)


def test_pooled_is_the_ratio_of_sums_and_its_pseudo_values_leave_a_query_out():
    x, y, queries = titles(12)
    ratio = pooled(x, y, queries)
    assert ratio.value == pytest.approx(x.sum() / y.sum())
    left = [x[keep].sum() / y[keep].sum() for keep in (without(queries, q) for q in ratio.queries)]
    np.testing.assert_allclose(ratio.leave_one_out, left)
    np.testing.assert_allclose(ratio.values, 12 * ratio.value - 11 * np.array(left))
    assert ratio.centred.mean() == pytest.approx(ratio.value)


def test_a_pooled_share_leaves_out_queries_without_counts():
    share = pooled([1, 0, 2], [2, 0, 2], ["a", "b", "c"])
    assert (share.value, share.queries) == (0.75, ("a", "c"))
    assert share.leave_one_out.tolist() == [1, 0.5]


def test_a_quotient_of_means_is_judged_like_the_ratio_of_their_sums():
    x, y, queries = titles(15)
    quotient = over_queries(x, queries) / over_queries(y, queries)
    mean_x, mean_y = over_queries(x, queries), over_queries(y, queries)
    ratio = pooled(mean_x.values, mean_y.values, mean_x.queries)
    assert (quotient.value, quotient.kind) == (pytest.approx(ratio.value), "statistic")
    np.testing.assert_allclose(quotient.values, ratio.values)
    np.testing.assert_allclose(quotient.interval(), ratio.interval())


def test_jackknife_of_spearman_leaves_whole_queries_out():
    x, y, queries = titles(10)

    def rho(places):
        return float(spearmanr(x[places], y[places]).statistic)

    estimate = jackknife(rho, queries, correlation=True)
    assert estimate.value == pytest.approx(spearmanr(x, y).statistic)
    kept = [without(queries, query) for query in estimate.queries]
    brute = [spearmanr(x[keep], y[keep]).statistic for keep in kept]
    np.testing.assert_allclose(estimate.leave_one_out, brute)
    z = from_leave_one_out(np.arctanh(estimate.value), np.arctanh(brute), estimate.queries)
    np.testing.assert_allclose(estimate.interval(), np.tanh(z.interval()))
    values, margin = estimate.judged(0.1)
    assert margin == pytest.approx(np.arctanh(0.1))
    np.testing.assert_allclose(values, z.centred)
    assert (estimate - estimate).kind == "statistic"


def test_sums_differences_and_multiples_keep_the_pairing():
    x, y, queries = titles(30)
    a, b = over_queries(x, queries), over_queries(y, queries)
    direct = over_queries(x - y, queries)
    assert (a - b).value == pytest.approx(direct.value)
    np.testing.assert_allclose((a - b).interval(), direct.interval())
    np.testing.assert_allclose((a + b).values, over_queries(x + y, queries).values)
    np.testing.assert_allclose((100 * a).interval(), 100 * np.array(a.interval()))
    np.testing.assert_allclose((-a).values, -a.values)
    np.testing.assert_allclose((1 - a / 2).values, 1 - a.values / 2)
    np.testing.assert_allclose((np.float64(3) * a).values, 3 * a.values)
    assert sum([a, b]).value == pytest.approx(a.value + b.value)
    assert ((a - b).kind, (a - a / b).kind) == ("mean", "statistic")


def test_estimates_over_different_queries_are_not_mixed():
    a, b = over_queries([1, 2, 3], list("abc")), over_queries([5, 7, 8], list("bdc"))
    with pytest.raises(ArgumentError, match=r"different queries \(3 and 3, 2 of them in one alone"):
        a - b
    first, second = paired(a, b)
    assert first.queries == second.queries == ("b", "c")
    assert (first.value, second.value) == (2.5, 6.5)
    with pytest.raises(ArgumentError, match="another order"):
        a + over_queries([1, 2, 3], list("acb"))
    with pytest.raises(ArgumentError, match="only means"):
        paired(a, a / a)


def test_an_undefined_quotient_has_no_interval():
    a = over_queries([1, 2, 3], list("abc"))
    for below in ([0, 0, 0], [1, 1, 0], [-1, 0, 1]):
        quotient = a / over_queries(below, list("abc"))
        assert (quotient.interval() is None) == (below != [1, 1, 0])
    left_out = a / over_queries([1, 0, 0], list("abc"))
    assert (left_out.value, left_out.interval()) == (6, None)


def test_the_interval_is_bootstrap_t_by_brute_force():
    values = np.random.default_rng(3).exponential(2.0, 25)
    mean, error = values.mean(), values.std(ddof=1) / 5
    t = []
    for counts in np.concatenate(list(query_draws(25, 400, seed=8))):
        drawn = np.repeat(values, counts.astype(int))
        t.append((drawn.mean() - mean) / max(drawn.std(ddof=1) / 5, 0.2 * error))
    low, high = np.quantile(t, [0.025, 0.975])
    symmetric = np.quantile(np.abs(t), 0.95)
    error *= 1 + 5 / 25
    expected = mean - max(high, symmetric) * error, mean + max(-low, symmetric) * error
    interval = over_queries(values, range(25)).interval(resamples=400, seed=8)
    np.testing.assert_allclose(interval, expected)
    columns = studentised_interval(np.stack([-values, values], axis=1), 400, 8)
    np.testing.assert_allclose([ends[1] for ends in columns], expected)


def test_one_query_with_an_effect_among_many_reaches_little_over_six_times_its_mean():
    values = np.zeros(72)
    values[5] = -72
    low, high = over_queries(values, range(72)).interval()
    assert low == pytest.approx(-1 - 5 * (1 + 5 / 72)) and high > 0


def test_intervals_of_nothing_and_of_no_width():
    assert over_queries([3], ["a"]).interval() is None
    assert over_queries([0.1] * 30, range(30)).interval() == pytest.approx((0.1, 0.1))
    low, high = over_queries([0.1 + 1e-17 * i for i in range(30)], range(30)).interval()
    assert low == high
    assert from_leave_one_out(1.0, [1.0, 0.9, 0.8], "abc", correlation=True).interval() is None


def test_draws_are_the_seeds_alone():
    mean = over_queries(np.random.default_rng(0).normal(size=50), range(50))
    assert mean.interval(seed=1) == mean.interval(seed=1) != mean.interval(seed=2)
    counts = np.concatenate(list(query_draws(50, 20, seed=1)))
    assert counts.shape == (20, 50) and (counts.sum(axis=1) == 50).all()
    # A caller's wide rows come in smaller chunks, of the same draws.
    first, *others = query_draws(50, 20, seed=1, width=100_000)
    assert first.shape == (10, 50) and (np.concatenate([first, *others]) == counts).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: over_queries([1, 2], ["a"]), r"shape \(2,\), but 1 items"),
        (lambda: over_queries([1, float("inf")], list("ab")), "item 1 is infinite"),
        (lambda: pooled([1], [-1], ["a"]), "a count is -1"),
        (lambda: over_queries([1], ["a"]) / 0, "the number 0"),
        (lambda: over_queries([1, 2], list("ab")).interval(0), "resamples is 0"),
        (lambda: Estimate(1.0, np.ones(2), ("a",)), "one each"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_spellings_of_a_query_are_one_query():
    spelled = ["Ａ b", "ab", "AB ", "ａＢ", "c"]
    assert over_queries([1.0, 1, 1, 1, 0], spelled).value == 0.5
    assert index_queries(spelled)[0].tolist() == [0, 0, 0, 0, 1]
    assert jackknife(lambda rows: float(len(rows)), spelled).leave_one_out.tolist() == [1, 4]


def test_a_mean_over_classes_by_hand():
    """20 queries of class a lose 1 to 20, 20 of class b lose 100, 19 of class c are left out."""
    queries = [f"q{n}" for n in range(59)]
    classes = ["a"] * 20 + ["b"] * 20 + ["c"] * 19
    values = [*range(1, 21), *[100] * 20, *[-9_999] * 19]
    assert classes_judged(classes, queries) == (["a", "b"], ["c"])
    estimate = over_classes(values, classes, queries)
    assert (estimate.value, estimate.n_queries) == ((10.5 + 100) / 2, 40)
    without = [((210 - x) / 19 + 100) / 2 for x in range(1, 21)] + [estimate.value] * 20
    assert estimate.leave_one_out == pytest.approx(without)


def test_a_query_of_two_classes_counts_once():
    of = ["a", "a", "b", "b"], ["p", "q", "q", "q"]
    few = over_classes([1.0, 2.0, 4.0, 8.0], *of)  # no class has enough
    assert few.value == 3.75 and few.leave_one_out.tolist() == [4.0, 1.0]


def test_the_mean_over_drawn_sets_reaches_as_far_as_the_draws_do():
    """Eight orders of five sets: their means are 0, 1, … 7 whatever the sets' own spread."""
    sets = [
        over_queries([order + step + x for x in (-1.0, 0.0, 1.0)], ["a", "b", "c"])
        for order in range(8)
        for step in (-20, -10, 0, 10, 20)
    ]
    mean = mean_of(sets, draws=8)
    assert (mean.value, mean_of(sets).reach) == (3.5, 0.0)
    assert mean.reach == pytest.approx(2.364624 * np.std(range(8), ddof=1) / np.sqrt(8))
    assert (2 * mean - mean).reach == pytest.approx(np.hypot(2, 1) * mean.reach)


def test_the_simultaneous_bound_holds_for_all_means_at_once():
    """With 100 means of 0 the largest seems large; the bound is above 0 in 95 % of samples."""
    rng = np.random.default_rng(0)
    covered = [
        simultaneous_bound(rng.normal(size=(60, 100)), resamples=200, seed=run) > 0
        for run in range(200)
    ]
    one = rng.normal(size=(200, 1))
    assert simultaneous_bound(one) == pytest.approx(
        one.mean() + 1.645 * one.std() / 200**0.5, abs=0.02
    )
    assert np.mean(covered) >= 0.95
    assert np.isnan(simultaneous_bound(np.ones((5, 2))))
