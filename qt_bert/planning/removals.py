"""Heads and blocks that go, as layers that stay, and by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qt_bert.encoder.heads import Head, names_of
from qt_bert.planning.choice.measure import Removal
from qt_bert.results.kept import KeptLayer, TeacherRef


def removal_of(heads: Iterable[Head] = (), blocks: Iterable[int] = ()) -> Removal:
    """What goes, in one order, so that equal removals are one."""
    gone = tuple(sorted(set(blocks)))
    return Removal(tuple(sorted(one for one in set(heads) if one.layer not in gone)), gone)


def kept_by(
    removal: Removal, teacher: TeacherRef, units: int | None = None
) -> tuple[KeptLayer, ...]:
    """What stays of `teacher`; each layer with `units` feed-forward units, by default all."""
    gone = set(removal.heads)
    return tuple(
        KeptLayer(
            layer=layer,
            heads=tuple(head for head in range(teacher.heads) if Head(layer, head) not in gone),
            units=None if units == teacher.units else units,
        )
        for layer in range(teacher.layers)
        if layer not in removal.blocks
    )


def removed_from(kept: Sequence[KeptLayer], teacher: TeacherRef) -> Removal:
    """The other way round: what a plan takes out."""
    layers = {one.layer: set(one.heads) for one in kept}
    heads = (
        Head(layer, head)
        for layer, there in layers.items()
        for head in range(teacher.heads)
        if head not in there
    )
    return removal_of(heads, set(range(teacher.layers)) - set(layers))


def lost_heads(removal: Removal, teacher: TeacherRef) -> set[str]:
    """Every head that goes, those of whole layers among them, by name."""
    of_blocks = [Head(layer, head) for layer in removal.blocks for head in range(teacher.heads)]
    return set(names_of([*removal.heads, *of_blocks]))


def names_of_removal(removal: Removal) -> tuple[str, ...]:
    """`L3` for a whole layer, `L5H7` for a head, in order."""
    return (*(f"L{layer}" for layer in removal.blocks), *names_of(removal.heads))
