"""Names and descriptions of named sets of heads, from `head_sets.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from qt_bert.text import Text

_TEXTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)


class SetWords(NamedTuple):
    """A set's name, and one sentence on its heads."""

    name: Text
    does: Text


def _words(entry: dict[str, dict[str, str]]) -> SetWords:
    return SetWords(Text(**entry["name"]), Text(**entry["does"]))


def _looks_at(kind: Text, tagged: Text) -> SetWords:
    """The set of heads that attend to a kind of words, and the tagger of these words."""

    def filled(text: Text) -> Text:
        zh = text.zh.format(kind=kind.zh, tagged=tagged.zh)
        return Text(zh, text.en.format(kind=kind.en, tagged=tagged.en))

    return SetWords(*map(filled, _words(_TEXTS["looks_at"])))


PHENOMENA = {name: Text(**words) for name, words in _TEXTS["phenomena"].items()}
SETS = {name: _words(entry) for name, entry in _TEXTS["sets"].items()} | {
    f"{kind}_{where}": _looks_at(Text(**name), Text(**tagged))
    for kind, name in _TEXTS["kinds"].items()
    for where, tagged in _TEXTS["tagged"].items()
}
"""By name in result files, in display order."""


def phenomenon_name(name: str) -> Text:
    """The name of a phenomenon; one from a user's file keeps its name there."""
    return PHENOMENA.get(name, Text(name, name))


def set_words(name: str) -> SetWords:
    """Name and description of a set; an unknown one keeps its name in the file."""
    return SETS.get(name, SetWords(Text(name, name), Text("", "")))


Named = TypeVar("Named")


def reader_of(sets: Mapping[str, Sequence[Named]]) -> Named | None:
    """The reader, where it is named: its [CLS] favours the terms that both texts share."""
    focused = sets.get("focused", ())
    return next((head for head in sets.get("reader", ()) if head in focused), None)
