"""Random subspaces that hold a wanted variance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qt_bert.probes.usage.leace import removed_trace
from qt_bert.probes.usage.subspaces import WITHIN, Space

VARIANCES = np.array([100.0, 5.0, *np.full(20, 0.5), *np.full(10, 0.01)])


def spread(seed: int = 0) -> np.ndarray:
    """A covariance whose first direction holds most, as that of a trained model."""
    axes = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(VARIANCES),) * 2))[0]
    return axes @ np.diag(VARIANCES) @ axes.T


@pytest.mark.parametrize("rank", [1, 3, 12])
@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_within_a_tenth_of_the_wanted_variance(rank, share):
    whole, mean = spread(), np.arange(len(VARIANCES), dtype=float)
    wanted = share * np.sort(VARIANCES)[-rank:].sum()
    rng = np.random.default_rng(1)
    drawn = [Space.of(whole, mean).without(rank, wanted, rng) for _ in range(8)]
    for one in drawn:
        assert one is not None and one.rank == rank
        assert abs(removed_trace(one, whole) / wanted - 1) <= WITHIN
        torch.testing.assert_close(one.right @ one.left, torch.eye(rank, dtype=torch.float64))
        assert one.centre.tolist() == mean.tolist()
    across = [np.abs(drawn[0].right.numpy() @ one.left.numpy()).min() for one in drawn[1:]]
    assert min(across) < 0.99  # not the same one again


def test_what_no_subspace_holds_is_given_up():
    space = Space.of(spread(), np.zeros(len(VARIANCES)))
    rng = np.random.default_rng(0)
    assert space.without(1, 300.0, rng) is None  # more than the first direction
    assert space.without(2, 1e-6, rng) is None  # less than any two
    assert space.without(0, 1.0, rng) is None
    assert space.without(len(VARIANCES), 1.0, rng) is None
    assert space.without(3, 0.0, rng) is None


def test_directions_without_variance_are_no_part_of_the_space():
    flat = np.diag([3.0, 2.0, 1.0, 0.0, 0.0])
    space = Space.of(flat, np.zeros(5))
    assert sorted(space.variances) == [1, 2, 3]
    one = space.without(2, 4.0, np.random.default_rng(0))
    assert one is not None and np.abs(one.right.numpy()[:, 3:]).max() < 1e-12


def test_the_same_seed_draws_the_same():
    space = Space.of(spread(), np.zeros(len(VARIANCES)))
    first, again = (space.without(2, 20.0, np.random.default_rng(5)) for _ in range(2))
    assert first is not None and again is not None and torch.equal(first.left, again.left)
