"""Chosen heads beside others of their layers: when they matter more."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.encoder.heads import Head
from qt_bert.probes.behaving.contests import CARRIES, HINDERS, LeftOut
from qt_bert.probes.behaving.estimates import mean


def made(way: str, beyond: np.ndarray | None) -> LeftOut:
    change = mean(np.array([-0.4, -0.2]), ["a", "b"], resamples=9, seed=0, swaps=0)
    return LeftOut(
        "negation", way, (Head(1, 2),), change, -0.1, beyond, 0.25, 3, {Head(1, 2): -0.3}
    )


@pytest.mark.parametrize(
    ("way", "low", "high", "matters"),
    [
        (CARRIES, -0.5, -0.1, True),
        (CARRIES, -0.5, 0.1, False),
        (CARRIES, 0.1, 0.5, False),
        (HINDERS, 0.1, 0.5, True),
        (HINDERS, -0.1, 0.5, False),
    ],
)
def test_the_whole_interval_lies_on_their_side(
    way: str, low: float, high: float, matters: bool
) -> None:
    assert made(way, np.linspace(low, high, 100)).matters is matters


def test_without_others_or_resamples_nothing_is_said() -> None:
    assert not made(CARRIES, None).matters
    assert not made(CARRIES, np.empty(0)).matters
    assert made(HINDERS, None).name == "hinders_negation"
