"""Erasers from sums, against the package on the vectors themselves; what is left to read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from concept_erasure import LeaceEraser

from qt_bert.probes.layers_reading import Moments, fit
from qt_bert.probes.usage.leace import covariance, erased, leace, removed_trace

SIZE, N = 12, 400


def data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors [N, SIZE] far from 0 and their classes [N, 3], which they hold; a last number that
    they do not."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=N)
    x = rng.normal(size=(N, SIZE)) @ rng.normal(size=(SIZE, SIZE)) + 5
    x[:, :3] += 2 * np.eye(3)[classes]
    targets = np.concatenate([np.eye(3)[classes], np.zeros((N, 1))], axis=1)
    return torch.from_numpy(x), torch.from_numpy(targets)


def sums(x: torch.Tensor, y: torch.Tensor) -> Moments:
    """The vectors as the second of two layers, in two batches, shifted."""
    found = Moments.empty(torch.full((2, SIZE), 4.0, dtype=torch.float64), y.shape[1])
    for part in (slice(0, 150), slice(150, None)):
        found.add(torch.stack([torch.zeros_like(x[part]), x[part]]), y[part])
    return found


def test_equal_to_the_package_on_the_vectors():
    x, y = data()
    made = leace(sums(x, y), 1, slice(0, 3))
    theirs = LeaceEraser.fit(x, y[:, :3], svd_tol=1e-6)
    assert made.rank == 2
    torch.testing.assert_close(made.outputs(x), theirs(x), rtol=0, atol=1e-9)


def test_nothing_is_left_to_read():
    x, y = data()
    behind = leace(sums(x, y), 1, slice(0, 3)).outputs(x)
    centred, labels = behind - behind.mean(0), y[:, :3] - y[:, :3].mean(0)
    assert (centred.T @ labels / N).abs().max() < 1e-10
    assert ((x - x.mean(0)).T @ labels / N).abs().max() > 0.1


def test_labels_that_do_not_vary_leave_all_as_it_is():
    x, y = data()
    made = leace(sums(x, y), 1, slice(3, 4))
    assert made.rank == 0
    assert torch.equal(made.outputs(x), x)


def test_sums_behind_a_map_are_those_of_the_mapped_vectors():
    x, y = data()
    made = leace(sums(x, y), 1, slice(0, 3))
    found, wanted = erased(sums(x, y), 1, made), sums(made.outputs(x), y)
    for name in ("x", "xx", "xy"):
        np.testing.assert_allclose(
            getattr(found, name)[0], getattr(wanted, name)[1], rtol=1e-9, atol=1e-6
        )
    ridge = fit(found, Moments.empty(found.shift, 4), {"classes": slice(0, 3)}).ridge
    told = ridge.predict(made.outputs(x).float()[None])[0, :, :3]
    assert set(told.argmax(1).tolist()) == {int(y[:, :3].sum(0).argmax())}


def test_the_variance_that_is_taken():
    x, y = data()
    made = leace(sums(x, y), 1, slice(0, 3))
    spread = covariance(sums(x, y), 1)
    np.testing.assert_allclose(spread, np.cov(x.numpy().T, bias=True), rtol=1e-9)
    gone = (x - made.outputs(x)).square().sum(1).mean()
    assert removed_trace(made, spread) == pytest.approx(float(gone), rel=1e-9)
