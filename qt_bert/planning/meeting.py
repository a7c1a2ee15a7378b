"""Shapes that meet a budget of parameters or of time."""

from __future__ import annotations

import math
from dataclasses import replace

from qt_bert.errors import ArgumentError
from qt_bert.planning.shapes import Costs, Form
from qt_bert.results.plan import Budget

NARROWEST = 4
"""A layer keeps at least one in so many of its units, and of its heads."""

UNIT_STEPS = 32
"""Units go in steps of one in so many of a layer's."""


def forms_within(budget: Budget, costs: Costs, teacher: Form) -> tuple[Form, ...]:
    """The largest shapes of cost at most the budget's: whole layers, and one layer more but narrower.

    As few whole layers go as meet it. What is then left of the budget pays for one layer more, if
    feed-forward units go instead from every layer (down to a quarter), and after these heads (down
    to a quarter). `costs` are in the unit of the budget, or the budget is a share of the teacher's.

    Raises ArgumentError for a budget that nothing meets, naming the nearest that is met, and for one
    that the teacher itself meets.
    """
    target = budget.value * costs.of(teacher) if budget.share else budget.value
    if costs.of(teacher) <= target:
        raise ArgumentError(
            f"--budget {budget.asked}: the model has {_shown(costs.of(teacher), budget)} and meets "
            "it as it is; ask for less"
        )
    per_layer = teacher.heads // teacher.layers
    whole = [Form(n, n * per_layer, teacher.units) for n in range(teacher.layers - 1, 0, -1)]
    found = [form for form in whole if costs.of(form) <= target][:1]
    more = found[0].layers + 1 if found else 1
    narrow = _narrowed(Form(more, more * per_layer, teacher.units), costs, target)
    forms = (*found, *([] if narrow is None else [narrow]))
    if not forms:
        raise ArgumentError(_out_of_reach(budget, costs, teacher))
    return forms


def _narrowed(form: Form, costs: Costs, target: float) -> Form | None:
    """`form` with the most units that meet the target, and fewer heads where units are not enough."""
    step = max(1, form.units // UNIT_STEPS)
    least = _least(form.units)
    for units in [*range(form.units - step, least, -step), least]:
        if costs.of(replace(form, units=units)) <= target:
            return replace(form, units=units)
    for heads in range(form.heads - 1, form.layers * _least(form.heads // form.layers) - 1, -1):
        narrow = replace(form, units=least, heads=heads)
        if costs.of(narrow) <= target:
            return narrow
    return None


def _least(count: int) -> int:
    return math.ceil(count / NARROWEST)


def _out_of_reach(budget: Budget, costs: Costs, teacher: Form) -> str:
    smallest = Form(1, _least(teacher.heads // teacher.layers), _least(teacher.units))
    least, whole = costs.of(smallest), costs.of(teacher)
    fixed = (
        f"; the embeddings and the head, which cannot go, are {costs.fixed / whole:.0%}"
        if budget.kind_of == "params"
        else ""
    )
    nearest = f"{math.ceil(100 * least / whole) / 100:.2f}" if budget.share else math.ceil(least)
    return (
        f"--budget {budget.asked} is out of reach{fixed}; the smallest model, one narrow layer, has "
        f"{_shown(least, budget)}: {budget.kind_of}={nearest} is the nearest that can be met"
    )


def _shown(cost: float, budget: Budget) -> str:
    if budget.kind_of == "params":
        return f"{cost:,.0f} parameters"
    return f"{cost:.2f} of the model's latency"
