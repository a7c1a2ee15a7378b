"""Budgets, and the forms of smaller models within them, by a cost that is a sum over parts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from qt_bert.errors import ArgumentError
from qt_bert.models.families import Family
from qt_bert.models.pruned import head_parameters, parameter_count, unit_parameters
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import Budget, BudgetKind

KINDS: tuple[BudgetKind, ...] = get_args(BudgetKind)
_FORM = re.compile(r"([a-z]+)=([0-9]*\.?[0-9]+)(M?)", re.IGNORECASE)
_MILLION = 1_000_000
_HOW = (
    "write heads=, layers=, latency= or params=; with a point the share that is kept (heads=0.6, "
    "latency=0.5), without one the number (layers=6, params=4000000 or params=4M)"
)


def parse_budget(text: str) -> Budget:
    """The budget of `text` (`heads=0.6`, `layers=6`, `params=4M`).

    With a point it is the share that is kept, above 0 and below 1; without, the number. Latency is a
    share. Raises ArgumentError for any other text.
    """
    match = _FORM.fullmatch(text.strip())
    kind = next((name for name in KINDS if match and match[1].lower() == name), None)
    if match is None or kind is None:
        raise ArgumentError(f"--budget {text!r}: {_HOW}")
    number, millions = float(match[2]), bool(match[3])
    if millions and kind != "params":
        raise ArgumentError(f"--budget {text!r}: M, for millions, goes with params alone")
    share = "." in match[2] and not millions
    if share and not 0 < number < 1:
        raise ArgumentError(
            f"--budget {text!r}: with a point it is the share kept, above 0 and below 1; "
            f"for a number leave the point out"
        )
    if not share and kind == "latency":
        raise ArgumentError(f"--budget {text!r}: a latency is a share of the model's: latency=0.5")
    if number == 0:
        raise ArgumentError(f"--budget {text!r}: nothing is left; give a number above 0")
    value = number * _MILLION if millions else number
    return Budget(kind_of=kind, value=value, share=share, asked=text.strip())


def count_kept(budget: Budget, total: int, sharing: int = 1) -> int:
    """How many of `total` heads or layers stay, in groups of `sharing` heads that share a key.

    Raises ArgumentError where that is none, all, more or a part of a group, naming the possible numbers.
    """
    groups = total // sharing
    kept = sharing * round(budget.value * groups) if budget.share else int(budget.value)
    if sharing <= kept < total and kept % sharing:
        raise ArgumentError(
            f"--budget {budget.asked}: each {sharing} heads of the model share one key and value and go "
            f"together; give heads={kept - kept % sharing}, or another multiple of {sharing}"
        )
    if sharing <= kept < total:
        return kept
    plural, singular = budget.kind_of, budget.kind_of[:-1]
    if groups == 1:
        raise ArgumentError(
            f"--budget {budget.asked}: the model has a single {singular if total == 1 else 'group of heads'}, "
            "which cannot go"
        )
    count = "none" if kept < 1 else "all" if kept == total else str(kept)
    raise ArgumentError(
        f"--budget {budget.asked} keeps {count} of the model's {total} {plural}; give {plural}={sharing} to "
        f"{plural}={total - sharing}, or a share from {_shares(groups)}"
    )


def _shares(total: int) -> str:
    """The range of shares that keep some but not all of `total`, in as few digits as possible."""
    digits = 2 if total <= 50 else 3 if total <= 500 else 4
    shares = [f"{step / 10**digits:.{digits}f}" for step in range(1, 10**digits)]
    fitting = [share for share in shares if 1 <= round(float(share) * total) < total]
    return f"{fitting[0]} to {fitting[-1]}"


FLOAT16_BYTES = 2


@dataclass(frozen=True)
class Form:
    """The size of a model: layers, heads in all layers, and feed-forward units in each.

    Groups of `sharing` heads share one key and value, and stay or go together.
    """

    layers: int
    heads: int
    units: int
    sharing: int = 1

    @property
    def per_layer(self) -> int:
        """Heads of a layer, where all have as many."""
        return self.heads // self.layers

    def of_layers(self, layers: int) -> Form:
        """The form with `layers` layers, each with as many heads as here."""
        return replace(self, layers=layers, heads=layers * self.per_layer)

    def example(self, teacher: TeacherRef) -> tuple[KeptLayer, ...]:
        """Layers of this form, to measure its latency, which does not depend on which layers, heads and
        units are kept: the highest layers with their first heads."""
        each, more = divmod(self.heads // self.sharing, self.layers)
        units = None if self.units == teacher.units else self.units
        return tuple(
            KeptLayer(
                layer=teacher.layers - self.layers + number,
                heads=tuple(range(self.sharing * (each + (number < more)))),
                units=units,
            )
            for number in range(self.layers)
        )


@dataclass(frozen=True)
class Costs:
    """The cost of a model as a sum over its parts, in any unit.

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
    """The parameters of each part of a classifier whose layers all have one shape.

    ModernBERT's first layer lacks a norm; totals err by less than one.
    """
    layers = family.layers_of(model)
    first = layers[-1]
    heads, units = family.heads(first), family.units(first)
    head, unit = head_parameters(family, first), unit_parameters(family, first)
    whole = sum(map(parameter_count, layers)) / len(layers)
    total = parameter_count(model)
    return Costs(
        fixed=total - len(layers) * whole,
        layer=whole - heads * head - units * unit,
        head=head,
        unit=unit,
    )


def form_of(kept: Sequence[KeptLayer], teacher: TeacherRef) -> Form:
    """The form of a plan's kept layers; `units` is the mean where widths differ."""
    units = [teacher.units if layer.units is None else layer.units for layer in kept]
    return Form(len(kept), sum(len(layer.heads) for layer in kept), round(sum(units) / len(units)))


NARROWEST = 4
"""A layer keeps at least this fraction (1 / NARROWEST) of its units and of its heads."""

UNIT_STEPS = 32
"""Units are removed in steps of 1 / UNIT_STEPS of a layer's."""


def forms_within(budget: Budget, costs: Costs, teacher: Form) -> tuple[Form, ...]:
    """The largest forms within the budget: of whole layers, and of one layer more but narrower.

    The first removes as few layers as possible. The second keeps one more and removes feed-forward units
    from every layer (down to a quarter), then heads (down to a quarter). `costs` are in the budget's
    unit, or the budget is a share of the teacher's cost.

    Raises ArgumentError for a budget that no form meets, naming the nearest possible, and for one that the
    teacher meets.
    """
    target = budget.value * costs.of(teacher) if budget.share else budget.value
    if costs.of(teacher) <= target:
        raise ArgumentError(
            f"--budget {budget.asked}: the model has {_shown(costs.of(teacher), budget)} and meets "
            "it as it is; ask for less"
        )
    whole = [teacher.of_layers(n) for n in range(teacher.layers - 1, 0, -1)]
    whole_layers = [form for form in whole if costs.of(form) <= target][:1]
    more = whole_layers[0].layers + 1 if whole_layers else 1
    narrow = _narrowed(teacher.of_layers(more), costs, target)
    forms = (*whole_layers, *([] if narrow is None else [narrow]))
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
    fewest = form.layers * _least_heads(form)
    for heads in range(form.heads - form.sharing, fewest - 1, -form.sharing):
        narrow = replace(form, units=least, heads=heads)
        if costs.of(narrow) <= target:
            return narrow
    return None


def _least(count: int) -> int:
    return math.ceil(count / NARROWEST)


def _least_heads(form: Form) -> int:
    """The fewest heads of a layer."""
    return form.sharing * _least(form.per_layer // form.sharing)


def _out_of_reach(budget: Budget, costs: Costs, teacher: Form) -> str:
    smallest = Form(1, _least_heads(teacher), _least(teacher.units))
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
