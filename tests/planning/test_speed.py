"""Times: in turns, as ratios. A clock made by hand keeps chance out."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.planning import timing


class Timed:
    """Takes a fixed time for each text."""

    def __init__(self, clock, seconds, log=None):
        self.clock, self.seconds, self.log = clock, seconds, log if log is not None else []

    def fresh(self):
        return self

    def logits(self, texts):
        self.clock[0] += self.seconds * len(texts)
        self.log.append(self.seconds)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


TEXTS = [("q" * length, "t") for length in range(1, 21)]


def test_ratios_are_smaller_to_teacher(clock):
    found = timing.measure_speed(Timed(clock, 0.004), Timed(clock, 0.001), TEXTS, alone=6)
    assert found.latency.value == pytest.approx(0.25)
    assert found.throughput.value == pytest.approx(4)
    assert (found.latency.low, found.latency.high) == (pytest.approx(0.25), pytest.approx(0.25))
    assert found.teacher_ms == pytest.approx(4) and found.pairs == 6


def test_the_two_take_turns_and_turns_at_being_first(clock):
    log = []
    timing.in_turns((Timed(clock, 2, log), Timed(clock, 1, log)), TEXTS[:1], 3)
    assert log == [2, 1, 1, 2, 2, 1]


def test_a_slow_spell_during_one_round_does_not_count(clock):
    class Spell(Timed):
        def logits(self, texts):
            super().logits(texts)
            if len(self.log) == 10:
                self.clock[0] += 100

    found = timing.measure_speed(Spell(clock, 0.004), Timed(clock, 0.001), TEXTS, alone=6)
    assert found.latency.value == pytest.approx(0.25)


def test_one_pair_has_no_interval(clock):
    found = timing.measure_speed(Timed(clock, 0.004), Timed(clock, 0.002), TEXTS[:1], alone=6)
    assert found.latency.value == pytest.approx(0.5) and found.latency.low is None


def test_few_runs_have_a_median_and_no_interval():
    found = timing.ratio(np.array([0.4, 0.5, 0.5, 0.6]), 0)
    assert (found.value, found.low, found.high) == (0.5, None, None)
    known = timing.ratio(np.array([0.3, 0.4, 0.5, 0.6, 0.7]), 0)
    assert (known.value, known.low, known.high) == (0.5, 0.3, 0.7)


def test_a_slow_model_is_timed_on_fewer_pairs(clock):
    found = timing.measure_speed(Timed(clock, 1.0), Timed(clock, 0.5), TEXTS, alone=20)
    assert found.throughput.low is None and found.bulk_pairs == 20
    assert found.pairs == timing.LEAST_PAIRS and found.latency.value == pytest.approx(0.5)
