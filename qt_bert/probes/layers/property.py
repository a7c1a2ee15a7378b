"""The properties that a linear probe is asked to read from a model's vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from qt_bert.text import Text

Unit = Literal["token", "edge", "text"]
"""What has the property: a character, two words that are linked, or a whole pair."""

Level = Literal["surface", "syntax", "semantics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """Something that is known of a token, an edge or a text, whatever any model makes of it.

    `labels`: one of some classes (scored by accuracy), or a number (scored by R²). `level` is where
    the articles place it: low, middle or high layers.
    """

    name: str
    title: Text
    unit: Unit
    labels: Literal["classes", "number"]
    level: Level


def _property(name: str, zh: str, en: str, unit: Unit, level: Level, number: bool) -> Property:
    labels: Literal["classes", "number"] = "number" if number else "classes"
    return Property(name=name, title=Text(zh, en), unit=unit, labels=labels, level=level)


POSITION = _property("position", "位置", "position", "token", "surface", True)
"""How many tokens of the sequence stand before the character."""
BOUNDARY = _property("boundary", "词的边界", "word boundary", "token", "syntax", False)
"""Whether a word ends behind the character."""
POS = _property("pos", "词性", "part of speech", "token", "syntax", False)
"""The part of speech of the character's word, by jieba's tags."""
UPOS = _property("upos", "词性（树库）", "part of speech (treebank)", "token", "syntax", False)
"""The same by people, of a treebank's words."""
ENTITY = _property("entity", "专名类型", "type of name", "token", "semantics", False)
"""Person, place, organisation, another name, or no name: by jieba's tags."""
MATCHED = _property("matched", "词的匹配", "term matched", "token", "semantics", False)
"""Whether the character's word stands in the other text, too."""
DEPENDENCY = _property("dependency", "依存关系", "dependency", "edge", "syntax", False)
"""The label of the arc between two words of a treebank."""
LENGTH = _property("length", "长度", "length", "text", "surface", True)
"""How many tokens the pair has."""
ORDER = _property("order", "语序", "word order", "text", "syntax", False)
"""Whether the title's characters were shuffled."""
GRADE = _property("grade", "相关性档位", "grade", "text", "semantics", True)
"""What the label says: its grade, or the mean of the grades that it may mean."""

PROPERTIES: Mapping[str, Property] = {
    one.name: one
    for one in (
        POSITION,
        LENGTH,
        BOUNDARY,
        POS,
        UPOS,
        DEPENDENCY,
        ORDER,
        ENTITY,
        MATCHED,
        GRADE,
    )
}
"""All of them by name, from the surface up."""
