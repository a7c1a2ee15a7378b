"""Words a reader sees, in Chinese and in English."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """The same statement in both languages."""

    zh: str
    en: str


Label = str | Text
"""A name: bilingual, or one string (a head, a token, a file name) that needs no translation."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number of things in English: `1 head`, `12 heads`; `plural` where it is no added s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def joined(sentences: Iterable[Text]) -> Text:
    """Sentences one after the other; empty ones leave no space."""
    said = list(sentences)
    return Text("".join(one.zh for one in said), " ".join(one.en for one in said if one.en))


def in_language(label: Label, language: str) -> str:
    """The words of `label` in `language` (`zh` or `en`)."""
    if isinstance(label, str):
        return label
    return label.zh if language == "zh" else label.en
