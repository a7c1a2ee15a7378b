"""A visitor's own behaviour cases: a few, as the probe's own file of cases has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import half_of
from qt_bert.inspection.inputs import RefusedInput, clean_texts
from qt_bert.inspection.views import behaviour as words
from qt_bert.inspection.views.ranking import default_titles
from qt_bert.probes.behaviour_cases import COLUMNS, Case, Relation

__all__ = [
    "FILE",
    "MOST",
    "Case",
    "Relation",
    "added",
    "default_other",
    "of_one_half",
    "own_case",
    "tsv_of",
]

MOST = 20
FILE = "my_cases.tsv"


def own_case(query: str, title: str, other: str, relation: Relation) -> Case:
    """The case of a state's query and title, and of the `other` title as it was typed.

    Raises RefusedInput where a text is empty, or both titles are the same.
    """
    typed = clean_texts(query, other)[1]
    query, title, other = query.strip(), title.strip(), typed.strip()
    if not (query and title and other) or title == other:
        raise RefusedInput(words.SAME)
    return Case("own", f"own_{relation}", relation, query, title, other)


def added(cases: Sequence[Case], case: Case) -> tuple[Case, ...]:
    """`cases` and this one, under a number of its own.

    Raises RefusedInput for a case that is there already, and beyond twenty.
    """
    if len(cases) >= MOST:
        raise RefusedInput(words.full(MOST))
    if any(_same(one, case) for one in cases):
        raise RefusedInput(words.KNOWN)
    last = max((int(one.id.removeprefix("own-")) for one in cases), default=0)
    return (*cases, replace(case, id=f"own-{last + 1:02d}"))


def default_other(query: str, title: str, rows: Sequence[Pair], seed: int) -> str:
    """A second title to begin with: another one of the query's in `rows`, else any, drawn by `seed`."""
    titles = default_titles(query, title, rows, seed)
    return next((one.text for one in titles if one.text != title), "")


def tsv_of(cases: Sequence[Case]) -> bytes:
    """The cases as a file that `qt-bert probe behaviour --cases` reads."""
    rows = [[str(getattr(case, name)) for name in COLUMNS] for case in cases]
    return "".join("\t".join(row) + "\n" for row in [COLUMNS, *rows]).encode("utf-8")


def of_one_half(cases: Sequence[Case]) -> bool:
    """Whether all queries fall into one half, so that the probe could not choose and test."""
    return len({half_of(case.query) for case in cases}) == 1


def _same(one: Case, other: Case) -> bool:
    return replace(one, id="") == replace(other, id="")
