"""Behaviour cases: a query, two titles, and how the second stands to the first."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import Half, half_of

Relation = Literal["better", "alike"]
"""`better`: the title serves the query clearly better than the other; `alike`: equally well."""
BETTER: Relation = "better"
ALIKE: Relation = "alike"


@dataclass(frozen=True, slots=True)
class Case:
    """One case; of `alike` ones `title` is the unchanged text and `other` the changed one.

    `line` is its place in the file, 0 where there is none.
    """

    id: str
    phenomenon: str
    relation: Relation
    query: str
    title: str
    other: str
    line: int = 0

    @property
    def pairs(self) -> tuple[Pair, Pair]:
        """The query with either title, without a label."""
        return (
            Pair(self.query, self.title, None, self.id, self.line, None, {}),
            Pair(self.query, self.other, None, f"{self.id}/other", self.line, None, {}),
        )


@dataclass(frozen=True)
class Cases:
    """The cases of one file, in its order."""

    path: Path
    listed: tuple[Case, ...]

    @cached_property
    def phenomena(self) -> dict[str, Relation]:
        """Each phenomenon with its relation, in the order in which they first come."""
        return {case.phenomenon: case.relation for case in self.listed}

    @cached_property
    def texts_sha256(self) -> str:
        """SHA-256 over query and titles of every case, in their order."""
        digest = hashlib.sha256()
        for case in self.listed:
            digest.update(f"{case.query}\0{case.title}\0{case.other}\n".encode())
        return digest.hexdigest()

    def half(self, name: Half) -> tuple[Case, ...]:
        """The cases whose query belongs to that half."""
        return tuple(case for case in self.listed if half_of(case.query) == name)


def titles_then_others(cases: Sequence[Case]) -> list[Pair]:
    """The pairs of all titles, then those of all others [2 cases]."""
    both = [case.pairs for case in cases]
    return [title for title, _ in both] + [other for _, other in both]
