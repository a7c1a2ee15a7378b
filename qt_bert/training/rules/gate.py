"""What made pairs may pass: new ones that contradict nothing and touch no barred query."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from qt_bert.pairs import GradeSet
from qt_bert.training.rules.rule import Made

_TITLE_LENGTH = range(2, 81)


class MadePair(NamedTuple):
    """A pair that a rule made, with the grades it stands for."""

    query: str
    title: str
    grades: GradeSet
    rule: str


class Gate:
    """Remembers what passed. `good` are pairs known to mean grade 4 or 5."""

    def __init__(self, is_barred: Callable[[str], bool], good: Iterable[tuple[str, str]]) -> None:
        self._is_barred = is_barred
        self._grades: dict[tuple[str, str], GradeSet] = {
            (folded(query), folded(title)): (4, 5) for query, title in good
        }
        self._passed: set[tuple[str, str]] = set()

    def admits(self, made: Made, grades: GradeSet) -> bool:
        """Whether a pair and its twin, before tails, may stand beside all that was admitted."""
        meant = [(made.title, grades)]
        if made.kept is not None:
            meant.append((made.kept, made.kept_grades))
        if self._is_barred(made.query) or any(self._is_barred(title) for title, _ in meant):
            return False
        if any(len(title) not in _TITLE_LENGTH for title, _ in meant):
            return False
        query = folded(made.query)
        keyed = {(query, folded(title)): grades for title, grades in meant}
        if len(keyed) < len(meant) or any(self._contradicts(*entry) for entry in keyed.items()):
            return False
        for key, known in keyed.items():
            self._grades.setdefault(key, known)
        return True

    def is_new(self, pair: MadePair) -> bool:
        """Whether exactly this pair has not passed before; it has, from now on."""
        key = (pair.query, pair.title)
        if key in self._passed or self._is_barred(pair.query) or self._is_barred(pair.title):
            return False
        self._passed.add(key)
        return True

    def _contradicts(self, key: tuple[str, str], grades: GradeSet) -> bool:
        query, title = key
        known = (5,) if query == title else self._grades.get(key, grades)
        return not set(known) & set(grades)


def folded(text: str) -> str:
    """`text` without case, width, spaces and punctuation: what near-equal texts share."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return "".join(character for character in plain if character.isalnum())


def barrier(forbidden: Callable[[str], bool] | Set[str]) -> Callable[[str], bool]:
    """Whether a text is forbidden: the function given, or membership once folded."""
    if not isinstance(forbidden, Set):
        return forbidden
    barred = {folded(query) for query in forbidden}
    return lambda text: folded(text) in barred
