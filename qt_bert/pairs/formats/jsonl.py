"""JSON Lines: one object a line.

A number is taken as the text it is written with, inside nested values too; null, true, lists and
objects are no query and no title. NaN, a repeated key and very deep nesting make a line bad JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from qt_bert.errors import PairFileError
from qt_bert.pairs.columns import Columns
from qt_bert.pairs.formats.opening import Location
from qt_bert.pairs.formats.rows import Head, RawRow
from qt_bert.pairs.formats.source import Lines
from qt_bert.pairs.pair import Reason, Reject

_TEXTS = (
    ("query", Reason.MISSING_QUERY, Reason.QUERY_NOT_TEXT),
    ("title", Reason.MISSING_TITLE, Reason.TITLE_NOT_TEXT),
)
# Only an escape can bring a lone surrogate into decoded text; most such escapes are whole pairs.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLinesFile:
    """JSON objects, one a line, `columns` naming their keys."""

    def __init__(self, source: Lines, columns: Columns) -> None:
        self._source = source
        self._keys = {name: str(key) for name, key in columns.wanted.items()}
        self._known = frozenset(self._keys.values())
        self._required = {self._keys[name] for name in columns.required}

    @property
    def encoding(self) -> str:
        """The file's text encoding."""
        return self._source.encoding

    def find_columns(self) -> Head | None:
        """None: objects name their keys; PairFileError where no object has one that was asked for."""
        sought = _Sought(self._required)
        for item in self._source.lines():
            value = None if isinstance(item, Reject) else _parsed(item[1])
            if isinstance(value, dict):
                sought.see(value)
            if not sought.unseen:
                return None
        sought.refuse_unseen(self._source.path)
        return None

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order, and a reject for each line that is no object with both texts.

        Raises PairFileError at the end where no object had a key that was asked for.
        """
        sought = _Sought(self._required)
        for item in self._source.lines():
            if isinstance(item, Reject):
                yield item
                continue
            line, text = item
            value = _parsed(text)
            if isinstance(value, Reason):
                yield Reject.of(line, value, text)
                continue
            sought.see(value)
            reason = self._refusal(text, value)
            yield Reject.of(line, reason, text) if reason else self._row(line, text, value)
        sought.refuse_unseen(self._source.path)

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


class _Sought:
    """The keys asked for that no object had yet."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.unseen = set(keys)
        self._first: dict[str, Any] | None = None

    def see(self, value: dict[str, Any]) -> None:
        self._first = self._first or value
        self.unseen.difference_update(value)

    def refuse_unseen(self, path: Location) -> None:
        if self.unseen and self._first is not None:
            raise PairFileError(
                f"{path}: no object has the key {sorted(self.unseen)[0]!r}; the first has "
                f"{', '.join(repr(key[:40]) for key in self._first)}; name the key with --columns"
            )


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
