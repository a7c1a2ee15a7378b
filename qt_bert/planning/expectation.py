"""The expected cost of each budget on new queries, corrected for selection bias.

The queries on which heads were chosen overestimate the result. So heads or layers are chosen on each
half of the queries and measured on the other: every query counts once, under a choice made without it
(cross-fitting; Chernozhukov et al. 2018, "Double/debiased machine learning").
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import balanced_halves
from qt_bert.planning.budgets import Form
from qt_bert.planning.choice import Grid, choose, grid_heads, grid_layers
from qt_bert.planning.runs import Changes, Removal, changes, changes_of
from qt_bert.planning.task import PlanTask
from qt_bert.progress import progress
from qt_bert.results.plan import Expected
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import interval_or_reason

Predictions = Mapping[str, Expected]
"""By metric."""

Halves = tuple[Sequence[Removal], Sequence[Removal]]
"""What was chosen on each half: a removal for each budget."""


def expectations(
    task: PlanTask, forms: Sequence[Form], grid: Grid
) -> tuple[Mapping[Removal, Predictions], Predictions]:
    """The expected change of each budget of the grid, and of the requested plan.

    Budgets of heads and of layers are predicted separately, the plan with those of its kind; a plan by
    parameters or latency, which may narrow feed-forwards, on its own. Both are empty for fewer than two
    queries.
    """
    if (task.discovery.ref.n_queries or 0) < 2:
        return {}, {}
    halves = balanced_halves(task.discovery.pairs)
    # The grid is measured on a sample of validation, the plan is tested on all of it.
    samples = task.sampled_validation, task.validation
    sampled, whole = (sample.ref.n_queries or 1 for sample in samples)
    rows: dict[Removal, Predictions] = {}
    of_plan: Predictions | None = None
    for kind, budgets, on_half in (
        ("heads", grid.heads, lambda *inputs: grid_heads(*inputs)[0]),
        ("layers", grid.layers, grid_layers),
    ):
        with_plan = task.budget.kind_of == kind
        if not budgets and not with_plan:
            continue
        plans: list[list[Removal]] = []
        for half in halves:
            work = task.work / f"half-{_name_of(half)}"
            plans.append([*on_half(task, half, work)])
            if with_plan:
                plans[-1].append(choose(task, forms, half, work).removal)
        n_new = [*[sampled] * len(budgets), *[whole] * with_plan]
        predictions = expected(task, (plans[0], plans[1]), n_new)
        rows |= dict(zip(budgets, predictions, strict=False))
        if with_plan:
            of_plan = predictions[-1]
    return rows, _of_shape(task, forms) if of_plan is None else of_plan


def expected(task: PlanTask, plans: Halves, n_new: Sequence[int]) -> list[Predictions]:
    """For each budget: metric → its expected change, measured on `n_new` new queries.

    Both halves' plans are measured on both halves; the estimate is the mean of the two changes on the
    half that was not used to choose, its error that of a bootstrap over the queries of each half. The
    prediction interval adds the variances of

    - the new sample: the estimate's own, times queries here over `n_new` (Hahn and Meeker 1991,
      "Statistical Intervals", section 4: s²(1/n + 1/m) for the mean of m further values), and
    - the difference between the final plan and those of the halves (`between_plans`).
    """
    halves = balanced_halves(task.discovery.pairs)
    runs = (1 + 2 * len(n_new)) * len(task.discovery.pairs)
    with progress(runs, "expected quality", "runs") as shown:
        measured = [
            changes(
                task.scorer,
                half,
                [*plans[0], *plans[1]],
                mask=task.mask,
                metrics=task.metrics,
                resamples=task.resamples,
                seed=task.seed + place,  # two halves of one size must not share their resamples
                shown=shown,
            )
            for place, half in enumerate(halves)
        ]
    cells = [
        [half[budget + plan * len(n_new)] for plan in (0, 1) for half in measured]
        for budget in range(len(n_new))
    ]
    return _predictions(task, cells, n_new)


def _of_shape(task: PlanTask, forms: Sequence[Form]) -> Predictions:
    """The same for a plan of any shape, from models with removed weights."""
    halves = balanced_halves(task.discovery.pairs)
    labels = task.scorer.checkpoint.settings.labels
    cells: list[Changes] = []
    for chosen_on in halves:
        plan = choose(task, forms, chosen_on, task.work / f"half-{_name_of(chosen_on)}")
        smaller = task.pruned(plan.kept, plan.units)
        for place, half in enumerate(halves):
            texts = [(pair.query, pair.title) for pair in half]
            both = np.stack([scorer.fresh().logits(texts) for scorer in (task.scorer, smaller)])
            effects = Effects(
                both, half, labels, resamples=task.resamples, draws=0, seed=task.seed + place
            )
            cells.append(changes_of(effects, 1, task.metrics))
    return _predictions(task, [cells], [task.validation.ref.n_queries or 1])[0]


def _predictions(
    task: PlanTask, budgets: Sequence[Sequence[Changes]], n_new: Sequence[int]
) -> list[Predictions]:
    """A prediction for each metric that is defined in all four cells of a budget: both plans on both
    halves, plan by plan."""
    first, second = (
        len({pair.query for pair in half}) for half in balanced_halves(task.discovery.pairs)
    )
    predictions: list[dict[str, Expected]] = [{} for _ in n_new]
    for metric in task.metrics:
        squares: dict[int, Square] = {}
        for budget, cells in enumerate(budgets):
            if all(metric in cell for cell in cells):
                a, b, c, d = (
                    ResampledValue(cell[metric].change.change, cell[metric].samples)
                    for cell in cells
                )
                squares[budget] = ((a, b), (c, d))
        new = predict(list(squares.values()), (first, second), [n_new[place] for place in squares])
        for budget, prediction in zip(squares, new, strict=True):
            predictions[budget][metric] = prediction
    return [*predictions]


def _name_of(pairs: Sequence[Pair]) -> str:
    """A short hash of these pairs."""
    text = "\n".join(f"{pair.line}\t{pair.query}\t{pair.title}" for pair in pairs)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


NORMAL_95 = 1.959964
ANOTHER_PLAN = 1.5
"""Variance of the difference between one plan's true change and the mean of two others', in units of
the variance between plans."""


@dataclass(frozen=True, eq=False)
class ResampledValue:
    """A metric's change under one plan on one half, and `samples` [R] under resamples of its queries,
    which all plans on that half share."""

    value: float
    samples: FloatArray


Square = tuple[tuple[ResampledValue, ResampledValue], tuple[ResampledValue, ResampledValue]]
"""[plan][half]: the plan chosen on each half, measured on each half."""


def predict(
    budgets: Sequence[Square], queries: tuple[int, int], n_new: Sequence[int]
) -> list[Expected]:
    """One prediction for each budget of a grid.

    `queries` are the numbers of the two halves, `n_new` that of each budget's new sample. No interval for
    too few queries or resamples.
    """
    first, second = queries
    share = np.array([first, second]) / (first + second)
    plans = ANOTHER_PLAN * between_plans(budgets, share)
    predictions = []
    for square, new_queries in zip(budgets, n_new, strict=True):
        # The changes of the plans on the half that was not used to choose them.
        crossed = _weighted(square[1][0], square[0][1], share)
        value = crossed.value
        low, high, _ = interval_or_reason(crossed.samples, min(queries))
        pi_low = pi_high = None
        if low is None or high is None or crossed.samples.size < 2:
            low = high = None
        else:
            variance = float(np.nanvar(crossed.samples, ddof=1))
            new = variance * (first + second) / new_queries
            reach = NORMAL_95 * float(np.sqrt(variance + new + plans))
            pi_low, pi_high = value - reach, value + reach
        predictions.append(
            Expected(value=value, ci_low=low, ci_high=high, pi_low=pi_low, pi_high=pi_high)
        )
    return predictions


def between_plans(budgets: Sequence[Square], share: FloatArray) -> float:
    """The variance σ² between the true changes of plans chosen in the same way on other queries.

    Two such plans differ by d with E d² = 2σ² + the variance of d's error. Both are measured on all
    queries, so that the selection bias of each on its half cancels. One pair of plans estimates σ² poorly,
    so it is the mean over the budgets of a grid, or 0 where that is negative.
    """
    variances = []
    for square in budgets:
        first, second = (_weighted(*plan, share) for plan in square)
        if first.samples.size > 1:
            error = float(np.nanvar(first.samples - second.samples, ddof=1))
            variances.append(((first.value - second.value) ** 2 - error) / 2)
    return max(float(np.mean(variances)), 0.0) if variances else 0.0


def _weighted(
    on_first: ResampledValue, on_second: ResampledValue, share: FloatArray
) -> ResampledValue:
    """The mean of the values on both halves, weighted by their queries."""
    return ResampledValue(
        float(share @ [on_first.value, on_second.value]),
        share[0] * on_first.samples + share[1] * on_second.samples,
    )
