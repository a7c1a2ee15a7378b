"""The loss by grade and by how much of the query stands in the title."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.variant import Variant
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.labels import name_set
from qt_bert.pairs import Pair
from qt_bert.probes.common.terms import is_content
from qt_bert.probes.term_matching.changes import POINT, Changes

OVERLAPS = ("low", "mid", "high")
CUTS = (1 / 3, 2 / 3)


@dataclass(frozen=True)
class Slice:
    """Some pairs: their number, the target's change in points, its interval, the controls' mean."""

    name: str
    n_pairs: int
    change: float | None
    interval: tuple[float, float] | None
    controls: float | None


def by_grade(changes: Changes, target: Variant, controls: Sequence[Variant]) -> list[Slice]:
    """One slice a label, the lowest mean grade first."""
    labels = {pair.grades for pair in changes.folder.pairs if pair.grades}
    order = sorted(labels, key=lambda grades: (sum(grades) / len(grades), grades))
    names = {grades: name_set(grades) for grades in order}
    return _slices(
        changes, target, controls, list(names.values()), lambda pair: names.get(pair.grades or ())
    )


def by_overlap(changes: Changes, target: Variant, controls: Sequence[Variant]) -> list[Slice]:
    """Slices by the share of the query's content characters found in the title, cut at thirds."""
    return _slices(changes, target, controls, OVERLAPS, overlap_name)


def overlap_name(pair: Pair) -> str | None:
    """`low`, `mid` or `high`; None for a query without content."""
    found = overlap(pair.query, pair.title)
    if found is None:
        return None
    return OVERLAPS[sum(found >= cut for cut in CUTS)]


def overlap(query: str, title: str) -> float | None:
    """The share of the query's content characters that stand in the title; None without any."""
    characters = [one for one in query.casefold() if is_content(one)]
    present = set(title.casefold())
    return sum(one in present for one in characters) / len(characters) if characters else None


def _slices(
    changes: Changes,
    target: Variant,
    controls: Sequence[Variant],
    names: Sequence[str],
    name_of: Callable[[Pair], str | None],
) -> list[Slice]:
    places: dict[str, list[int]] = {name: [] for name in names}
    for place, pair in enumerate(changes.folder.pairs):
        name = name_of(pair)
        if name is not None:
            places[name].append(place)
    return [_slice(name, changes, target, controls, at) for name, at in places.items() if at]


def _slice(
    name: str,
    changes: Changes,
    target: Variant,
    controls: Sequence[Variant],
    places: Sequence[int],
) -> Slice:
    folder = changes.folder
    rows = [0, *(folder.row(variant.name) for variant in (target, *controls))]
    pairs = [folder.pairs[place] for place in places]
    effects = Effects(
        np.asarray(folder.logits[rows])[:, list(places)],
        pairs,
        changes.labels,
        resamples=changes.resamples,
        draws=0,
        seed=changes.seed,
    )
    metric = changes.metric
    change, ends = effects.change(1, metric), effects.interval(effects.resampled(1, metric))
    others = _known([effects.change(row, metric) for row in range(2, len(rows))])
    return Slice(
        name,
        len(pairs),
        None if change is None else change / POINT,
        None if ends is None else (ends[0] / POINT, ends[1] / POINT),
        float(others.mean()) / POINT if others.size else None,
    )


def _known(values: Sequence[float | None]) -> FloatArray:
    return np.array([value for value in values if value is not None])
