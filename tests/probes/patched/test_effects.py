"""Shares of a gap by hand: sums over sums, none without a gap, intervals over queries."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.ablation.variant import Variant
from qt_bert.probes.patched.effects import Gap
from qt_bert.probes.patched.passes import Outcomes


def gap(*per_pair: float, queries: str | None = None, resamples: int = 400) -> Gap:
    names = queries or "abcdefghij"[: len(per_pair)]
    return Gap.of(np.array(per_pair), list(names), resamples, 0)


def test_scores_give_gap_and_moves_either_way() -> None:
    plain, patched = [[4.0, 2.0], [3.0, 3.5]], [[3.5, 2.5], [3.0, 3.0]]
    found = Outcomes({"none": 0, "p": 1}, np.array([plain, patched]))
    one = [Variant("p")]
    assert found.gap.tolist() == [2.0, -0.5]
    assert found.restoring(one).tolist() == [[0.5, -0.5]]
    assert found.breaking(one).tolist() == [[0.5, 0.0]]
    assert found.closing(one).tolist() == [[1.0, -0.5]]


def test_a_share_is_a_ratio_of_sums() -> None:
    # The mean of the ratios 0.5, 0.5 and 40 would be 13.7: one pair without a gap would own it.
    found = gap(2.0, 1.99, 0.01)
    share = found.share(np.array([[1.0, 0.995, 0.4], [2.0, 1.99, 0.01], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(share.values, [2.395 / 4, 1, 0])
    np.testing.assert_allclose(share.samples[:, 1:], np.broadcast_to([1.0, 0.0], (400, 2)))


def test_resamples_draw_whole_queries_for_both_sums() -> None:
    found = gap(1.0, 3.0, 1.0, 1.0, queries="aabb")
    share = found.share(np.array([[1.0, 3.0, 0.0, 0.0]]))
    assert found.n_queries == 2 and share.values[0] == pytest.approx(4 / 6)
    # a twice: 8/8; a and b: 4/6; b twice: 0/4
    assert set(np.round(share.samples[:, 0], 6)) == {0.0, 0.666667, 1.0}
    assert set(np.round(found.mean.samples, 6)) == {1.0, 1.5, 2.0}


def test_without_a_gap_there_is_no_share() -> None:
    none = gap(1.0, -1.0, 0.5, -0.4)
    assert not none.known and none.mean.value == pytest.approx(0.025)
    share = none.share(np.array([[1.0, 1.0, 1.0, 1.0]]))
    assert np.isnan(share.values).all() and share.intervals() == [None]
    assert share.samples.shape == (400, 1)
    assert not gap(1.0).known and not gap(1.0, 2.0, queries="aa").known  # a single query
    assert gap(1.0, 2.0, resamples=0).known


def test_a_gap_the_other_way_round_is_one() -> None:
    """A score that falls with the match: what brings it back counts as above 0 all the same."""
    found = gap(-2.0, -1.0, -3.0)
    share = found.share(np.array([[-1.0, -0.5, -1.5]]))
    assert found.known and share.values[0] == pytest.approx(0.5)
    assert np.isfinite(share.samples).all()
    assert found.towards(np.array([[-1.0, 0.5, 0.0]])).tolist() == [[1.0, -0.5, 0.0]]


def test_small_and_negative_gaps_are_counted() -> None:
    found = gap(0.04, 0.05, -0.01, 0.0, 1.0)
    assert (found.small, found.negative) == (3, 1)


def test_the_mean_over_draws() -> None:
    share = gap(1.0, 1.0).share(np.array([[0.5, 0.5], [0.1, 0.1]]))
    mean = share.mean(0, "draws")
    assert mean is not None and mean.value == pytest.approx(0.3)
    nothing = gap(1.0, 1.0).share(np.empty((0, 2)))
    assert nothing.values.shape == (0,) and nothing.mean(0, "draws") is None
