"""Speeds of smaller models by a clock made by hand, and budgets of latency."""

from types import SimpleNamespace

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.planning import speeds
from qt_bert.planning.budgets import (
    Form,
    parse_budget,
)
from qt_bert.planning.speeds import forms_in_time, latency_costs
from qt_bert.results.kept import TeacherRef
from qt_bert.results.plan import Ratio, Speed

# A budget of latency, met by a fit to times made by hand.

TEACHER = TeacherRef(name="t", sha256="0", layers=8, heads=4, units=64)
WHOLE = Form(8, 32, 64)


class Times:
    """Latency as a sum over parts, with noise; whole is 1."""

    def __init__(self, noise=0.0, slower=1.0):
        self.rng, self.noise, self.slower = np.random.default_rng(0), noise, slower

    def of(self, kept):
        units = [64 if layer.units is None else layer.units for layer in kept]
        value = 0.2 + 0.04 * len(kept) + 0.005 * sum(len(layer.heads) for layer in kept)
        value += 0.32 * sum(units) / (8 * 64)
        value = (value + self.noise * self.rng.normal()) * self.slower
        ratio = Ratio(value=value, low=None, high=None)
        return Speed(latency=ratio, throughput=ratio, teacher_ms=1.0, pairs=1)


def asked(text):
    return SimpleNamespace(form=WHOLE, teacher=TEACHER, budget=parse_budget(text))


def test_the_fit_finds_what_each_part_costs():
    costs = latency_costs(asked("latency=0.5"), Times())
    assert costs.fixed == pytest.approx(0.2) and costs.layer == pytest.approx(0.04)
    assert costs.head == pytest.approx(0.005) and costs.unit == pytest.approx(0.000625)
    assert costs.of(WHOLE) == pytest.approx(1)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_noise_does_not_flip_the_shape(noise):
    # A layer costs 0.1: five whole layers are 0.7.
    whole, narrow = forms_in_time(asked("latency=0.74"), Times(noise))
    assert whole == Form(5, 20, 64) and narrow.layers == 6 and narrow.units < 64


def test_a_shape_that_proves_too_slow_is_made_smaller():
    class Slow(Times):
        """Only what is smaller than half is slow, which no fit over all can know."""

        def of(self, kept):
            narrow = len(kept) in (5, 6) and any(layer.units is not None for layer in kept)
            self.slower = 1.1 if narrow else 1.0
            return super().of(kept)

    forms = forms_in_time(asked("latency=0.74"), Slow())
    assert all(Slow().of(form.example(TEACHER)).latency.value <= 0.74 for form in forms)


class SlowOnceFitted(Times):
    """Takes three times what the parts say after the ten shapes of the fit."""

    calls = 0

    def of(self, kept):
        self.calls += 1
        self.slower = 1.0 if self.calls <= 10 else 3.0
        return super().of(kept)


def test_where_all_shapes_prove_too_slow_the_fastest_is_named():
    with pytest.raises(ArgumentError, match="latency=0.5:.* proved slower, the fastest took"):
        forms_in_time(asked("latency=0.5"), SlowOnceFitted())


def test_out_of_reach_is_said_of_what_was_asked():
    with pytest.raises(ArgumentError, match="latency=0.1 is out of reach"):
        forms_in_time(asked("latency=0.1"), Times())


# Times: in turns, as ratios.


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
    monkeypatch.setattr(speeds.time, "perf_counter", lambda: now[0])
    return now


TEXTS = [("q" * length, "t") for length in range(1, 21)]


def test_ratios_are_smaller_to_teacher(clock):
    speed = speeds.measure_speed(Timed(clock, 0.004), Timed(clock, 0.001), TEXTS, alone=6)
    latency = speed.latency
    assert (latency.value, latency.low, latency.high) == pytest.approx((0.25, 0.25, 0.25))
    assert speed.throughput.value == pytest.approx(4)
    assert speed.teacher_ms == pytest.approx(4) and speed.pairs == 6


def test_the_two_take_turns_and_turns_at_being_first(clock):
    log = []
    speeds.in_turns((Timed(clock, 2, log), Timed(clock, 1, log)), TEXTS[:1], 3)
    assert log == [2, 1, 1, 2, 2, 1]


def test_a_slow_spell_during_one_round_does_not_count(clock):
    class Spell(Timed):
        def logits(self, texts):
            super().logits(texts)
            if len(self.log) == 10:
                self.clock[0] += 100

    speed = speeds.measure_speed(Spell(clock, 0.004), Timed(clock, 0.001), TEXTS, alone=6)
    assert speed.latency.value == pytest.approx(0.25)


def test_few_runs_have_a_median_and_no_interval():
    few = speeds.ratio(np.array([0.4, 0.5, 0.5, 0.6]), 0)
    assert (few.value, few.low, few.high) == (0.5, None, None)
    known = speeds.ratio(np.array([0.3, 0.4, 0.5, 0.6, 0.7]), 0)
    assert (known.value, known.low, known.high) == (0.5, 0.3, 0.7)
