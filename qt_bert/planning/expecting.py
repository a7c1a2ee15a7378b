"""What each budget is expected to change on queries that took no part in choosing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.pairs import Pair
from qt_bert.pairs.splits import balanced_halves
from qt_bert.planning.choice.honest import Choose, expected
from qt_bert.planning.choice.measure import Removal
from qt_bert.planning.choice.prediction import Prediction, Reading, Square, predict
from qt_bert.planning.choosing import Chosen, choose
from qt_bert.planning.grid import Grid, grid_heads, grid_layers
from qt_bert.planning.shapes import Form
from qt_bert.planning.task import PlanTask
from qt_bert.progress import progress

Predictions = Mapping[str, Prediction]
"""By metric."""


@dataclass(frozen=True)
class Expectations:
    """Of each budget of the grid, and of the plan that was asked for."""

    grid: Mapping[Removal, Predictions]
    asked: Predictions


def expectations(task: PlanTask, forms: Sequence[Form], grid: Grid) -> Expectations:
    """Chosen anew on each half of discovery, read on the other; see `choice.honest.expected`.

    Budgets of heads and of layers are predicted apart. The plan asked for goes with those of its kind;
    one that meets parameters or a latency stands alone, as it may narrow feed-forwards. Without two
    queries nothing can be chosen on half of them, and nothing is expected.
    """
    kind = task.budget.kind_of

    def own(pairs: Sequence[Pair]) -> list[Removal]:
        return [choose(task, forms, pairs, _work(task, pairs)).removal]

    def heads(pairs: Sequence[Pair]) -> list[Removal]:
        found, _ = grid_heads(task, pairs, _work(task, pairs))
        return [*found, *(own(pairs) if kind == "heads" else [])]

    def layers(pairs: Sequence[Pair]) -> list[Removal]:
        found, _ = grid_layers(task, pairs, _work(task, pairs))
        return [*found, *(own(pairs) if kind == "layers" else [])]

    by_kind = {
        "heads": _expected(task, grid.heads, kind == "heads", heads),
        "layers": _expected(task, grid.layers, kind == "layers", layers),
    }
    rows = [*zip(grid.heads, by_kind["heads"], strict=False)]
    rows += zip(grid.layers, by_kind["layers"], strict=False)
    if kind in by_kind:
        return Expectations(dict(rows), by_kind[kind][-1] if by_kind[kind] else {})
    return Expectations(dict(rows), _pruned(task, forms))


def _expected(
    task: PlanTask, grid: Sequence[Removal], with_asked: bool, choose_on: Choose
) -> list[dict[str, Prediction]]:
    """One prediction for each budget of `grid`, and one for the plan asked for."""
    budgets = list(range(len(grid) + with_asked))
    if not budgets or (task.discovery.ref.n_queries or 0) < 2:
        return []
    halves = balanced_halves(task.discovery.pairs)
    # Before the progress of measuring begins: choosing shows its own.
    chosen = {_name_of(half): choose_on(half) for half in halves}
    # The grid is measured on a sample of validation, the plan is tested on all of it.
    sampled, whole = (one.ref.n_queries or 1 for one in (task.sampled_validation, task.validation))
    runs = (1 + 2 * len(budgets)) * len(task.discovery.pairs)
    with progress(runs, "expected quality", "runs") as shown:
        return expected(
            task.scorer,
            task.discovery.pairs,
            budgets,
            lambda half: chosen[_name_of(half)],
            mask=task.mask,
            n_new=[*[sampled] * len(grid), *[whole] * with_asked],
            metrics=task.metrics,
            resamples=task.resamples,
            seed=task.seed,
            shown=shown,
        )


def _pruned(task: PlanTask, forms: Sequence[Form]) -> Predictions:
    """The same for a plan of any shape, read from models whose weights are really removed."""
    if (task.discovery.ref.n_queries or 0) < 2:
        return {}
    halves = balanced_halves(task.discovery.pairs)
    plans = [choose(task, forms, half, _work(task, half)) for half in halves]
    readings = [
        [_readings(task, plan, half, at) for at, half in enumerate(halves)] for plan in plans
    ]
    queries = [len({pair.query for pair in half}) for half in halves]
    found = {}
    for metric in readings[0][0]:
        if all(metric in one for plan in readings for one in plan):
            (a, b), (c, d) = ([one[metric] for one in plan] for plan in readings)
            square: Square = ((a, b), (c, d))
            n_new = task.validation.ref.n_queries or 1
            [found[metric]] = predict([square], (queries[0], queries[1]), [n_new])
    return found


def _readings(task: PlanTask, plan: Chosen, half: Sequence[Pair], place: int) -> dict[str, Reading]:
    """What a plan changes of each metric on one half."""
    texts = [(pair.query, pair.title) for pair in half]
    both = [one.fresh().logits(texts) for one in (task.scorer, task.pruned(plan.kept, plan.units))]
    labels = task.scorer.checkpoint.settings.labels
    effects = Effects(
        np.stack(both), half, labels, resamples=task.resamples, draws=0, seed=task.seed + place
    )
    changes = {metric: effects.change(1, metric) for metric in task.metrics}
    return {
        metric: Reading(change, effects.resampled(1, metric))
        for metric, change in changes.items()
        if change is not None
    }


def _work(task: PlanTask, pairs: Sequence[Pair]) -> Path:
    """A folder for what is chosen on these pairs."""
    return task.work / f"half-{_name_of(pairs)}"


def _name_of(pairs: Sequence[Pair]) -> str:
    """A short name of these pairs, the same whenever they are the same."""
    text = "\n".join(f"{pair.line}\t{pair.query}\t{pair.title}" for pair in pairs)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
