"""The forecast's curve by hand, its error, and its leave-one-out test."""

import numpy as np
import pytest

from qt_bert.planning.forecast import ASSUMED, SHORT_ALONE, Course, fit, leave_one_out

STEPS = (100, 200, 800)
"""log(800 / 200) / log(200 / 100) = 2."""


def course(short, long=None, full=None, steps=STEPS):
    return Course(steps=steps, short=short, long=long, full=full)


def test_one_finished_student_by_hand():
    # Of a reach of 2 × 0.04 it gained 0.02: a quarter. The long trials closed 0.04 / 0.1 and 0.02 / 0.2.
    anchor, other = course(-0.10, -0.06, -0.04), course(-0.20, -0.18)
    curve = fit([anchor, other], "spearman")
    assert anchor.reach == pytest.approx(2)
    assert curve.realised == pytest.approx(0.25)
    assert curve.closed == pytest.approx((0.1 * 0.04 + 0.2 * 0.02) / (0.1**2 + 0.2**2))
    assert curve.value(anchor) == pytest.approx(-0.04)
    ahead = curve.forecast(other)
    assert ahead.value == pytest.approx(-0.18 + 0.25 * 2 * 0.02)
    assert (ahead.low, ahead.high) == pytest.approx((ahead.value - 0.03, ahead.value + 0.03))
    long = -0.1 * (1 - curve.closed)
    alone = curve.forecast(course(-0.10))
    assert alone.value == pytest.approx(long + 0.5 * (long + 0.10))
    assert alone.high - alone.value == pytest.approx(SHORT_ALONE * 0.03)
    assert fit([anchor], "qwk").errors[0] == ASSUMED["qwk"]


def test_slopes_are_bounded_and_a_full_training_no_longer_than_the_trial_adds_nothing():
    falls = fit([course(-0.1, -0.05, -0.09)], "spearman")
    rises = fit([course(-0.1, -0.05, 0.5)], "spearman")
    assert (falls.realised, rises.realised) == (0, 1)
    assert fit([course(-0.1, -0.1, -0.1)], "spearman").realised == 0
    assert rises.value(course(-0.1, -0.05, steps=(100, 200, 150))) == -0.05


def test_without_a_finished_student_there_is_no_curve():
    assert fit([course(-0.1, -0.05)], "spearman") is None
    assert leave_one_out([course(-0.1, -0.05, -0.04)], "spearman") == []


def test_students_on_one_curve_are_forecast_and_their_error_covers():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(60):
        gains = rng.uniform(0.01, 0.05, 8)
        finished = [
            course(-0.1 - g, -0.1, -0.1 + 0.5 * 2 * g + rng.normal(0, 0.005)) for g in gains
        ]
        rows = leave_one_out(finished, "spearman")
        assert len(rows) == 8
        inside += [ahead.low <= full <= ahead.high for ahead, full in rows]
        assert max(ahead.high - ahead.low for ahead, _ in rows) < 0.06
    assert 0.9 < np.mean(inside) < 0.99
