"""The parts of the loss on numbers small enough for paper."""

from __future__ import annotations

import math

import pytest
import torch

from qt_bert.errors import ArgumentError
from qt_bert.planning.distill import (
    LossWeights,
    attention_loss,
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


@pytest.mark.parametrize(
    ("states", "expected"),
    [("plain", (16 + 4) / 2), ("norm", 4.0), ("cosine", 1 - 8 / math.sqrt(260))],
)
def test_hidden_states_are_compared_as_asked(states, expected):
    student, teacher = torch.tensor([[1.0, 3.0]]), torch.tensor([[5.0, 1.0]])
    got = hidden_loss(student, teacher, states)
    assert got.tolist() == pytest.approx([expected], rel=1e-4)


def test_attention_is_a_divergence_of_each_row_and_a_mean_over_heads():
    teacher = torch.tensor([[[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]]])
    student = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]])
    first = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    expected = [[first / 2, math.log(2) / 2]]
    torch.testing.assert_close(attention_loss(student, teacher), torch.tensor(expected))


def test_grades_alone_ask_no_teacher():
    assert LossWeights().asks_the_teacher
    assert not LossWeights(attention=2.0).grades_alone().asks_the_teacher


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (LossWeights(hidden=-1.0), "hidden = -1.0"),
        (LossWeights(grades=float("nan")), "grades = nan"),
        (LossWeights(0.0, 0.0, 0.0), "every part"),
        (LossWeights(temperature=0.0), "temperature = 0.0"),
        (LossWeights(states="same"), "states = 'same'"),
    ],
)
def test_weights_that_cannot_be_meant_are_named(weights, said):
    with pytest.raises(ArgumentError, match=said):
        check_weights(weights)
