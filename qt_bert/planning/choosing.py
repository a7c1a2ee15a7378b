"""What goes under a budget: heads, layers, or a shape that is small or fast enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.encoder.smaller import Units
from qt_bert.pairs import Pair
from qt_bert.planning.budget import count_kept
from qt_bert.planning.choice.losses import losses_of
from qt_bert.planning.choice.measure import Removal
from qt_bert.planning.meeting import forms_within
from qt_bert.planning.paths import heads_path, layers_path
from qt_bert.planning.removals import kept_by, removal_of
from qt_bert.planning.shapes import Form, parameter_costs
from qt_bert.planning.task import PlanTask
from qt_bert.planning.timing import SpeedTable, forms_in_time
from qt_bert.results.kept import KeptLayer


@dataclass(frozen=True)
class Chosen:
    """What stays: `kept`, with `units` where feed-forwards are narrower, and `removal`, what goes.

    `cost` is what choosing heads took, in sweeps over all single heads.
    """

    kept: tuple[KeptLayer, ...]
    removal: Removal
    units: Units | None = None
    cost: float | None = None


def forms_asked(task: PlanTask, speeds: SpeedTable) -> tuple[Form, ...]:
    """The forms to choose from: the one that the budget names, or those that meet it.

    A budget of latency is met by `speeds`. Raises ArgumentError for a budget that cannot be met.
    """
    whole, per_layer = task.form, task.teacher.heads
    kind = task.budget.kind_of
    if kind == "heads":
        return (Form(whole.layers, count_kept(task.budget, whole.heads), whole.units),)
    if kind == "layers":
        kept = count_kept(task.budget, whole.layers)
        return (Form(kept, kept * per_layer, whole.units),)
    if kind == "latency":
        return forms_in_time(task, speeds)
    checkpoint = task.scorer.checkpoint
    return forms_within(task.budget, parameter_costs(checkpoint.model, checkpoint.family), whole)


def choose(
    task: PlanTask, forms: Sequence[Form], pairs: Sequence[Pair], work: Path | None = None
) -> Chosen:
    """What stays in the best of `forms`, chosen on `pairs`: the one of least loss there."""
    found = [_choose_one(task, form, pairs, work) for form in forms]
    if len(found) == 1:
        return found[0]
    return found[int(np.argmin(_mean_losses(task, found, pairs)))]


def _choose_one(task: PlanTask, form: Form, pairs: Sequence[Pair], work: Path | None) -> Chosen:
    """Layers first; of those that stay, heads; then units."""
    gone: tuple[int, ...] = ()
    if form.layers < task.form.layers:
        out = task.form.layers - form.layers
        gone = layers_path(task, out, pairs, work).order
    heads, cost = _heads_out(task, form, gone, pairs, work)
    removal = removal_of(heads, gone)
    kept = kept_by(removal, task.teacher, form.units)
    return Chosen(kept, removal, task.units_of(kept, pairs), cost)


def _heads_out(
    task: PlanTask, form: Form, gone: tuple[int, ...], pairs: Sequence[Pair], work: Path | None
) -> tuple[tuple[Head, ...], float | None]:
    out = form.layers * task.teacher.heads - form.heads
    if not out:
        return (), None
    path = heads_path(task, out, pairs, gone=gone, work=work)
    return path.order, path.cost


def _mean_losses(task: PlanTask, found: Sequence[Chosen], pairs: Sequence[Pair]) -> list[float]:
    """The mean loss of each, its weights really removed, as `losses_of` has it for heads too."""
    texts = [(pair.query, pair.title) for pair in pairs]
    smaller = (task.pruned(one.kept, one.units) for one in found)
    logits = np.stack([one.fresh().logits(texts) for one in (task.scorer, *smaller)])
    names = ["whole", *(str(place) for place in range(len(found)))]
    measured = losses_of(logits, names, pairs, task.scorer.checkpoint.settings.labels)
    return [measured.mean(name) for name in names[1:]]
