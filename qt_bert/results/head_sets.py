"""Named sets of heads in words, from `head_sets.toml`: what they are called, what their heads do."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from qt_bert.text import Text

_TEXTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)


class SetWords(NamedTuple):
    """A set's name, and one sentence on its heads."""

    name: Text
    does: Text


def _words(found: dict[str, dict[str, str]]) -> SetWords:
    return SetWords(Text(**found["name"]), Text(**found["does"]))


def _looks_at(kind: Text, tagged: Text) -> SetWords:
    """The set of the heads that look at a kind of words, by whose tags."""
    name, does = _words(_TEXTS["looks_at"])
    zh, en = {"kind": kind.zh, "tagged": tagged.zh}, {"kind": kind.en, "tagged": tagged.en}
    return SetWords(
        Text(name.zh.format(**zh), name.en.format(**en)),
        Text(does.zh.format(**zh), does.en.format(**en)),
    )


PHENOMENA = {name: Text(**one) for name, one in _TEXTS["phenomena"].items()}
_BEHAVIOURS = {way: _words(one) for way, one in _TEXTS["behaviours"].items()}
SETS = {name: _words(one) for name, one in _TEXTS["sets"].items()} | {
    f"{kind}_{where}": _looks_at(Text(**name), Text(**tagged))
    for kind, name in _TEXTS["kinds"].items()
    for where, tagged in _TEXTS["tagged"].items()
}
"""By their names in result files, in the order in which they are offered."""


def phenomenon_name(name: str) -> Text:
    """What a phenomenon is called; one of a file of one's own goes by its name there."""
    return PHENOMENA.get(name, Text(name, name))


def set_words(name: str) -> SetWords:
    """The words for a set; one without words is called by its name in the file."""
    way, _, phenomenon = name.partition("_")
    if way in _BEHAVIOURS and phenomenon:
        begins, does = _BEHAVIOURS[way]
        about = phenomenon_name(phenomenon)
        return SetWords(Text(f"{begins.zh}：{about.zh}", f"{begins.en}: {about.en}"), does)
    return SETS.get(name, SetWords(Text(name, name), Text("", "")))
