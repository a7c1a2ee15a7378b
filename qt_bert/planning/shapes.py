"""Budgets, and the shapes of smaller models that meet them: parameters exactly, time by a fit."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from qt_bert.errors import ArgumentError
from qt_bert.models.families import Family
from qt_bert.models.pruned import layers_of, reference_of
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import Budget, BudgetKind

# `--budget`: what of a model may stay, as a share or as a number.


KINDS: tuple[BudgetKind, ...] = get_args(BudgetKind)
_FORM = re.compile(r"([a-z]+)=([0-9]*\.?[0-9]+)(M?)", re.IGNORECASE)
_MILLION = 1_000_000
_HOW = (
    "write heads=, layers=, latency= or params=; with a point the share that is kept (heads=0.6, "
    "latency=0.5), without one the number (layers=6, params=4000000 or params=4M)"
)


def parse_budget(text: str) -> Budget:
    """The budget that `text` (`heads=0.6`, `layers=6`, `params=4M`) asks for.

    With a point it is the share of the model's own that is kept, above 0 and below 1; without, the
    number kept. Latency is a share. Raises ArgumentError for anything else.
    """
    found = _FORM.fullmatch(text.strip())
    kind = next((one for one in KINDS if found and found[1].lower() == one), None)
    if found is None or kind is None:
        raise ArgumentError(f"--budget {text!r}: {_HOW}")
    number, millions = float(found[2]), bool(found[3])
    if millions and kind != "params":
        raise ArgumentError(f"--budget {text!r}: M, for millions, goes with params alone")
    share = "." in found[2] and not millions
    if share and not 0 < number < 1:
        raise ArgumentError(
            f"--budget {text!r}: with a point it is the share kept, above 0 and below 1; "
            f"for a number leave the point out"
        )
    if not share and kind == "latency":
        raise ArgumentError(f"--budget {text!r}: a latency is a share of the model's: latency=0.5")
    if number == 0:
        raise ArgumentError(f"--budget {text!r}: something must stay")
    value = number * _MILLION if millions else number
    return Budget(kind_of=kind, value=value, share=share, asked=text.strip())


def count_kept(budget: Budget, total: int) -> int:
    """How many of `total` heads or layers stay.

    Raises ArgumentError where that is none, all or more; the message names what there can be.
    """
    kept = round(budget.value * total) if budget.share else int(budget.value)
    if 1 <= kept < total:
        return kept
    what, one = budget.kind_of, budget.kind_of[:-1]
    if total == 1:
        raise ArgumentError(
            f"--budget {budget.asked}: the model has a single {one}, which cannot go"
        )
    meant = "none" if kept < 1 else "all" if kept == total else str(kept)
    raise ArgumentError(
        f"--budget {budget.asked} keeps {meant} of the model's {total} {what}; give {what}=1 to "
        f"{what}={total - 1}, or a share from {_least(total)} to {_most(total)}"
    )


def _least(total: int) -> str:
    """The smallest share, in two digits where they do, that keeps one of `total`."""
    return next(text for text in _shares(total) if round(float(text) * total) >= 1)


def _most(total: int) -> str:
    """The largest share that does not keep all of `total`."""
    return next(
        text for text in reversed(list(_shares(total))) if round(float(text) * total) < total
    )


def _shares(total: int) -> list[str]:
    digits = 2 if total <= 50 else 3 if total <= 500 else 4
    return [f"{step / 10**digits:.{digits}f}" for step in range(1, 10**digits)]


# Shapes of smaller models, and what each costs: in parameters exactly, in time by a fit.


FLOAT16_BYTES = 2


@dataclass(frozen=True)
class Form:
    """How many layers stay, how many heads all of them together keep, and units in each."""

    layers: int
    heads: int
    units: int

    def example(self, teacher: TeacherRef) -> tuple[KeptLayer, ...]:
        """Layers of this form: the highest, with the first heads of each, spread evenly.

        What a form costs in time does not depend on which layers, heads and units they are; the
        highest are those of an offline model in which the texts meet.
        """
        each, more = divmod(self.heads, self.layers)
        units = None if self.units == teacher.units else self.units
        return tuple(
            KeptLayer(
                layer=teacher.layers - self.layers + number,
                heads=tuple(range(each + (number < more))),
                units=units,
            )
            for number in range(self.layers)
        )


@dataclass(frozen=True)
class Costs:
    """What a model costs as a sum over its parts, in any unit.

    `fixed` is embeddings and head, `layer` a layer without heads and units, `head` one head and
    `unit` one feed-forward unit.
    """

    fixed: float
    layer: float
    head: float
    unit: float

    def of(self, form: Form) -> float:
        """The cost of a model of this form."""
        parts = form.layers * (self.layer + form.units * self.unit) + form.heads * self.head
        return self.fixed + parts


def parameter_costs(model: Any, family: Family) -> Costs:
    """The parameters of each part of a classifier whose layers all have one shape."""
    layers = layers_of(model, family)
    first = layers[0]
    hidden, units = first.output.dense.out_features, first.intermediate.dense.out_features
    heads, width = (
        first.attention.self.num_attention_heads,
        first.attention.self.attention_head_size,
    )
    head, unit = width * (4 * hidden + 3), 2 * hidden + 1
    whole, total = parameters_of(first), parameters_of(model)
    return Costs(
        fixed=total - len(layers) * whole,
        layer=whole - heads * head - units * unit,
        head=head,
        unit=unit,
    )


def parameters_of(module: Any) -> int:
    """Numbers that a module learned."""
    return sum(parameter.numel() for parameter in module.parameters())


def form_of(kept: Sequence[KeptLayer], teacher: TeacherRef) -> Form:
    """The form of what a plan keeps; where widths differ, the units of all layers on average."""
    units = [teacher.units if one.units is None else one.units for one in kept]
    return Form(len(kept), sum(len(one.heads) for one in kept), round(sum(units) / len(units)))


def teacher_of(model: Any, family: Family, name: str, sha256: str) -> tuple[TeacherRef, Form]:
    """The model by name, hash and shape, and its own form."""
    teacher = reference_of(model, family, name, sha256)
    return teacher, Form(teacher.layers, teacher.layers * teacher.heads, teacher.units)


# Shapes that meet a budget of parameters or of time.


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
    least = _least_shape(form.units)
    for units in [*range(form.units - step, least, -step), least]:
        if costs.of(replace(form, units=units)) <= target:
            return replace(form, units=units)
    for heads in range(
        form.heads - 1, form.layers * _least_shape(form.heads // form.layers) - 1, -1
    ):
        narrow = replace(form, units=least, heads=heads)
        if costs.of(narrow) <= target:
            return narrow
    return None


def _least_shape(count: int) -> int:
    return math.ceil(count / NARROWEST)


def _out_of_reach(budget: Budget, costs: Costs, teacher: Form) -> str:
    smallest = Form(1, _least_shape(teacher.heads // teacher.layers), _least_shape(teacher.units))
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
