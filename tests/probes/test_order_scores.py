"""Scores of word order: which heads are best, and how many of them come back."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.models.heads import Head
from qt_bert.probes.naming import stability
from qt_bert.probes.order.head_scores import OrderScores
from qt_bert.probes.order.maps import OFFSETS


def scores_of(sums: np.ndarray, identities: np.ndarray) -> OrderScores:
    """Scores of one layer from [queries, heads] at the first offset, others evenly at 1."""
    both = np.ones((*sums.shape, len(OFFSETS) + 1, 2))
    both[..., 0, 0] = sums
    return OrderScores(both[:, None], identities[:, None], len(sums), 0, len(sums), 1.0)


def test_a_set_of_order_heads_comes_back_by_the_rule_that_chose_it() -> None:
    queries = 20
    sums = np.tile([9.0, 8.0, 5.0, 3.0], (queries, 1))
    identities = np.tile([-0.5, 0.5, -0.5, -0.5], (queries, 1))
    found = scores_of(sums, identities)
    assert found.best(2) == [Head(0, 0), Head(0, 2)]  # L0H1 follows characters
    assert found.score[0].tolist() == [9, 8, 5, 3]
    back = stability(found.rule, found.best(2), queries)
    assert back is not None and (back.overlap, back.chance_mean) == (1.0, pytest.approx(2 / 3))
    identities[::2, 0] = 0.6  # now some resamples find that L0H0 follows characters
    loose = stability(scores_of(sums, identities).rule, [Head(0, 0), Head(0, 2)], queries)
    assert loose is not None and 0.5 < loose.overlap < 1


def test_the_lift_of_a_resample_is_a_ratio_of_sums() -> None:
    found = scores_of(np.array([[1.0], [5.0]]), np.full((2, 1), -1.0))
    found.sums[1, 0, 0, 0, 1] = 3.0
    assert found._lift(np.array([2.0, 1.0]))[0, 0, 0] == pytest.approx((2 + 5) / (2 + 3))
    assert found.lift[0, 0, 0] == pytest.approx(6 / 4)


def test_named_heads_come_back_among_those_with_enough_weight() -> None:
    sums = np.tile([9.0, 8.0, 5.0], (20, 1)) + np.linspace(0, 1, 20)[:, None]
    found = scores_of(sums, np.full((20, 3), 0.5))
    found.sums[:, 0, 1, -1, 0] = 0.01
    assert found.named().heads() == [Head(0, 0), Head(0, 2)]
    back = stability(found.named_rule, found.named().heads(), 20)
    assert back is not None and (back.overlap, back.chance_mean) == (1.0, 1.0)
