from __future__ import annotations

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.models.card import ModelLabels
from qt_bert.planning.runs import losses_of
from tests.planning.choice.conftest import graded, pair

FIVE = ModelLabels(5, tuple((grade,) for grade in range(1, 6)))
ONE = ModelLabels(1, None)


def test_the_loss_of_a_label_by_hand() -> None:
    pairs = [pair(2, "a", "b", (5,)), pair(3, "a", "c", (1, 2))]
    p = np.array([[0.1, 0.1, 0.2, 0.2, 0.4], [0.2, 0.3, 0.1, 0.1, 0.3]])
    found = losses_of(np.log([p, p[::-1]]), ["none", "v"], pairs, FIVE)
    np.testing.assert_allclose(found.values, [[0.6, 0.5], [0.7, 0.8]])
    assert found.base == pytest.approx(0.55)
    assert found.added("v") == pytest.approx(0.2)


def test_one_logit_counts_the_squared_change_of_the_score() -> None:
    pairs = [pair(2, "a", "b", (5,)), pair(3, "a", "c", (1,))]
    logits = np.array([[[1.0], [2.0]], [[1.5], [0.0]]])
    found = losses_of(logits, ["none", "v"], pairs, ONE)
    np.testing.assert_allclose(found.values, [[0, 0], [0.25, 4]])


def test_some_of_the_pairs_in_their_own_order() -> None:
    pairs = graded(6)
    logits = np.random.default_rng(0).normal(size=(3, 6, 5))
    found = losses_of(logits, ["none", "a", "b"], pairs, FIVE)
    some = found.on([pairs[4], pairs[1]])
    np.testing.assert_array_equal(some.values, found.values[:, [4, 1]])
    np.testing.assert_array_equal(some.logits, logits[:, [4, 1]])
    assert some.mean("b") == pytest.approx(found.values[2, [1, 4]].mean())
    with pytest.raises(ArgumentError, match="the pair of line 99 is not among those measured"):
        found.on([pair(99, "a", "b", (1,))])
    with pytest.raises(ArgumentError, match="nothing was measured without L0H0"):
        found.mean("L0H0")


def test_pairs_without_labels_are_refused() -> None:
    pairs = [pair(2, "a", "b", None)]
    with pytest.raises(ArgumentError, match="chosen by the labels, and the pairs have none"):
        losses_of(np.zeros((1, 1, 5)), ["none"], pairs, FIVE)
    assert losses_of(np.zeros((1, 1, 1)), ["none"], pairs, ONE).base == 0
