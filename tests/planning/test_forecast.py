"""The forecast by hand, its error, and its leave-one-out test."""

import numpy as np
import pytest
from scipy.stats import t

from qt_bert.planning.distill import RECIPE
from qt_bert.planning.forecast import Course, finished_students, fit, forecast
from qt_bert.planning.trial import LONGER
from qt_bert.planning.trial import STEPS as STEPS_OF_TRIAL

STEPS = (100, 200, 800)


def course(short, long=None, full=None, steps=STEPS):
    return Course(steps=steps, short=short, long=long, full=full)


def leave_one_out(finished):
    """Each student's change as all others forecast it, and as measured."""
    others = [[other for other in finished if other is not one] for one in finished]
    return [(forecast(o, one), one.full) for o, one in zip(others, finished, strict=True)]


def test_three_finished_students_by_hand():
    # Of the gap after the long trial a half, a quarter and three quarters are left; of the short one's the half.
    gaps = [(-0.2, -0.1, -0.05), (-0.2, -0.08, -0.02), (-0.12, -0.04, -0.03)]
    finished = [course(*gap) for gap in gaps]
    share = fit(finished)
    error = t.ppf(0.975, 2) * 0.25 * np.sqrt(4 / 3)
    assert (share.mean, share.gap) == pytest.approx((0.5, 0.08))
    assert share.error == pytest.approx(error) and share.reach == pytest.approx(np.log(4))
    wide = forecast(finished, course(-0.3, -0.2))
    assert (wide.value, wide.high - wide.value) == pytest.approx((-0.1, 0.2 * error))
    # Not narrower than at the median gap; a student at its teacher's level stays there.
    near = forecast(finished, course(-0.1, 0.0))
    assert (near.value, near.high - near.value) == pytest.approx((0, 0.08 * error))
    # 16 times the steps are twice as far as 4 times: a half of the half, and twice the error.
    far = forecast(finished, course(-0.3, -0.2, steps=(100, 200, 3200)))
    assert (far.value, far.value - far.low) == pytest.approx((-0.05, 2 * 0.2 * error))
    none = forecast(finished, course(-0.3, -0.2, steps=(100, 200, 150)))
    assert none.value == -0.2
    alone = forecast(finished, course(-0.4))
    assert alone.value == pytest.approx(-0.4 * np.mean([0.25, 0.1, 0.25]))


def test_a_share_is_bounded():
    assert fit([course(-0.1, -0.05, -0.09), course(-0.1, -0.05, -0.08)]).mean == 1
    assert fit([course(-0.1, -0.05, 0.05), course(-0.1, -0.05, 0.04)]).mean == 0


def test_the_students_of_the_package_are_forecast_from_each_other():
    """Trained as far as a recipe trains."""
    students, trial = finished_students(), (STEPS_OF_TRIAL, LONGER * STEPS_OF_TRIAL)
    assert len(students) >= 8 and len({student.teacher for student in students}) >= 2
    assert {student.steps for student in students} == {(*trial, RECIPE["max_steps"])}
    for metric in ("pairwise_accuracy", "qwk", "accuracy", "spearman"):
        rows = leave_one_out([student.course(metric) for student in students])
        inside = [ahead.low <= full <= ahead.high for ahead, full in rows]
        assert sum(inside) >= 7, metric
        assert max(abs(ahead.value - full) for ahead, full in rows) < 0.03
    halves = [(ahead.high - ahead.low) / 2 for ahead, _ in rows]
    assert sorted(halves)[-2] < 0.03  # ρ of all but a student of two layers


def test_students_on_one_curve_are_forecast_and_their_error_covers():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(60):
        gaps = rng.uniform(0.05, 0.2, 8)
        shares = rng.normal(0.5, 0.05, 8)
        finished = [course(-2 * g, -g, -g * share) for g, share in zip(gaps, shares, strict=True)]
        rows = leave_one_out(finished)
        assert len(rows) == 8
        inside += [ahead.low <= full <= ahead.high for ahead, full in rows]
    assert 0.93 < np.mean(inside) < 0.999
