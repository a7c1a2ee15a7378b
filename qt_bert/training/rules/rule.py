"""What a rule is: from a query and a title that meets it, a pair whose grades are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from qt_bert.pairs import GradeSet
from qt_bert.pairs.segmenters import Segmenter
from qt_bert.training.rules.related import RelatedTexts


@dataclass(frozen=True)
class Base:
    """A query and a title that meets it; `grades` is what the two of them mean."""

    query: str
    title: str
    grades: GradeSet


@dataclass(frozen=True)
class Draw:
    """What a rule works on: a base, a random generator, and the texts around it."""

    base: Base
    rng: Random
    segmenter: Segmenter
    related: RelatedTexts

    @property
    def query(self) -> str:
        """The base's query."""
        return self.base.query

    @property
    def title(self) -> str:
        """The base's title."""
        return self.base.title


@dataclass(frozen=True)
class Made:
    """A pair that a rule made, and its twin: a title for the same query that keeps the meaning.

    A query stands beside both, so that neither query nor title alone tells the grade. `kept` is
    None where the rule has no such twin; `kept_grades` is what the twin means.
    """

    query: str
    title: str
    kept: str | None = None
    kept_grades: GradeSet = (5,)


@dataclass(frozen=True)
class Rule:
    """One way to make a pair: its name, the grades of what it makes, and one sentence on it.

    `apply` answers None where the rule does not fit the draw.
    """

    name: str
    grades: GradeSet
    zh: str
    en: str
    apply: Callable[[Draw], Made | None]


def changed(draw: Draw, title: str) -> Made:
    """The base's query with a title of another meaning, and the base's own title as the twin."""
    return Made(draw.query, title, draw.title, draw.base.grades)
