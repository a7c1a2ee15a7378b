"""A budget of latency, met by a fit to times made by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.planning.shapes import Form, parse_budget
from qt_bert.planning.timing import SpeedTable, forms_in_time, latency_costs
from qt_bert.results.kept import TeacherRef
from qt_bert.results.plan import Ratio, Speed

TEACHER = TeacherRef(name="t", sha256="0", layers=8, heads=4, units=64)
WHOLE = Form(8, 32, 64)


class Times:
    """Latency as a sum over parts, with noise; whole is 1."""

    def __init__(self, noise=0.0, slower=1.0):
        self.rng, self.noise, self.slower = np.random.default_rng(0), noise, slower

    def of(self, kept):
        units = [64 if one.units is None else one.units for one in kept]
        value = 0.2 + 0.04 * len(kept) + 0.005 * sum(len(one.heads) for one in kept)
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
            found = super().of(kept)
            if len(kept) not in (5, 6) or all(one.units is None for one in kept):
                return found
            slow = Ratio(value=found.latency.value * 1.1, low=None, high=None)
            return Speed(latency=slow, throughput=slow, teacher_ms=1.0, pairs=1)

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
    with pytest.raises(ArgumentError, match="proved slower, the fastest took") as error:
        forms_in_time(asked("latency=0.5"), SlowOnceFitted())
    assert "latency=0.5:" in str(error.value)


def test_what_is_met_stays_where_nothing_smaller_can_be_had():
    class Mixed(Times):
        """Narrow models take far longer than their parts say."""

        def of(self, kept):
            found = super().of(kept)
            if len(kept) == 8 or all(one.units is None for one in kept):
                return found
            return replace(found, latency=Ratio(value=5.0, low=None, high=None))

    assert forms_in_time(asked("latency=0.74"), Mixed()) == (Form(5, 20, 64),)


def test_out_of_reach_is_said_of_what_was_asked():
    with pytest.raises(ArgumentError, match="latency=0.1 is out of reach"):
        forms_in_time(asked("latency=0.1"), Times())


def test_times_are_kept(tmp_path, monkeypatch):
    from qt_bert.planning import timing

    measured = []

    def once(*_, **__):
        measured.append(1)
        ratio = Ratio(value=0.5, low=0.4, high=0.6)
        return Speed(latency=ratio, throughput=ratio, teacher_ms=2.0, pairs=3)

    monkeypatch.setattr(timing, "measure_speed", once)
    task = SimpleNamespace(
        work=tmp_path,
        scorer=None,
        seed=0,
        pruned=lambda kept, units: None,
        validation=SimpleNamespace(texts=[]),
        effort=SimpleNamespace(bulk=1, alone=1),
    )
    kept = Form(2, 6, 8).example(TEACHER)
    found = SpeedTable(task).of(kept)
    assert SpeedTable(task).of(kept) == found and len(measured) == 1
    SpeedTable(task).of(Form(2, 5, 8).example(TEACHER))
    assert len(measured) == 2
