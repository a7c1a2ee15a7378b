from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from qt_bert.errors import ArgumentError
from qt_bert.stats.estimate import Estimate, from_leave_one_out, over_queries
from qt_bert.stats.tests import sign_flip_p
from qt_bert.stats.verdict import (
    Claim,
    judge_contest,
    judge_difference,
    not_testable,
    queries_needed,
    share_interval,
    with_q,
)


def judged(estimate: Estimate, margin: float, side: str = "above") -> Claim:
    return judge_difference(estimate, id="x", side=side, margin=margin, unit="points")


def spread(mean: float, n: int = 40, sd: float = 1.0, seed: int = 0) -> Estimate:
    """An estimate of exactly this mean and standard deviation."""
    z = np.random.default_rng(seed).normal(size=n)
    return over_queries(mean + sd * (z - z.mean()) / z.std(ddof=1), range(n))


@pytest.mark.parametrize(
    ("mean", "side", "margin", "verdict"),
    [
        (3.0, "above", 2.0, "reproduced"),
        (1.0, "above", 2.0, "not reproduced"),
        (2.1, "above", 2.0, "inconclusive"),
        (0.0, "above", -0.5, "reproduced"),
        (-3.0, "below", -2.0, "reproduced"),
        (-1.0, "below", -2.0, "not reproduced"),
        (3.0, "below", 2.0, "not reproduced"),
    ],
)
def test_a_difference_is_judged_on_both_sides_of_one_margin(mean, side, margin, verdict):
    claim = judged(spread(mean), margin, side)
    assert claim.verdict == verdict
    assert claim.reason == ("decided" if verdict != "inconclusive" else "interval")


def test_an_interval_beyond_the_margin_is_not_enough_without_p():
    claim = judged(over_queries([1.0] * 5 + [0.0] * 195, range(200)), 0)
    assert claim.ci_low > 0 and claim.p > 0.05
    assert (claim.verdict, claim.reason) == ("inconclusive", "p")


def test_a_correlation_is_judged_as_fishers_z():
    left = 0.5 + 0.02 * np.random.default_rng(0).normal(size=40)
    rho = from_leave_one_out(0.5, left, range(40), correlation=True)
    claim = judge_difference(rho, id="x", side="above", margin=-0.9, unit="rho")
    values, edge = rho.judged(-0.9)
    assert claim.p == sign_flip_p(values, edge)
    assert -1 < claim.ci_low < 0.5 < claim.ci_high < 1


@pytest.mark.parametrize(
    ("estimate", "reason"),
    [
        (spread(3, n=39), "few_queries"),
        (over_queries([], []), "few_queries"),
        (over_queries([1.0] * 50, range(50)), "zero_width"),
        (from_leave_one_out(1.0, [np.nan] + [1.0] * 39, range(40)), "undefined"),
    ],
)
def test_an_untestable_claim_has_no_p_and_a_reason(estimate, reason):
    for claim in (
        judged(estimate, 0),
        judge_contest(estimate, [0 * estimate] * 19, id="x", side="above", margin=0, unit="points"),
    ):
        assert (claim.verdict, claim.reason, claim.p) == ("not testable", reason, None)
        assert claim.needs_queries is None


def test_a_claim_has_the_figures_of_its_estimate():
    claim = judged(spread(3), 2)
    assert (claim.id, claim.n_queries, claim.q) == ("x", 40, None)
    assert (claim.ci_low, claim.ci_high) == spread(3).interval()
    assert (claim.value, claim.p) == (pytest.approx(3), sign_flip_p(spread(3).values, 2))
    known = not_testable("x", "few_seeds", side="above", margin=0, unit="rho", estimate=spread(1))
    assert (known.verdict, known.reason, known.p) == ("not testable", "few_seeds", None)
    assert (known.value, known.ci_low) == (pytest.approx(1), spread(1).interval()[0])
    assert not_testable("x", "few_seeds", side="above", margin=0, unit="rho").value is None


def contest(target: float, means, margin: float = 0, side="above", **more):
    """A target and sets that each lie beside it by a constant, but for a little of their own."""
    sets = [spread(mean, seed=0) + 0.01 * spread(0, seed=i + 1) for i, mean in enumerate(means)]
    return judge_contest(
        spread(target), sets, id="c", side=side, margin=margin, unit="points", **more
    )


def test_a_target_ahead_of_all_sets_is_reproduced():
    claim = contest(5, [0.0] * 99, margin=2)
    assert (claim.verdict, claim.p, claim.value) == ("reproduced", 0.01, pytest.approx(5))
    assert claim.ci_low > 4.9
    below = contest(-5, [0.0] * 99, margin=-2, side="below")
    assert (below.verdict, below.p) == ("reproduced", 0.01)
    listed = contest(5, [0.0] * 19, margin=2, enumerated=True)
    assert (listed.verdict, listed.p) == ("reproduced", 0.05)


def test_four_sets_ahead_are_the_most_of_99():
    assert contest(5, [6.0] * 4 + [0.0] * 95).p == 0.05
    five = contest(5, [6.0] * 5 + [0.0] * 94)
    assert (five.verdict, five.reason, five.p) == ("inconclusive", "rank", 0.06)
    assert five.needs_queries is None


def test_a_set_that_does_exactly_as_much_counts():
    target = spread(5)
    claim = judge_contest(
        target, [target] + [spread(0, seed=1)] * 98, id="c", side="above", margin=0, unit="points"
    )
    assert claim.p == 0.02


def test_a_contest_short_of_its_margin_is_not_reproduced_whatever_its_rank():
    claim = contest(1, [0.0] * 99, margin=2)
    assert (claim.verdict, claim.p) == ("not reproduced", 0.01)


def test_a_contest_counts_to_the_tenth_set_that_does_as_much():
    means = [6.0, 0.0] * 10
    claim = contest(5, means[:19], margin=-9)
    assert (claim.verdict, claim.p) == ("not reproduced", 10 / 19)
    assert contest(5, [*means, *[6.0] * 79], margin=-9).p == claim.p
    assert contest(5, [6.0] * 10, margin=-9).p == 1
    assert contest(5, [6.0] * 10, margin=-9, enumerated=True).reason == "few_sets"
    assert contest(5, [6.0] * 15 + [0.0] * 14, margin=-9, enumerated=True).p == 16 / 30


def test_few_sets_are_no_contest():
    for claim in (contest(5, [0.0] * 18), contest(5, [])):
        assert (claim.verdict, claim.reason, claim.p) == ("not testable", "few_sets", None)
    assert contest(5, [0.0] * 18).value == pytest.approx(5)


def test_a_common_share_that_noise_could_make_stays_open():
    q = range(40)
    noise = np.random.default_rng(0).normal(0, 5, (40, 100))
    sets = [over_queries(column - column.mean() + 0.02 * i, q) for i, column in enumerate(noise.T)]
    claim = judge_contest(
        sets[70], sets[:70] + sets[71:], id="c", side="above", margin=-50, unit="points"
    )
    assert claim.p > 0.1 and (claim.verdict, claim.reason) == ("inconclusive", "rank")


def test_the_mean_of_drawn_sets_has_an_error_that_enumerated_ones_lack():
    means = list(np.linspace(-1, 1, 25))
    drawn, listed = contest(5, means), contest(5, means, enumerated=True)
    reach = 2.0639 * np.std(means, ddof=1) / 5
    assert listed.ci_high - listed.value < 0.01
    assert drawn.ci_high - drawn.value == pytest.approx(reach, rel=1e-3)
    assert drawn.value - drawn.ci_low == pytest.approx(reach, rel=1e-3)


def test_an_interval_counts_the_draw_of_heads_and_so_does_p():
    plain = judged(spread(3), 2)
    drawn = replace(spread(3), reach=2.0)
    claim = judged(drawn, 2)
    assert claim.ci_low == pytest.approx(3 - np.hypot(3 - plain.ci_low, 2.0))
    assert claim.ci_high == pytest.approx(3 + np.hypot(plain.ci_high - 3, 2.0))
    assert (plain.verdict, claim.verdict) == ("reproduced", "inconclusive")
    assert plain.p < 0.001 < 0.05 < claim.p


@pytest.mark.parametrize(
    ("mean", "verdict"), [(0.6, "reproduced"), (0.4, "not reproduced"), (0.51, "inconclusive")]
)
def test_a_share_is_judged_in_linear_form_and_shown_as_a_share(mean, verdict):
    whole = spread(10, sd=3, seed=1)
    part = mean * whole + spread(0, sd=0.5)
    sets = [0 * whole] * 39
    claim = judge_contest(part, sets, id="x", side="above", margin=0.5, unit="share", whole=whole)
    assert (claim.verdict, claim.value) == (verdict, pytest.approx(mean))
    assert claim.verdict == judged(part - 0.5 * whole, 0).verdict
    assert claim.ci_low < mean < claim.ci_high and claim.ci_high - claim.ci_low < 0.05
    # Fieller's interval holds a share for which part − share × whole may be 0.
    for end in (claim.ci_low, claim.ci_high):
        low, high = (part - end * whole).interval()
        assert min(abs(low), abs(high)) < 1e-3
    contested = judge_contest(
        part + 0.0 * whole,
        [0.01 * spread(0, seed=i) for i in range(39)],
        id="x",
        side="above",
        margin=0.5,
        unit="share",
        whole=whole,
    )
    assert contested.verdict == verdict and contested.value == pytest.approx(mean, abs=0.01)


def test_sets_over_other_queries_are_refused():
    with pytest.raises(ArgumentError, match="different queries"):
        judge_contest(
            spread(1), [spread(0, n=41)] * 19, id="c", side="above", margin=0, unit="points"
        )


@pytest.mark.parametrize(("hits", "sets"), [(0, 99), (5, 99), (10, 31), (19, 19)])
def test_the_interval_of_a_share_is_clopper_and_pearsons(hits, sets):
    exact = binomtest(hits, sets).proportion_ci(0.95, method="exact")
    assert share_interval(hits, sets) == pytest.approx((exact.low, exact.high))


def test_queries_needed_by_hand():
    assert queries_needed(100, 2.0, 2.0) == 204
    assert queries_needed(72, 3.0, 1.0) == 1322
    assert queries_needed(100, 7.0, 1.0) == 9996
    assert queries_needed(100, 7.1, 1.0) == queries_needed(5, 1, 0) == 10_001
    assert queries_needed(5, 1, 1e-320) == 10_001
    assert queries_needed(100, 0.0, 1.0) == 0


def test_an_open_claim_says_how_many_queries_would_decide_it():
    above = judged(spread(2.1), 2)
    facing, away = above.value - above.ci_low, above.ci_high - above.value
    distance, of_95 = above.value - 2, 1.281552 / 1.959964
    assert above.needs_queries == (
        queries_needed(40, facing, distance + of_95 * away),
        queries_needed(40, facing, max(0, distance - of_95 * facing)),
    )
    short, wide = judged(spread(1.6), 2), judged(spread(1.8), 2)
    assert short.verdict == "not reproduced" and short.needs_queries is None
    assert wide.needs_queries[0] < 100 and wide.needs_queries[1] > 300
    assert judged(spread(9), 2).needs_queries is None
    assert judged(spread(2.31), 2).needs_queries[0] == 41  # more than it had


def test_q_stands_over_the_claims_that_have_a_p():
    claims = [judged(spread(2.5), 2), judged(spread(3, n=39), 2), judged(spread(2.2), 2)]
    a, b, c = with_q(claims)
    assert b.q is None and a.q == pytest.approx(min(2 * claims[0].p, claims[2].p))
    assert c.q == pytest.approx(claims[2].p)
    assert [claim.verdict for claim in (a, b, c)] == [claim.verdict for claim in claims]
