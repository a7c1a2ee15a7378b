"""Logits in slices: in order, as many pairs a slice as its time allows."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qt_bert.inspection import inspected
from qt_bert.inspection.inspected import next_size, sliced_logits
from qt_bert.inspection.turns import SLICE_SECONDS, Stopped, Turns


class FakeScorer:
    """The lengths of both texts as logits; remembers who came when, and that it had the turn."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.calls = turns, []
        labels = SimpleNamespace(logits=2)
        self.checkpoint = SimpleNamespace(settings=SimpleNamespace(labels=labels))

    def logits(self, texts: list[tuple[str, str]]) -> np.ndarray:
        assert self.turns.mine
        self.calls.append(list(texts))
        return np.array([[len(query), len(title)] for query, title in texts], np.float32)


def run(texts: list[tuple[str, str]], stop: threading.Event | None = None) -> tuple[Any, Any]:
    turns = Turns()
    scorer: Any = FakeScorer(turns)
    with turns.job(stop) as job:
        return sliced_logits(scorer, texts, job), scorer


def test_every_pair_once_in_the_order_of_the_file() -> None:
    texts = [("q" * (i % 7 + 1), "t" * (i * 37 % 23 + 1)) for i in range(150)]
    found, scorer = run(texts)
    assert found.dtype == np.float32
    assert found.tolist() == [[len(q), len(t)] for q, t in texts]
    assert sorted(pair for call in scorer.calls for pair in call) == sorted(texts)


def test_the_longest_come_first_in_a_small_slice() -> None:
    _, scorer = run([("q", "t" * (i + 1)) for i in range(50)])
    assert [len(title) for _, title in scorer.calls[0]] == [50]
    assert [len(title) for _, title in scorer.calls[1]] == [49, 48]


@pytest.mark.parametrize(
    ("pairs", "seconds", "expected"),
    [(10, 0.9 * SLICE_SECONDS, 6), (10, 1.2, 1), (10, 0.001, 20), (1, 5.0, 1), (4, 0.0, 8)],
)
def test_the_next_slice_fits_its_time(pairs: int, seconds: float, expected: int) -> None:
    assert next_size(pairs, seconds, work=seconds) == expected


@pytest.mark.parametrize(
    ("pairs", "work", "expected"),
    [(8, 0.2 * SLICE_SECONDS, 8), (8, 0.4 * SLICE_SECONDS, 4), (1, 0.01, 2), (3, 2.0, 1)],
)
def test_a_slice_is_worth_its_while_on_a_busy_machine(
    pairs: int, work: float, expected: int
) -> None:
    """By the clock the slice before took ten times its time; its own work was this."""
    assert next_size(pairs, 10 * SLICE_SECONDS, work) == expected


def test_stops_between_two_slices() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        run([("q", "t")] * 9, stop)


def test_no_slice_aims_at_more_than_its_time() -> None:
    assert inspected._AIM < SLICE_SECONDS
