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


def reworded(draw: Draw, old: str, new: str, title: str) -> Made:
    """The pair where `title` is the base's with `new` for `old`, a word that the query has once.

    Half the time the query is given `new` too and the titles change roles: both words then stand
    as often in titles that meet their query as in titles that do not.
    """
    if draw.rng.random() < 0.5:
        return changed(draw, title)
    at = draw.query.lower().index(old.lower())
    query = draw.query[:at] + new + draw.query[at + len(old) :]
    return Made(query, draw.title, title, draw.base.grades)
