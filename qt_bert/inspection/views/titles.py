"""The titles of one query: typed, one a line, or those of a file of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qt_bert.inspection.typed import plain_text
from qt_bert.pairs import GradeSet, Pair
from qt_bert.pairs.grades import LabelScheme
from qt_bert.pairs.sample import spread_over_queries
from qt_bert.results import Text
from qt_bert.scoring.judge import default_scheme

if TYPE_CHECKING:
    from qt_bert.encoder import ModelLabels

MOST_TITLES = 50
MOST_CHARACTERS = 500
OTHERS = 7
"""Titles of other queries beside the visitor's own, where there is nothing better to rank."""


@dataclass(frozen=True)
class Title:
    """A title, its label as it was written, and the grades (or the level) that this may mean."""

    text: str
    label: str | None = None
    grades: GradeSet | None = None


def typed_titles(text: str, labels: ModelLabels) -> tuple[list[Title], list[Text]]:
    """The titles typed in `text`, one a line, each with a label after a tab or without one.

    Empty lines and repeated titles are passed over. Also what had to be changed, in words: titles
    beyond 50, characters beyond 500 a title, control characters, and labels that this model
    cannot read.
    """
    scheme = default_scheme(labels)
    found: dict[str, Title] = {}
    repeated = cut = 0
    unknown: list[str] = []
    for line in text.splitlines():
        written, _, label = line.rpartition("\t") if "\t" in line else (line, "", "")
        shown = plain_text(written).strip()
        if not shown:
            continue
        cut += len(shown) > MOST_CHARACTERS
        shown = shown[:MOST_CHARACTERS]
        repeated += shown in found
        title = _labelled(shown, label.strip(), scheme)
        if title.label is not None and title.grades is None:
            unknown.append(title.label)
        found.setdefault(shown, title)
    faults = _faults(len(found), repeated, cut, unknown)
    return list(found.values())[:MOST_TITLES], faults


def titles_of(pairs: Iterable[Pair], query: str) -> list[Title]:
    """The first 50 different titles that a file of pairs has for `query`."""
    found = {p.title: Title(p.title, p.label, p.grades) for p in pairs if p.query == query}
    return list(found.values())[:MOST_TITLES]


def default_titles(query: str, title: str, rows: Sequence[Pair], seed: int) -> list[Title]:
    """What to rank before anything is typed: the titles that `rows` have for `query`.

    A query of none gets its own title beside others' titles, drawn by `seed`.
    """
    known = titles_of(rows, query)
    if known:
        return known if title in {one.text for one in known} else [Title(title), *known]
    others = spread_over_queries(rows, OTHERS, seed) if rows else []
    return [Title(title), *(Title(pair.title) for pair in others if pair.title != title)]


def queries_of(pairs: Iterable[Pair]) -> list[str]:
    """The queries that have two different titles at least, in file order."""
    titles: dict[str, set[str]] = {}
    for pair in pairs:
        titles.setdefault(pair.query, set()).add(pair.title)
    return [query for query, found in titles.items() if len(found) > 1]


def written(titles: Sequence[Title]) -> str:
    """Titles as `typed_titles` reads them."""
    return "\n".join(f"{one.text}\t{one.label}" if one.label else one.text for one in titles)


def _labelled(text: str, label: str, scheme: LabelScheme) -> Title:
    if not label:
        return Title(text)
    try:
        return Title(text, label[:20], scheme.grades_of(label))
    except ValueError:
        return Title(text, label[:20])


def _faults(titles: int, repeated: int, cut: int, unknown: Sequence[str]) -> list[Text]:
    faults = []
    if titles > MOST_TITLES:
        left = titles - MOST_TITLES
        faults.append(
            Text(
                f"只取前 {MOST_TITLES} 条标题，其余 {left:,} 条没有用。",
                f"The first {MOST_TITLES} titles are taken; {left:,} more are left out.",
            )
        )
    if repeated:
        faults.append(
            Text(f"重复的标题只取一次（{repeated:,} 行）。", f"{repeated:,} lines repeat a title.")
        )
    if cut:
        faults.append(
            Text(
                f"{cut:,} 条标题超过 {MOST_CHARACTERS} 个字，只取开头。",
                f"{cut:,} titles are longer than {MOST_CHARACTERS} characters and were cut.",
            )
        )
    if unknown:
        shown = "、".join(dict.fromkeys(unknown[:3]))
        faults.append(
            Text(
                f"{len(unknown):,} 个标注这个模型不认识（{shown}），不用于 NDCG。",
                f"This model cannot read {len(unknown):,} of the labels ({shown}): not in NDCG.",
            )
        )
    return faults
