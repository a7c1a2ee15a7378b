"""Losses by hand, against loops over pairs and torch's own; how a command line weighs them."""

import math

import pytest
import torch
from torch.nn import functional as F

from qt_bert.errors import ArgumentError
from qt_bert.training.losses import (
    Losses,
    LossWeights,
    label_set_loss,
    listwise_loss,
    margin_loss,
    margin_mse_loss,
    ordinal_loss,
    soft_loss,
)

LOG_P = torch.log(torch.tensor([0.1, 0.2, 0.3, 0.4]))


def test_label_set_loss_by_hand():
    allowed = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    expected = torch.tensor([-math.log(0.5), -math.log(0.4), 0.0])
    torch.testing.assert_close(label_set_loss(LOG_P.repeat(3, 1), allowed), expected)


def test_an_exact_label_is_cross_entropy_with_its_gradient():
    logits = torch.randn(6, 5, requires_grad=True, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 3, 4, 0])
    label_set_loss(logits, F.one_hot(labels, 5)).sum().backward()
    ours, logits.grad = logits.grad.clone(), None
    F.cross_entropy(logits, labels, reduction="sum").backward()
    torch.testing.assert_close(ours, logits.grad)


def test_steps_of_an_ordinal_label_by_hand():
    """P(> first) = .9, P(> second) = .7, P(> third) = .4; a step inside a set is left out."""
    labels = [(0, 1, 0, 0), (0, 1, 1, 0), (0, 0, 0, 1), (1, 0, 0, 1), (0, 0, 0, 0)]
    products = [0.9 * 0.3 * 0.6, 0.9 * 0.6, 0.9 * 0.7 * 0.4, 1, 1]
    losses = ordinal_loss(LOG_P.repeat(5, 1), torch.tensor(labels, dtype=torch.float32))
    torch.testing.assert_close(losses, -torch.log(torch.tensor(products)))


def test_two_outputs_have_one_step_which_is_their_cross_entropy():
    logits = torch.randn(8, 2, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(8) % 2
    expected = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(ordinal_loss(logits, F.one_hot(labels, 2)), expected)


# Titles of a query: eleven, of queries of 4, 3, 2 and 1 and one without a label among them.

QUERY = torch.tensor([0, 1, 0, 2, 0, 1, 3, 0, 2, 1, 1])
SAME = QUERY[:, None] == QUERY[None, :]
LOW = torch.tensor([0, 4, 2, 1, 3, 0, 2, 0, 1, 2, float("nan")])
BOUNDS = torch.stack([LOW, LOW], -1)
BOUNDS[0, 1] = 1  # the first: {0, 1}
SHARE = torch.arange(1, 12) / 66


@pytest.fixture
def scores():
    return (2 * torch.randn(11, generator=torch.Generator().manual_seed(2))).requires_grad_()


def queries():
    return [(q == QUERY).nonzero()[:, 0].tolist() for q in range(4)]


def gradient(loss, scores):
    return torch.autograd.grad(loss, scores)[0]


def test_margins_are_those_of_a_loop_over_pairs(scores):
    total = 0
    for titles in queries():
        losses = []
        for a in titles:
            for b in titles:
                gap = float(BOUNDS[a, 0] - BOUNDS[b, 1])
                if gap > 0:
                    pair = scores[a][None], scores[b][None], torch.ones(1)
                    losses.append(F.margin_ranking_loss(*pair, margin=gap))
        if losses:
            total = total + torch.stack(losses).mean() * SHARE[titles].sum()
    loss = margin_loss(scores, BOUNDS, SAME, SHARE)
    torch.testing.assert_close(loss, total)
    torch.testing.assert_close(gradient(loss, scores), gradient(total, scores))
    assert margin_loss(4 * LOW.nan_to_num(), BOUNDS, SAME, SHARE) == 0


def test_listwise_is_the_cross_entropy_of_each_query_and_its_gains(scores):
    total = 0
    for titles in queries():
        known = [title for title in titles if not LOW[title].isnan()]
        gains = 2 ** BOUNDS[known].mean(-1) - 1
        target = gains / gains.sum()
        total = total + F.cross_entropy(scores[known], target) * SHARE[titles].sum()
    loss = listwise_loss(scores, BOUNDS, SAME, SHARE)
    torch.testing.assert_close(loss, total)
    torch.testing.assert_close(gradient(loss, scores), gradient(total, scores))
    nothing = listwise_loss(scores, torch.zeros(11, 2), SAME, SHARE)  # no title has a gain
    assert nothing == 0 and gradient(nothing, scores).tolist() == [0] * 11


def test_differences_are_those_of_the_teacher(scores):
    taught = torch.linspace(-3, 3, 11)
    total = 0
    for titles in queries():
        pairs = [(a, b) for a in titles for b in titles if a < b]
        if pairs:
            ours, theirs = (torch.stack([x[a] - x[b] for a, b in pairs]) for x in (scores, taught))
            total = total + F.mse_loss(ours, theirs) * SHARE[titles].sum()
    loss = margin_mse_loss(scores, taught, SAME, SHARE)
    torch.testing.assert_close(loss, total)
    torch.testing.assert_close(gradient(loss, scores), gradient(total, scores))
    assert margin_mse_loss(taught + 7, taught, SAME, SHARE) < 1e-10


def batch(**more):
    return {
        "share": torch.tensor([0.5, 0.25, 0.25, 0.0]),
        "query": torch.tensor([1, 1, 1, 0]),
        "allowed": torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]),
        "bounds": torch.tensor([[0.0, 0], [1, 1], [2, 2], [0, 0]]),
        **more,
    }


def test_a_teachers_losses_by_hand():
    """Scores 1, 2 and 3 taught 2, nothing and 3; the last place of the batch is empty."""
    logits = torch.log(torch.tensor([[1, 1e-9, 1e-9], [1e-9, 1, 1e-9], [1e-9, 1e-9, 1], [1, 1, 1]]))
    taught = torch.tensor([[2.0], [float("nan")], [3.0], [0.0]])
    losses = Losses(LossWeights(nll=0, mse=2, margin_mse=1), (1.0, 2.0, 3.0))
    parts = losses.of(logits, batch(), taught)
    assert parts["mse"].item() == pytest.approx(2 * 0.5 * 1)
    # 2 apart, taught 1; it counts by the two titles that the teacher knows.
    assert parts["margin_mse"].item() == pytest.approx(0.75)


def test_a_distribution_teaches_its_expected_value_too():
    logits, taught = (torch.randn(4, 3, generator=torch.Generator().manual_seed(n)) for n in (3, 4))
    losses = Losses(LossWeights(nll=0, soft=1, mse=1, temperature=2.0), (1.0, 2.0, 3.0))
    parts = losses.of(logits, batch(), taught)
    values, share = torch.tensor([1.0, 2, 3]), batch()["share"]
    gap = (logits.softmax(-1) - taught.softmax(-1)) @ values
    assert parts["mse"].item() == pytest.approx(float((gap.square() * share).sum()), rel=1e-5)
    soft = (soft_loss(logits, taught, 2.0) * share).sum()
    assert parts["soft"].item() == pytest.approx(float(soft))
    assert tuple(parts) == losses.weights.parts


def test_one_output_is_ranked_by_its_logit():
    logits = torch.tensor([[5.0], [4.0], [1.0], [0.0]])
    losses = Losses(LossWeights(nll=0, margin=1), (0.0,))
    parts = losses.of(logits, batch(allowed=torch.zeros(4, 1)))
    assert parts["margin"].item() == pytest.approx((2 + 4 + 6) / 3)


def test_a_single_logit_is_a_squared_error_whatever_the_temperature():
    losses = soft_loss(torch.tensor([[3.0], [1.0]]), torch.tensor([[1.0], [1.0]]), 4.0)
    assert losses.tolist() == [4.0, 0.0]


# What is asked for.


def read(spec, table=None):
    return LossWeights.read(spec, table or {}, LossWeights(soft=1.0), "recipe [loss]")


def test_a_command_line_says_all_and_a_recipe_what_differs():
    assert read(None) is None
    assert read(None, {"mse": 2.0}) == LossWeights(soft=1.0, mse=2.0)
    assert read("margin-mse=0.5, listwise", {"mse": 2.0, "temperature": 3.0}) == LossWeights(
        nll=0, margin_mse=0.5, listwise=1
    )
    weights = read("listwise,soft=2,temperature=4")
    assert weights.parts == ("listwise", "soft") and Losses(weights).by_query
    assert not Losses(LossWeights(soft=1.0)).by_query
    assert weights.describe() == {"listwise": 1, "soft": 2, "temperature": 4}
    assert LossWeights().describe() == {"nll": 1}


@pytest.mark.parametrize("spec", ["", "hinge", "nll=much", "nll=1=2", "nll=-1", "nll=0"])
def test_what_is_no_loss_is_named(spec):
    with pytest.raises(ArgumentError, match="loss"):
        read(spec)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"mse": -1.0}, "mse = -1.0"),
        ({"nll": float("nan")}, "nll = nan"),
        ({"nll": 0.0}, "every part"),
        ({"temperature": 0.0}, "temperature = 0.0"),
    ],
)
def test_weights_that_cannot_be_meant_are_named(weights, message):
    with pytest.raises(ArgumentError, match=message):
        LossWeights(**weights)
