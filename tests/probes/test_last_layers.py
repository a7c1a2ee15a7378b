"""Whether the last two layers change most: made cosines, where it is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qt_bert.models.heads import Shape
from qt_bert.probes.shift.likeness_claims import last_layers, layer_means
from tests.probes.judged import outcome

CONTEXT: Any = SimpleNamespace(resamples=500, seed=0)
QUERIES = 40


def study(layers: list[float], absent: frozenset[tuple[int, int]] = frozenset()) -> Any:
    """Heads whose cosine is that of their layer, a little off in every query; absent ones are 0."""
    rng = np.random.default_rng(0)
    cosine = np.array(layers)[:, None] + rng.normal(0, 0.01, (QUERIES, len(layers), 3))
    for layer, head in absent:
        cosine[:, layer, head] = 0
    shape = Shape(len(layers), 3, absent)
    return SimpleNamespace(shape=shape, validation=SimpleNamespace(alike=lambda name: cosine))


@pytest.mark.parametrize(
    ("layers", "most", "verdict"),
    [
        ([0.9, 0.9, 0.9, 0.5, 0.5], -0.4, "reproduced"),
        ([0.9, 0.4, 0.9, 0.5, 0.5], 0.1, "not reproduced"),
        ([0.9, 0.9, 0.5, 0.5, 0.5], 0.0, "inconclusive"),
    ],
)
def test_the_claim_is_about_every_other_layer(
    layers: list[float], most: float, verdict: str
) -> None:
    primary, beside = last_layers(study(layers), CONTEXT)
    assert primary.value == pytest.approx(most, abs=0.01)
    assert outcome(primary) == verdict
    assert not beside.primary and beside.value is not None and beside.value < -0.1


def test_layers_that_are_all_alike_refute_nothing() -> None:
    """The largest of many resampled gaps lies above 0 by chance alone; its interval must not."""
    alike = [0.5] * 24
    refuted = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        cosine = np.array(alike)[:, None] + rng.normal(0, 0.01, (QUERIES, 24, 1))
        made: Any = SimpleNamespace(
            shape=Shape(24, 1), validation=SimpleNamespace(alike=lambda name, found=cosine: found)
        )
        primary = tuple(last_layers(made, CONTEXT))[0]
        assert primary.ci_low is not None and primary.ci_high is not None
        assert primary.ci_low < primary.value < primary.ci_high
        refuted += outcome(primary) == "not reproduced"
    assert refuted <= 2


def test_conclusions_name_the_layers_that_changed_most() -> None:
    primary, _ = last_layers(study([0.9, 0.4, 0.3, 0.9, 0.9]), CONTEXT)
    assert "L2, L1" in primary.conclusions["not reproduced"].en


def test_pruned_heads_do_not_count() -> None:
    absent = frozenset({(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)})
    numbers, means = layer_means(study([0.9, 0.9, 0.9, 0.5, 0.5], absent))
    assert numbers == [0, 1, 3, 4]
    assert means.shape == (QUERIES, 4)
    assert means.mean(axis=0) == pytest.approx([0.9, 0.9, 0.5, 0.5], abs=0.01)


def test_two_layers_are_too_few() -> None:
    assert not list(last_layers(study([0.9, 0.5]), CONTEXT))
