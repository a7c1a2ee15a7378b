"""What a budget is expected to change: the readings that count, and the intervals by hand."""

import numpy as np
import pytest

from qt_bert.data.splits import balanced_halves
from qt_bert.heads import Head
from qt_bert.planning.expectation import ResampledValue, between_plans, expected, predict
from qt_bert.planning.runs import Removal, changes
from tests.planning.choice.conftest import graded, zero

RNG = np.random.default_rng(0)


def reading(value: float, sd: float = 0.0, noise=None) -> ResampledValue:
    """A reading whose resamples have exactly this standard deviation."""
    drawn = RNG.normal(size=2000) if noise is None else noise
    drawn = (drawn - drawn.mean()) / drawn.std(ddof=1)
    return ResampledValue(value, value + sd * drawn)


def test_intervals_by_hand():
    """Half 0 of 30 queries, half 1 of 10; the plans do not differ, so two errors add up."""
    first, second = reading(-0.06, 0.02), reading(-0.02, 0.04)
    square = ((reading(-0.02), first), (second, reading(-0.06)))
    # plan 0 was read on half 1, plan 1 on half 0
    value = 0.75 * -0.02 + 0.25 * -0.06
    [prediction] = predict([square], (30, 10), [20])
    error = np.var(0.75 * second.samples + 0.25 * first.samples, ddof=1)
    assert prediction.value == pytest.approx(value)
    reach = 1.959964 * np.sqrt(error * (1 + 40 / 20))
    assert prediction.pi_high - prediction.value == pytest.approx(reach)
    assert prediction.value - prediction.pi_low == pytest.approx(reach)
    width = prediction.ci_high - prediction.ci_low
    assert width == pytest.approx(2 * 1.96 * np.sqrt(error), rel=0.1)


def test_plans_that_differ_widen_the_prediction():
    def square(first, second):
        return tuple((reading(v, 0.001), reading(v, 0.001)) for v in (first, second))

    alike, apart = square(-0.10, -0.10), square(-0.05, -0.15)
    share = np.array([0.5, 0.5])
    assert between_plans([alike], share) == 0
    assert between_plans([apart], share) == pytest.approx(0.1**2 / 2, rel=0.01)
    assert between_plans([apart, alike], share) == pytest.approx(0.1**2 / 4, rel=0.01)
    (narrow,), (wide,) = (predict([plans], (50, 50), [100]) for plans in (alike, apart))
    assert narrow.pi_high - narrow.pi_low < 0.02
    reach = 1.959964 * np.sqrt(1.5 * 0.005)
    assert (wide.pi_high - wide.pi_low) / 2 == pytest.approx(reach, rel=0.01)
    assert wide.ci_high - wide.ci_low < 0.02


def test_a_half_of_one_query_has_no_interval():
    square = ((reading(-0.1), reading(-0.2, 0.1)), (reading(-0.3, 0.1), reading(-0.1)))
    [prediction] = predict([square], (5, 1), [10])
    assert prediction.value == pytest.approx(5 / 6 * -0.3 + 1 / 6 * -0.2)
    assert (prediction.ci_low, prediction.pi_low, prediction.pi_high) == (None, None, None)
    for samples in (np.empty(0), np.array([-0.2])):
        single = ResampledValue(-0.1, samples)
        [prediction] = predict([((single, single), (single, single))], (5, 5), [10])
        assert (prediction.value, prediction.ci_low, prediction.pi_low) == (-0.1, None, None)


def test_coverage_of_a_new_sample():
    """Readings of many samples with a plan of its own for each: 95 of 100 new samples lie inside."""
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(400):
        truth = -0.1 * (1 + 0.2 * rng.normal(size=(3,)))  # two halves' plans and the whole one
        scores = [rng.normal(0, 0.3, size=(2, n)) for n in (60, 60, 200)]  # by plan and query
        drawn = [rng.integers(60, size=(300, 60)) for _ in range(2)]

        def of(plan, half, truth=truth, scores=scores, drawn=drawn):
            values = truth[plan] + scores[half][plan]
            return ResampledValue(values.mean(), values[drawn[half]].mean(1))

        square = tuple((of(plan, 0), of(plan, 1)) for plan in (0, 1))
        [prediction] = predict([square], (60, 60), [200])
        new = truth[2] + scores[2][0].mean()
        inside.append(prediction.pi_low <= new <= prediction.pi_high)
    assert 0.92 < np.mean(inside) < 0.985


def test_each_half_is_read_under_the_other_halfs_choice(task_of):
    task = task_of(resamples=100)
    halves = balanced_halves(graded())
    plans = tuple([Removal((Head(0, place),)), Removal((), (place,))] for place in (0, 1))
    predictions = expected(task, plans, [9, 900])
    measured = [
        changes(task.scorer, half, chosen, mask=zero, metrics=task.metrics, resamples=0)
        for half, chosen in zip(halves[::-1], plans, strict=True)
    ]
    for budget, by_metric in enumerate(predictions):
        assert list(by_metric) == ["spearman", "qwk", "accuracy"]
        for metric, change in by_metric.items():
            mean = np.mean([half[budget][metric].change.change for half in measured])
            assert change.value == pytest.approx(mean)
            assert change.pi_low <= change.value <= change.pi_high
            assert change.pi_low < change.pi_high
