"""What a probe says of itself: `NAME.toml` beside `NAME.py`, in Chinese and in English.

The file declares the probe (order, inputs), its claims (side, margin, unit), and every text of claims,
measurements, figures, columns and sets by id. A text may hold fields in braces, as in `{head}` or
`{accuracy:.1%}`: they are filled from the facts and the values of a result. It holds no conditions: code
chooses ids, never words.
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
"""Where TOML files lie; the first that has a name counts."""
COMMON = "common_texts"
"""Texts that all probes share: units, reasons, what a verdict means."""
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
        """The keys of a table; none where there is no such table."""
        found = self._get(path)
        return tuple(found) if isinstance(found, Mapping) else ()

    def value(self, path: str, default: Any = None) -> Any:
        """A declared value that is no text: a number, a list, an id."""
        found = self._get(path)
        return default if found is None else found

    def text(self, path: str, facts: Mapping[str, Any] | None = None) -> Text:
        """The text at `path` in both languages, its fields filled from `facts`.

        Raises ArgumentError where there is no such text, a language is missing, or a field has no fact.
        """
        found = self._get(path)
        if not isinstance(found, Mapping) or not {"zh", "en"} <= set(found):
            raise ArgumentError(f"{self.name}.toml: {path} has not both languages, zh and en")
        return Text(*(self._filled(found[one], path, one, facts or {}) for one in ("zh", "en")))

    def text_or(self, path: str, facts: Mapping[str, Any] | None = None) -> Text | None:
        """The text at `path`, None where the probe has none."""
        return self.text(path, facts) if self._get(path) is not None else None

    def label(self, path: str, default: Label = "") -> Label:
        """A text, or one string that needs no translation."""
        found = self._get(path)
        if found is None or isinstance(found, str):
            return default if found is None else found
        return self.text(path)

    def _get(self, path: str) -> Any:
        found: Any = self._table
        for key in path.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def _filled(self, template: str, path: str, language: str, facts: Mapping[str, Any]) -> str:
        try:
            return _Fill(self, language).vformat(template, (), facts)
        except (KeyError, IndexError, ValueError) as error:
            raise ArgumentError(
                f"{self.name}.toml: {path}.{language}: no value for {error}"
            ) from error


class _Fill(string.Formatter):
    """Fields by name; an unknown number is a dash, and an id with a text under `words` that text."""

    def __init__(self, texts: Texts, language: str) -> None:
        self._texts, self._language = texts, language

    def format_field(self, value: Any, spec: str) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return UNKNOWN
        if isinstance(value, Text):
            value = getattr(value, self._language)
        elif isinstance(value, Mapping):  # a Text that was stored and read again
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
    """The texts of the probe `name`. Raises ArgumentError where it has none."""
    return Texts(name)


def declared() -> list[str]:
    """The names of all TOML files."""
    return sorted(path.stem for folder in FOLDERS for path in folder.glob("*.toml"))


def _path(name: str) -> Path | None:
    paths = (folder / f"{name}.toml" for folder in FOLDERS)
    return next((path for path in paths if path.is_file()), None)


def has_texts(name: str) -> bool:
    """Whether there is a `NAME.toml`: of a probe, or, without an `order`, of the plan's claim."""
    return name != COMMON and _path(name) is not None


def unit(name: str) -> Label:
    """The unit called `name` in words; the name itself where there is nothing to translate."""
    return texts_of(COMMON).label(f"units.{name}", name)
