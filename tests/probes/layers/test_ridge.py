"""Ridge from sums: the same weights as scikit-learn's, however many targets share a covariance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as Reference

from qt_bert.probes.layers.ridge import Moments, fit

N, WIDTH, LAYERS = 60, 7, 2
FAR = 50.0
"""How far the vectors lie from 0: what float32 sums of squares would lose without a shift."""


def examples(targets: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((LAYERS, N, WIDTH)) * np.linspace(0.3, 2, WIDTH) + FAR
    y = (x[0] - FAR) @ rng.standard_normal((WIDTH, targets)) + rng.standard_normal((N, targets))
    return torch.from_numpy(x).float(), torch.from_numpy(y).float()


def summed(x: torch.Tensor, y: torch.Tensor, pieces: int = 3) -> Moments:
    sums = Moments.empty(torch.full((LAYERS, WIDTH), FAR), y.shape[1])
    for rows in np.array_split(np.arange(len(y)), pieces):
        sums.add(x[:, rows], y[rows])
    return sums


def empty(y: torch.Tensor) -> Moments:
    return Moments.empty(torch.full((LAYERS, WIDTH), FAR), y.shape[1])


@pytest.mark.parametrize("penalty", [1e-4, 0.1, 10.0])
def test_the_weights_are_those_of_scikit_learn(penalty: float) -> None:
    x, y = examples()
    found = fit(summed(x, y), empty(y), {"all": slice(0, 3)}, [penalty])
    for layer in range(LAYERS):
        mean_variance = np.var(x[layer].double().numpy(), axis=0).mean()
        reference = Reference(alpha=N * penalty * mean_variance).fit(x[layer].double(), y.double())
        assert found.ridge.weights[layer].T.numpy() == pytest.approx(reference.coef_, abs=2e-4)
        told = found.ridge.predict(x)[layer].numpy()
        assert told == pytest.approx(reference.predict(x[layer].double()), abs=2e-3)


def test_many_targets_of_one_covariance_are_separate_fits() -> None:
    x, y = examples()
    held = np.arange(N) % 5 == 4
    blocks = {"a": slice(0, 1), "b": slice(1, 3)}
    together = fit(summed(x[:, ~held], y[~held]), summed(x[:, held], y[held]), blocks)
    for name, block in blocks.items():
        own = y[:, block]
        apart = fit(
            summed(x[:, ~held], own[~held]),
            summed(x[:, held], own[held]),
            {name: slice(0, own.shape[1])},
        )
        assert together.penalties[name] == pytest.approx(apart.penalties[name])
        assert together.ridge.weights[:, :, block].numpy() == pytest.approx(
            apart.ridge.weights.numpy(), abs=1e-5
        )


def test_the_penalty_is_the_one_that_errs_least_on_what_is_held_back() -> None:
    x, y = examples(targets=1, seed=3)
    y = y + 5 * torch.from_numpy(np.random.default_rng(4).standard_normal((N, 1))).float()
    held, tried = np.arange(N) % 3 == 0, (1e-4, 1.0, 100.0)
    part, rest = summed(x[:, ~held], y[~held]), summed(x[:, held], y[held])
    found = fit(part, rest, {"all": slice(0, 1)}, tried).penalties["all"]
    for layer in range(LAYERS):
        errors = []
        for penalty in tried:
            ridge = fit(part, empty(y), {"all": slice(0, 1)}, [penalty]).ridge
            missed = ridge.predict(x[:, held])[layer] - y[held]
            errors.append(float(missed.square().sum()))
        assert found[layer] == tried[int(np.argmin(errors))]


def test_vectors_without_variance_say_nothing() -> None:
    _, y = examples()
    same = torch.full((LAYERS, N, WIDTH), FAR)
    found = fit(summed(same, y), empty(y), {"all": slice(0, 3)})
    assert found.ridge.weights.abs().max() == 0
    assert found.ridge.predict(same)[0].numpy() == pytest.approx(
        np.tile(y.mean(0).numpy(), (N, 1)), abs=1e-5
    )
