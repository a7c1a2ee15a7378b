"""Two spans of one text or of two, linked by people or not, and which of them are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from qt_bert.data.tokenise import EncodedPair
from qt_bert.probes.streams import is_marker
from qt_bert.stats.arrays import BoolArray, IntArray

UNLINKED = ""
"""The relation of two spans that nobody linked."""

Tokens = tuple[int, int]
"""A span's tokens [start, end) in its pair."""


class Link(NamedTuple):
    """Two spans that are compared with others of equal `stratum`.

    `pair` says which pair of texts they stand in, `unit` which sentence or query they are resampled
    with. Of linked spans the first is the dependent word, or the query's.
    """

    pair: int
    unit: int
    first: Tokens
    second: Tokens
    relation: str
    stratum: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Links:
    """N links, strata together; `pairs` are the texts that a model reads.

    `pair`, `unit`, `stratum` [N] number from 0, `first` and `second` [N, 2] are tokens [start, end).
    `relation` [N] is a place in `relations`, −1 for unlinked ones. `unmatched` counts by relation
    what was left out for want of an unlinked pair of its stratum.
    """

    pairs: list[tuple[str, str]]
    units: int
    relations: tuple[str, ...]
    pair: IntArray
    unit: IntArray
    first: IntArray
    second: IntArray
    relation: IntArray
    stratum: IntArray
    unmatched: dict[str, int]

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def linked(self) -> BoolArray:
        """Which are linked [N]."""
        return np.asarray(self.relation >= 0)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many links each relation has."""
        found = np.bincount(self.relation[self.linked], minlength=len(self.relations))
        return dict(zip(self.relations, found.tolist(), strict=True))

    def of(self, relation: str) -> IntArray:
        """The links of one relation and the unlinked pairs of their strata, in order."""
        mine = self.relation == self.relations.index(relation)
        return np.flatnonzero(mine | (~self.linked & np.isin(self.stratum, self.stratum[mine])))


def links_of(
    pairs: Sequence[tuple[str, str]],
    units: int,
    found: Iterable[Link],
    *,
    relations: Sequence[str],
    most: int,
    seed: int,
) -> Links:
    """`found` as arrays: strata with both kinds, of `relations`, and at most `most` unlinked a link.

    Which of more unlinked ones stay is drawn.
    """
    strata: dict[tuple[int, ...], list[Link]] = {}
    for link in found:
        strata.setdefault(link.stratum, []).append(link)
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, Link]] = []
    unmatched = dict.fromkeys(relations, 0)
    for members in strata.values():
        linked = [one for one in members if one.relation in relations]
        free = [one for one in members if one.relation == UNLINKED]
        if not free:
            for one in linked:
                unmatched[one.relation] += 1
        elif linked:
            drawn = sorted(rng.permutation(len(free))[: most * len(linked)])
            number = kept[-1][0] + 1 if kept else 0
            kept += [(number, one) for one in (*linked, *(free[place] for place in drawn))]
    numbers = {relation: place for place, relation in enumerate(relations)}

    def column(values: Iterable[object], width: int = 0) -> IntArray:
        return np.array(list(values), np.int64).reshape((-1, width) if width else -1)

    return Links(
        pairs=list(pairs),
        units=units,
        relations=tuple(relations),
        pair=column(one.pair for _, one in kept),
        unit=column(one.unit for _, one in kept),
        first=column((one.first for _, one in kept), 2),
        second=column((one.second for _, one in kept), 2),
        relation=column(numbers.get(one.relation, -1) for _, one in kept),
        stratum=column(number for number, _ in kept),
        unmatched=unmatched,
    )


def tokens_of(encoded: EncodedPair, side: int, start: int, end: int) -> Tokens | None:
    """The tokens of characters [start, end) of one side; None where there are none.

    A token that reaches beyond the characters counts; a mark of a word's start does not.
    """
    found = [
        token
        for token, (owner, (left, right)) in enumerate(
            zip(encoded.side, encoded.spans, strict=True)
        )
        if owner == side and left < end and right > start and not is_marker(encoded, token)
    ]
    return (found[0], found[-1] + 1) if found else None
