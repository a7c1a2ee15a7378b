"""The parts of the loss on numbers small enough for paper."""

from __future__ import annotations

import math

import pytest
import torch

from qt_bert.errors import ArgumentError
from qt_bert.planning.distill import (
    LossWeights,
    check_weights,
    distribution_loss,
    hidden_loss,
)


def logits(*probabilities: float) -> torch.Tensor:
    return torch.tensor([probabilities]).log()


def test_the_distribution_is_a_divergence_from_the_teacher():
    got = distribution_loss(logits(0.5, 0.5), logits(0.8, 0.2), 1.0)
    assert got.tolist() == pytest.approx([0.8 * math.log(1.6) + 0.2 * math.log(0.4)])


def test_temperature_two_takes_roots_and_counts_fourfold():
    got = distribution_loss(logits(0.5, 0.5), logits(0.8, 0.2), 2.0)  # √0.8 : √0.2 = 2 : 1
    by_hand = 2 / 3 * math.log(4 / 3) + 1 / 3 * math.log(2 / 3)
    assert got.tolist() == pytest.approx([4 * by_hand], rel=1e-5)


def test_a_single_logit_is_a_squared_error_whatever_the_temperature():
    got = distribution_loss(torch.tensor([[3.0], [1.0]]), torch.tensor([[1.0], [1.0]]), 4.0)
    assert got.tolist() == [4.0, 0.0]


def test_hidden_states_are_compared_once_normed():
    got = hidden_loss(torch.tensor([[1.0, 3.0]]), torch.tensor([[5.0, 1.0]]))
    assert got.tolist() == pytest.approx([4.0], rel=1e-4)  # [-1, 1] and [1, -1]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (LossWeights(hidden=-1.0), "hidden = -1.0"),
        (LossWeights(grades=float("nan")), "grades = nan"),
        (LossWeights(0.0, 0.0, 0.0), "every part"),
        (LossWeights(temperature=0.0), "temperature = 0.0"),
    ],
)
def test_weights_that_cannot_be_meant_are_named(weights, said):
    with pytest.raises(ArgumentError, match=said):
        check_weights(weights)
