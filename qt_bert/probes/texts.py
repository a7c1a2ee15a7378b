"""A probe's declarations and texts: `NAME.toml` beside `NAME.py`, in Chinese and in English.

The file declares the probe (order, inputs), its claims (side, margin, unit), and every text of claims,
measurements and figures by id. Fields in braces such as `{head}` or `{accuracy:.1%}` are filled from the facts
and values of a result. Code chooses ids, never words.
"""

from __future__ import annotations

import math
import re
import string
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError
from qt_bert.text import Label, Text

FOLDERS = [Path(__file__).parent]
"""Folders of TOML files; the first one with a name counts."""
COMMON = "common_texts"
"""Texts of all probes: units, reasons, verdicts."""
UNKNOWN = "–"


class Texts:
    """The declarations and texts of one probe. Paths are keys joined by dots: `claims.five.margin`."""

    def __init__(self, name: str) -> None:
        path = _path(name)
        if path is None:
            raise ArgumentError(f"there is no probe {name!r}: {name}.toml is missing")
        self._table = tomllib.loads(path.read_text(encoding="utf-8"))
        self.name = name

    def ids(self, path: str) -> tuple[str, ...]:
        """The keys of a table; empty without the table."""
        table = self._get(path)
        return tuple(table) if isinstance(table, Mapping) else ()

    def value(self, path: str, default: Any = None) -> Any:
        """A declared value that is no text: a number, a list, an id."""
        value = self._get(path)
        return default if value is None else value

    def text(self, path: str, facts: Mapping[str, Any] | None = None) -> Text:
        """The text at `path` in both languages, its fields filled from `facts`.

        Raises ArgumentError for a missing text or language, and for a field without a fact.
        """
        texts = self._get(path)
        if not isinstance(texts, Mapping) or not {"zh", "en"} <= set(texts):
            raise ArgumentError(f"{self.name}.toml: {path} needs both languages, zh and en")
        return Text(*(self._filled(texts[lang], path, lang, facts or {}) for lang in ("zh", "en")))

    def text_or(self, path: str, facts: Mapping[str, Any]) -> Text | None:
        """The text at `path`, or None."""
        return self.text(path, facts) if self._get(path) is not None else None

    def label(self, path: str, default: str = "") -> Label:
        """A text, or one string that needs no translation."""
        value = self.value(path, default)
        return value if isinstance(value, str) else self.text(path)

    def _get(self, path: str) -> Any:
        value: Any = self._table
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def _filled(self, template: str, path: str, language: str, facts: Mapping[str, Any]) -> str:
        try:
            return _Fill(self, language).vformat(template, (), facts)
        except (KeyError, IndexError, ValueError) as error:
            raise ArgumentError(
                f"{self.name}.toml: {path}.{language}: no value for {error}"
            ) from error


class _Fill(string.Formatter):
    """Fills fields by name: an unknown number is a dash, an id under `words` its text."""

    def __init__(self, texts: Texts, language: str) -> None:
        self._texts, self._language = texts, language

    def format_field(self, value: Any, spec: str) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return UNKNOWN
        if isinstance(value, Text):
            value = getattr(value, self._language)
        elif isinstance(value, Mapping):  # a stored Text
            value = value[self._language]
        elif isinstance(value, str) and value in self._texts.ids("words"):
            value = getattr(self._texts.text(f"words.{value}"), self._language)
        written = str(format(value, spec))
        if not isinstance(value, float):
            return written
        if not re.search("[1-9]", written):
            written = written.replace("-", "")  # 0 has no sign
        return written.replace("-", "−")


@cache
def texts_of(name: str) -> Texts:
    """The texts of the probe `name`. Raises ArgumentError without a TOML file."""
    return Texts(name)


def declared() -> list[str]:
    """The names of all TOML files."""
    return sorted(path.stem for folder in FOLDERS for path in folder.glob("*.toml"))


def _path(name: str) -> Path | None:
    paths = (folder / f"{name}.toml" for folder in FOLDERS)
    return next((path for path in paths if path.is_file()), None)


def has_texts(name: str) -> bool:
    """Whether there is a `NAME.toml` of a probe, or of the plan's claim (without an `order`)."""
    return name != COMMON and _path(name) is not None


def unit(name: str) -> Label:
    """The unit `name` in words, or `name` itself."""
    return texts_of(COMMON).label(f"units.{name}", name)
