"""The hand-written tables of words behind the rules: tab-separated files, `#` begins a comment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

TEMPLATE_ONLY = "~"
"""Begins the name of a kind whose words mean other things in free text."""

_TITLES_OF_WORKS = frozenset({"novel", "tv", "movie"})
"""Kinds whose members of two characters are everyday words too."""


@cache
def rows(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of the table `name`, split at tabs."""
    text = (files(__package__) / "tables" / f"{name}.tsv").read_text(encoding="utf-8")
    lines = (line for line in text.split("\n") if line and not line.startswith("#"))
    return tuple(tuple(line.split("\t")) for line in lines)


@cache
def words_of_kind() -> Mapping[str, tuple[str, ...]]:
    """Kind of thing → its members, such as `fruit` → 香蕉, 葡萄, …"""
    return {kind: tuple(members.split("|")) for kind, _, members in rows("entities")}


@cache
def name_of_kind() -> Mapping[str, str]:
    """Kind of thing → what people call it, such as `fruit` → 水果."""
    return {kind: name for kind, name, _ in rows("entities")}


@cache
def kinds_of_word() -> Mapping[str, tuple[str, ...]]:
    """Word → every kind it is a member of."""
    kinds: dict[str, tuple[str, ...]] = {}
    for kind, members in words_of_kind().items():
        for word in members:
            kinds[word] = (*kinds.get(word, ()), kind)
    return kinds


@cache
def kind_in_text() -> Mapping[str, str]:
    """Word → its kind, for words that mean one kind of thing wherever they stand."""
    plain = {
        word: [kind for kind in kinds if not kind.startswith(TEMPLATE_ONLY)]
        for word, kinds in kinds_of_word().items()
    }
    return {
        word: kinds[0]
        for word, kinds in plain.items()
        if len(kinds) == 1 and len(word) >= (3 if kinds[0] in _TITLES_OF_WORKS else 2)
    }


class Wording(NamedTuple):
    """Ways to say one thing of members of these kinds."""

    kinds: tuple[str, ...]
    forms: tuple[str, ...]


@cache
def wordings(name: str) -> tuple[Wording, ...]:
    """A table whose rows are kinds, then ways to put a text, alike in meaning."""
    return tuple(Wording(tuple(k.split(",")), tuple(f.split("|"))) for k, f in rows(name))


@cache
def alternatives(*names: str) -> Mapping[str, tuple[str, ...]]:
    """Word → the other words of its rows in these tables."""
    return _grouped((word, [w for w in row if w != word]) for n in names for row in rows(n)
                    for word in row)  # fmt: skip


def _grouped(entries: Iterable[tuple[str, list[str]]]) -> Mapping[str, tuple[str, ...]]:
    grouped: dict[str, list[str]] = defaultdict(list)
    for word, others in entries:
        grouped[word] += others
    return {word: tuple(dict.fromkeys(others)) for word, others in grouped.items()}
