"""Shapes of smaller models, and what each costs: in parameters exactly, in time by a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qt_bert.encoder.families import Family
from qt_bert.encoder.smaller import layers_of, reference_of
from qt_bert.results.kept import KeptLayer, TeacherRef

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
