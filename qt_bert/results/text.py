"""Words a reader sees, in Chinese and in English."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """The same statement in both languages."""

    zh: str
    en: str


Label = str | Text
"""A name: bilingual, or one string (a head, a token, a file name) that needs no translation."""


def in_language(label: Label, language: str) -> str:
    """The words of `label` in `language` (`zh` or `en`)."""
    if isinstance(label, str):
        return label
    return label.zh if language == "zh" else label.en
