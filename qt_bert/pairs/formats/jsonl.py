"""JSON Lines: one object a line.

A number is taken as the text it is written with, inside nested values too; null, true, lists and
objects are no query and no title. NaN, a repeated key and very deep nesting make a line bad JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs.columns import Columns
from qt_bert.pairs.formats.rows import RawRow
from qt_bert.pairs.formats.source import TextSource
from qt_bert.pairs.pair import Reason, Reject

_TEXTS = (
    ("query", Reason.MISSING_QUERY, Reason.QUERY_NOT_TEXT),
    ("title", Reason.MISSING_TITLE, Reason.TITLE_NOT_TEXT),
)
# Only an escape can bring a lone surrogate into decoded text; most such escapes are whole pairs.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLinesFile:
    """A file of JSON objects, one a line, `columns` naming their keys."""

    def __init__(self, path: Path, columns: Columns) -> None:
        if any(isinstance(key, int) for key in columns.wanted.values()):
            raise ArgumentError(f"{path}: JSON Lines has keys, not positions; give names")
        self._source = TextSource(path)
        self._keys = {name: str(key) for name, key in columns.wanted.items()}
        self._known = frozenset(self._keys.values())
        self._required = {self._keys[name] for name in columns.required}

    @property
    def encoding(self) -> str:
        """The file's text encoding."""
        return self._source.encoding

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order, and a reject for each line that is no object with both texts.

        Raises PairFileError at the end where no object had a key that was asked for.
        """
        first: dict[str, Any] | None = None
        unseen = set(self._required)
        for item in self._source.lines():
            if isinstance(item, Reject):
                yield item
                continue
            line, text = item
            value = _parsed(text)
            if isinstance(value, Reason):
                yield Reject.of(line, value, text)
                continue
            first = first or value
            unseen.difference_update(value)
            reason = self._refusal(text, value)
            yield Reject.of(line, reason, text) if reason else self._row(line, text, value)
        if unseen and first is not None:
            raise PairFileError(
                f"{self._source.path}: no object has the key {sorted(unseen)[0]!r}; the first has "
                f"{', '.join(repr(key[:40]) for key in first)}; name the key with --columns"
            )

    def _refusal(self, text: str, value: dict[str, Any]) -> Reason | None:
        for name, missing, not_text in _TEXTS:
            if self._keys[name] not in value:
                return missing
            if not isinstance(value[self._keys[name]], str):
                return not_text
        if _SURROGATE_ESCAPE.search(text) and _SURROGATE.search(_as_json(value)):
            return Reason.SURROGATE
        return None

    def _row(self, line: int, text: str, value: dict[str, Any]) -> RawRow:
        return RawRow(
            line,
            query=value[self._keys["query"]],
            title=value[self._keys["title"]],
            grade=self._optional("grade", value),
            id=self._optional("id", value),
            extra={
                key: _text_of(field) or "" for key, field in value.items() if key not in self._known
            },
            text=text,
        )

    def _optional(self, name: str, value: dict[str, Any]) -> str | None:
        return _text_of(value.get(self._keys[name])) if name in self._keys else None


def _parsed(text: str) -> dict[str, Any] | Reason:
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return Reason.BAD_JSON
    return value if isinstance(value, dict) else Reason.NOT_AN_OBJECT


def _text_of(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return _as_json(value)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=str, parse_int=str, parse_constant=_refuse_constant
)
