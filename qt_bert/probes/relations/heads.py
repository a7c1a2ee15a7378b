"""Every head on every relation: its excess on linked spans, and which head is named for it.

Kovaleva et al. 2019, 4.2, look at the head of the largest weights; here it must exceed what unlinked
spans get, by more than the best of all heads does under exchanged labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.models.heads import Head
from qt_bert.probes.naming import LEAST_WEIGHT
from qt_bert.probes.relations.exchange import label_weights, largest_of, p_against
from qt_bert.probes.relations.links import Links
from qt_bert.probes.relations.weights import Weights
from qt_bert.stats.arrays import FloatArray, ratio
from qt_bert.stats.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.stats.tests import q_values

LEAST_RATIO = 1.5
"""A head is named where linked spans get at least so many times what unlinked ones get."""


@dataclass(frozen=True, eq=False)
class Excess:
    """One relation over all heads.

    `linked` and `unlinked` [heads]: mean largest attention of linked spans, and of their unlinked
    ones; `upward` [heads]: whether more goes from the first span (the dependent, or the query's) to
    the second; `sums` and `counts` [units, heads] and [units]: excess and links of each unit; `p`
    [heads] against the largest head, NaN where nothing was exchanged.
    """

    relation: str
    linked: FloatArray
    unlinked: FloatArray
    upward: FloatArray
    sums: FloatArray
    counts: FloatArray
    p: FloatArray

    @property
    def value(self) -> FloatArray:
        """The mean excess [heads]."""
        return self.linked - self.unlinked

    @property
    def times(self) -> FloatArray:
        """Linked over unlinked [heads]."""
        return ratio(self.linked, self.unlinked)

    @property
    def n(self) -> int:
        """How many links it rests on."""
        return int(self.counts.sum())

    @property
    def best(self) -> int:
        """The column of the largest excess."""
        return int(np.argmax(self.value))


def excess_of(
    links: Links,
    weights: Weights,
    relation: str,
    *,
    draws: int = 0,
    seed: int = 0,
    column: int | None = None,
) -> Excess:
    """What every head gives the links of one relation; with `draws`, tested by exchange.

    Each head is tested against the largest of all; or one alone, whose `column` was chosen elsewhere.
    """
    places = links.of(relation)
    values = weights.either[places].astype(np.float64)
    stratum = np.unique(links.stratum[places], return_inverse=True)[1]
    linked = links.linked[places]
    share = label_weights(linked, stratum)
    number = int(linked.sum())
    plus, minus = np.where(linked, share, 0.0), np.where(linked, 0.0, -share)
    sums = np.zeros((links.units, values.shape[1]))
    # Strata lie within units, so that each unit's weights add up to its own links' excess.
    np.add.at(sums, links.unit[places], values * (share * number)[:, None])
    mine = places[linked]
    observed = (plus - minus) @ values
    p = np.full(values.shape[1], np.nan)
    if draws and number:
        tested = slice(None) if column is None else slice(column, column + 1)
        null = largest_of(values[:, tested], linked, stratum, draws=draws, seed=seed)
        p[tested] = p_against(observed[tested], null)
    return Excess(
        relation=relation,
        linked=plus @ values,
        unlinked=minus @ values,
        upward=_mean(weights.up[mine]) - _mean(weights.down[mine]),
        sums=sums,
        counts=np.bincount(links.unit[mine], minlength=links.units).astype(np.float64),
        p=p,
    )


@dataclass(frozen=True, eq=False)
class Scores:
    """All relations over the same heads: what was measured on one half."""

    heads: list[Head]
    own: FloatArray
    excesses: dict[str, Excess]

    @property
    def relations(self) -> tuple[str, ...]:
        return tuple(self.excesses)

    @cached_property
    def q(self) -> dict[str, float]:
        """By relation: q, over the relations, of the best head's p."""
        p_values = [float(one.p[one.best]) for one in self.excesses.values()]
        found = np.array(q_values(p_values), dtype=np.float64).tolist()
        return dict(zip(self.excesses, found, strict=True))

    def best(self, relation: str) -> Head:
        """The head of the largest excess."""
        return self.heads[self.excesses[relation].best]

    @cached_property
    def named(self) -> dict[str, Head]:
        """Relation → its best head, where q, size and weight suffice."""
        return {
            relation: self.best(relation)
            for relation, one in self.excesses.items()
            if self.q[relation] < FALSE_DISCOVERY_RATE
            and one.times[one.best] >= LEAST_RATIO
            and self.own[one.best] >= LEAST_WEIGHT
        }

    @cached_property
    def passing(self) -> dict[str, int]:
        """How many heads pass of each relation that is found, at the error rate it was found at.

        Benjamini and Bogomolov (JRSS B 76, 2014): within the families selected, the level is that
        of the selection, times the share of families that it left.
        """
        found = [r for r, q in self.q.items() if q < FALSE_DISCOVERY_RATE]
        level = FALSE_DISCOVERY_RATE * len(found) / max(1, len(self.excesses))
        return {
            relation: int(
                ((one.p <= level) & (one.times >= LEAST_RATIO) & (self.own >= LEAST_WEIGHT)).sum()
            )
            for relation, one in self.excesses.items()
            if relation in found
        }


def scores_of(
    heads: list[Head],
    parts: Sequence[tuple[Links, Weights]],
    *,
    draws: int = 0,
    seed: int = 0,
    chosen: Mapping[str, int] | None = None,
) -> Scores:
    """Every relation of all `parts`, each with its own links and pass over them.

    `chosen`: by relation the column of the head that alone is tested; relations without are left
    out.
    """
    found: dict[str, Excess] = {}
    sizes = [len(links) for links, _ in parts]
    for links, weights in parts:
        for number, relation in enumerate(links.relations, len(found)):
            if not links.counts[relation] or (chosen is not None and relation not in chosen):
                continue
            column = None if chosen is None else chosen[relation]
            found[relation] = excess_of(
                links, weights, relation, draws=draws, seed=seed + number, column=column
            )
    own = (
        np.average([weights.own for _, weights in parts], axis=0, weights=sizes)
        if sum(sizes)
        else np.zeros(len(heads))
    )
    return Scores(heads, np.asarray(own), found)


def _mean(values: np.ndarray) -> FloatArray:
    return np.asarray(values.mean(axis=0) if len(values) else np.zeros(values.shape[1]))
