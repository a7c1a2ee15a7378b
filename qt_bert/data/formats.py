"""File formats by suffix: TSV, CSV and JSON Lines, plain or .gz/.xz, and Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from qt_bert.data.columns import Columns, Placement, join_fields
from qt_bert.data.lines import (
    NO_EXTRA,
    PACKED_SUFFIXES,
    Header,
    LineJoiner,
    Lines,
    Location,
    RawRow,
    TextSource,
)
from qt_bert.data.pairs import Json, Reason, Reject
from qt_bert.data.parquet import ParquetFile
from qt_bert.data.quoting import csv_rows, split_csv
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.progress import note_once


class DelimitedFile:
    """TSV: a row a line, quotes are text (with one warning where a field looks quoted as in CSV).
    CSV: a quoted field may hold commas and line breaks.

    The header, or without one the first row, sets the number of fields.
    """

    def __init__(self, source: Lines, columns: Columns, separator: str) -> None:
        self._source = source
        self._columns = columns
        self._separator = separator
        self.join_lines: LineJoiner = csv_rows if separator == "," else iter

    def _split(self, text: str) -> list[str] | None:
        return text.split("\t") if self._separator == "\t" else split_csv(text)

    @property
    def encoding(self) -> str:
        """The file's text encoding."""
        return self._source.encoding

    def find_columns(self) -> Header | None:
        """The header or, without one, as many empty fields as the first row has; None without rows.

        Raises PairFileError for a missing column.
        """
        for item in self._source.lines(self.join_lines):
            if isinstance(item, Reject):
                self._refuse_as_header(item)
                continue
            line, text = item
            width = self._placement(line, self._split(text)).width
            if self._columns.header:
                return Header(line + text.count("\n"), text)
            return Header(0, self._separator * (width - 1))
        return None

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order; a reject for too few or too many fields."""
        placement: Placement | None = None
        header: str | None = None
        plain = self._separator == "\t"
        for item in self._source.lines(self.join_lines):
            if isinstance(item, Reject):
                if placement is None:
                    self._refuse_as_header(item)
                yield item
                continue
            line, text = item
            fields = self._split(text)
            if placement is None:
                placement = self._placement(line, fields)
                if self._columns.header:
                    header = text
                    continue
            if text.removeprefix("\ufeff") == header:  # two files were concatenated
                yield Reject.of(line, Reason.HEADER, text)
                continue
            if plain and '"' in text and _LOOKS_QUOTED.search(text):
                plain = False
                note_once(
                    f"warning: {self._source.path}: line {line}: a field looks quoted as in CSV; quotes in TSV "
                    "are read as text: save the file as .csv, or without quotes, if they are not"
                )
            yield _row(line, text, fields, placement)

    def _refuse_as_header(self, reject: Reject) -> None:
        if self._columns.header:
            where = f"{self._source.path}: line {reject.line}"
            raise PairFileError(f"{where}: the header is neither UTF-8 nor GB18030 text")

    def _placement(self, line: int, fields: Sequence[str] | None) -> Placement:
        where = f"{self._source.path}: line {line}"
        if fields is None:
            raise PairFileError(f"{where}: the quote of a field is never closed")
        if not self._columns.header:
            return self._columns.place([f"column_{i}" for i in range(1, len(fields) + 1)], where)
        names = [name.strip() or f"column_{i}" for i, name in enumerate(fields, start=1)]
        return self._columns.place(names, where)


# CSV writers double the quotes inside a field; a field without any may just be quoted text.
_LOOKS_QUOTED = re.compile(r'(?:^|\t)"[^"\t]*+(?:""[^"\t]*+)++"(?:\t|\Z)')


def _row(line: int, text: str, fields: list[str] | None, place: Placement) -> RawRow | Reject:
    if fields is None:
        return Reject.of(line, Reason.UNCLOSED_QUOTE, text)
    if len(fields) != place.width:
        few = len(fields) < place.width
        return Reject.of(line, Reason.TOO_FEW_FIELDS if few else Reason.TOO_MANY_FIELDS, text)
    return RawRow(
        line,
        fields[place.query],
        place.title_of(fields),
        None if place.grade is None else fields[place.grade],
        None if place.id is None else fields[place.id],
        {name: fields[i] for name, i in place.extra} if place.extra else NO_EXTRA,
        text,
    )


# JSON Lines: one object a line.
#
# A number is read as the text in the file; null, true, NaN, lists and objects are no query and no
# title. A repeated key and very deep nesting make a line bad JSON.


_TEXTS = (
    ("query", Reason.MISSING_QUERY, Reason.QUERY_NOT_TEXT),
    ("title", Reason.MISSING_TITLE, Reason.TITLE_NOT_TEXT),
)
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_LISTS = ("pos", "neg")
# Only an escape can put a lone surrogate into decoded text; most such escapes are whole pairs.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLinesFile:
    """JSON objects, one a line; `columns` names their keys.

    An object with the lists of titles `pos` and `neg` gives one row a title, labelled by the list.
    """

    join_lines: LineJoiner = iter

    def __init__(self, source: Lines, columns: Columns) -> None:
        self._source = source
        self._keys = {name: str(key) for name, key in columns.targets.items()}
        self._titles = list(map(str, columns.title_parts))
        self._keys["title"] = self._titles[0]
        self._known = frozenset(self._keys.values())
        self._required = {
            key
            for name in columns.required
            for key in (self._titles if name == "title" else [self._keys[name]])
        }

    @property
    def encoding(self) -> str:
        """The file's text encoding."""
        return self._source.encoding

    def find_columns(self) -> Header | None:
        """None: objects name their keys. Raises PairFileError for a required key of no object."""
        missing = _MissingKeys(self._required)
        for item in self._source.lines():
            value = None if isinstance(item, Reject) else _parsed(item[1])
            if isinstance(value, dict):
                missing.discard(self._with_keys(value))
            if not missing.keys:
                return None
        missing.refuse(self._source.path)
        return None

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order; a reject for each line that is no object with both texts.

        Raises PairFileError at the end for a required key of no object.
        """
        missing = _MissingKeys(self._required)
        for item in self._source.lines():
            if isinstance(item, Reject):
                yield item
                continue
            line, text = item
            value = _parsed(text)
            if isinstance(value, Reason):
                yield Reject.of(line, value, text)
                continue
            missing.discard(self._with_keys(value))
            if self._has_lists(value):
                yield from self._spread(line, text, value)
            else:
                yield self._row(line, text, value)
        missing.refuse(self._source.path)

    def _has_lists(self, value: dict[str, Any]) -> bool:
        return self._keys["title"] not in value and not value.keys().isdisjoint(_LISTS)

    def _with_keys(self, value: dict[str, Any]) -> dict[str, Any]:
        """An object with `title` and `grade` where it has lists of titles."""
        if not self._has_lists(value):
            return value
        return value | dict.fromkeys(
            self._keys[name] for name in ("title", "grade") if name in self._keys
        )

    def _spread(self, line: int, text: str, value: dict[str, Any]) -> Iterator[RawRow | Reject]:
        lists = {label: value.get(label, []) for label in _LISTS}
        kept = {key: v for key, v in value.items() if key.removesuffix("_scores") not in _LISTS}
        if not all(isinstance(titles, list) for titles in lists.values()):
            yield Reject.of(line, Reason.NOT_A_LIST, text)
        elif not any(lists.values()):
            yield Reject.of(line, Reason.MISSING_TITLE, text)
        else:
            for label, titles in lists.items():
                for number, title in enumerate(titles, start=1):
                    kept[self._keys["title"]] = title
                    if "grade" in self._keys:
                        kept[self._keys["grade"]] = label
                    row = self._row(line, text, kept)
                    if isinstance(row, RawRow):
                        row = row._replace(id=f"{row.id or line}:{label}{number}")
                    yield row

    def _refusal(self, text: str, value: dict[str, Any]) -> Reason | None:
        for name, missing, not_text in _TEXTS:
            if self._keys[name] not in value:
                return missing
            field = value[self._keys[name]]
            if not isinstance(field, str):
                return not_text
            if isinstance(field, Json) and field in _NO_NUMBERS:
                return Reason.NAN
        if not all(isinstance(value.get(key), str | None) for key in self._titles[1:]):
            return Reason.TITLE_NOT_TEXT
        if _SURROGATE_ESCAPE.search(text) and _SURROGATE.search(_written(value)):
            return Reason.SURROGATE
        return None

    def _row(self, line: int, text: str, value: dict[str, Any]) -> RawRow | Reject:
        try:
            if reason := self._refusal(text, value):
                return Reject.of(line, reason, text)
            extra = {
                key: field if isinstance(field, str) else _as_json(field)
                for key, field in value.items()
                if key not in self._known
            }
        except RecursionError:
            return Reject.of(line, Reason.BAD_JSON, text)
        return RawRow(
            line,
            query=value[self._keys["query"]],
            title=join_fields([value.get(key) for key in self._titles]),
            grade=self._optional("grade", value),
            id=self._optional("id", value),
            extra=extra,
            text=text,
        )

    def _optional(self, name: str, value: dict[str, Any]) -> str | None:
        field = value.get(self._keys[name]) if name in self._keys else None
        return None if field is None else _as_json(field)


class _MissingKeys:
    """The required keys that no object had yet."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = set(keys)
        self._first: dict[str, Any] | None = None

    def discard(self, value: dict[str, Any]) -> None:
        self._first = self._first or value
        self.keys.difference_update(value)

    def refuse(self, path: Location) -> None:
        if self.keys and self._first is not None:
            raise PairFileError(
                f"{path}: no object has the key {sorted(self.keys)[0]!r}; the first has "
                f"{', '.join(repr(key[:40]) for key in self._first)}; name the key with --columns"
            )


def _parsed(text: str) -> dict[str, Any] | Reason:
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return Reason.BAD_JSON
    return value if isinstance(value, dict) else Reason.NOT_AN_OBJECT


def _as_json(value: Any) -> str:
    """A value of an object as a cell: a text as it is, others as `Json`."""
    return value if isinstance(value, str) else Json("" if value is None else _written(value))


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_written(key)}: {_written(v)}' for key, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return str(value) if isinstance(value, Json) else json.dumps(value, ensure_ascii=False)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Json, parse_int=Json, parse_constant=Json
)


FORMAT_OF_SUFFIX = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}

PairFormat = DelimitedFile | JsonLinesFile | ParquetFile
"""An open file of pairs, or a part of one: `encoding`; `find_columns`, which raises PairFileError for a
missing column and returns what a part of the file needs to be read alone; `rows`, pairs and rejects in
file order; for text `join_lines`, which makes rows of lines."""

_TEXT_FORMATS: dict[str, Callable[[Lines, Columns], PairFormat]] = {
    "tsv": lambda source, columns: DelimitedFile(source, columns, "\t"),
    "csv": lambda source, columns: DelimitedFile(source, columns, ","),
    "jsonl": JsonLinesFile,
}


def format_of(path: Location) -> str:
    """`tsv`, `csv`, `jsonl` or `parquet`. Raises PairFileError for another suffix."""
    name = Path(path.name)
    packed = name.suffix.lower() in PACKED_SUFFIXES
    suffix = Path(name.stem).suffix.lower() if packed else name.suffix.lower()
    if suffix not in FORMAT_OF_SUFFIX:
        raise PairFileError(
            f"{path}: unknown suffix {suffix!r}; files of pairs end in "
            f"{', '.join(FORMAT_OF_SUFFIX)}, and all but .parquet may go on with .gz or .xz"
        )
    if packed and suffix == ".parquet":
        raise PairFileError(f"{path}: Parquet is compressed inside; unpack the file first")
    return FORMAT_OF_SUFFIX[suffix]


def open_format(path: Location, columns: Columns) -> PairFormat:
    """Open a file of pairs in the format of its suffix.

    Raises PairFileError for an invalid file, ArgumentError where `columns` do not fit the format.
    """
    name = format_of(path)
    if not columns.header and name not in ("tsv", "csv"):
        raise ArgumentError(f"{path}: --no-header is for TSV and CSV; {name} names its columns")
    if name == "jsonl" and any(isinstance(key, int) for key in columns.targets.values()):
        raise ArgumentError(f"{path}: JSON Lines has keys, not positions; give names")
    if name != "parquet":
        source = TextSource(path)
        if name == "jsonl" and re.match(rb"(?:\xef\xbb\xbf)?\s*\[\s*(?:\{|\Z)", source.head):
            raise PairFileError(
                f"{path}: is one JSON array, not an object a line; `jq -c '.[]'` makes JSON Lines of it"
            )
        return open_lines(source, columns)
    file = ParquetFile(path, columns)
    file.find_columns()
    return file


def open_lines(source: Lines, columns: Columns) -> PairFormat:
    """The lines of a file in the text format of its suffix."""
    return _TEXT_FORMATS[format_of(source.path)](source, columns)
