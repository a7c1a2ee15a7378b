"""What losses are judged by, of any labels."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.models.card import ModelLabels
from qt_bert.probes.claims import POINTS
from qt_bert.probes.ladder.measures import LEAST_LOSS, measure, quality_of
from tests.probes.ladder.made import GRADES

SCORE, LEVELS = ModelLabels(1, None), ModelLabels(3, None)


def pairs(queries: int, *labels: Sequence[int]) -> list[Pair]:
    return [
        Pair(f"q{i % queries}", f"t{i}", tuple(one), str(i), i + 1, "", {})
        for i, one in enumerate(labels)
    ]


def test_the_quality_that_model_and_labels_define() -> None:
    graded = pairs(3, [1], [3], [5], [2])
    assert quality_of(GRADES, graded, graded) == "accuracy"
    assert quality_of(GRADES, pairs(2, [1, 2], [3, 4], [5])) == "accuracy"
    assert quality_of(LEVELS, pairs(2, [1], [2], [3])) == "accuracy"
    assert quality_of(SCORE, pairs(2, [1], [3], [5], [2])) == "pairwise_accuracy"
    # One title a query leaves the order over all pairs; so it does if one sample alone is like that.
    assert quality_of(SCORE, pairs(4, [1], [3], [5], [2])) == "spearman"
    assert quality_of(SCORE, graded, pairs(4, [1], [3], [5], [2])) == "spearman"


def test_labels_that_are_all_equal_order_nothing() -> None:
    same = pairs(2, [3], [3], [3])
    assert quality_of(GRADES, same) == "accuracy"
    assert quality_of(SCORE, same) == "spearman"  # with its own scores uncut


def test_every_quality_has_a_bar_in_its_own_unit() -> None:
    assert measure("accuracy", GRADES).unit == POINTS
    assert LEAST_LOSS / measure("accuracy", GRADES).scale == pytest.approx(2)
    assert LEAST_LOSS / measure("pairwise_accuracy", SCORE).scale == pytest.approx(2)
    assert LEAST_LOSS / measure("spearman", GRADES).scale == 0.02
    assert measure("spearman", SCORE).title != measure("spearman", GRADES).title
    assert measure("expected_grade", LEVELS).title.en == "mean expected level"
