"""The rungs: cuts between the texts that reach up from the lowest layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import CONVENTIONS, Convention, Cut
from qt_bert.models.batches import Direction

ALL: Direction = "all"
IN_PARTS: tuple[Direction, ...] = ("T<Q", "Q<T", "C<T")
OTHERS: tuple[Direction, ...] = (*IN_PARTS, "<C")
QUARTERS = 4
"""Of the ladders beside *all* a quick run climbs so many rungs."""


@dataclass(frozen=True, eq=False)
class Ladder:
    """Cuts of one direction: rung l, `rungs[l]`, cuts the layers 0 … l − 1."""

    direction: Direction
    convention: Convention
    rungs: Mapping[int, Variant]

    @property
    def whole(self) -> Variant:
        """The highest rung: every layer cut."""
        return self.rungs[max(self.rungs)]


Ladders = Mapping[tuple[Direction, Convention], Ladder]


def ladders(layers: int, *, full: bool) -> Ladders:
    """What is climbed in a model of so many layers, by direction and convention.

    *all* is climbed rung by rung; in a quick run the three directions by quarters of the model, and
    `<C` in one step to the top. `full` climbs every rung of every direction, under both conventions.
    """
    every, quarter = range(1, layers + 1), max(1, layers // QUARTERS)
    quarters = sorted({*every[quarter - 1 :: quarter], layers})
    reached: dict[Direction, Iterable[int]] = {ALL: every} | dict.fromkeys(IN_PARTS, quarters)
    reached["<C"] = (layers,)
    conventions = CONVENTIONS if full else CONVENTIONS[:1]
    return {
        (direction, convention): Ladder(
            direction,
            convention,
            {layer: _rung(direction, layer, convention) for layer in (every if full else some)},
        )
        for convention in conventions
        for direction, some in reached.items()
    }


def variants_of(climbed: Iterable[Ladder]) -> list[Variant]:
    """The rungs of some ladders as variants of one sweep."""
    return [variant for ladder in climbed for variant in ladder.rungs.values()]


def _rung(direction: Direction, layers: int, convention: Convention) -> Variant:
    cut = Cut(direction, 0, layers - 1, convention)
    family = direction if convention == "before" else f"{direction}/{convention}"
    return Variant(cut.name, (cut,), family)
