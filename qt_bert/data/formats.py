"""File formats by suffix: TSV, CSV and JSON Lines, plain or .gz/.xz, and Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from qt_bert.data.columns import Columns, Placement
from qt_bert.data.encodings import UTF8_BOM
from qt_bert.data.lines import (
    MAX_LINE_BYTES,
    NO_EXTRA,
    PACKED_SUFFIXES,
    Head,
    Joined,
    Lines,
    Location,
    RawRow,
    TextSource,
)
from qt_bert.data.pairs import Json, Reason, Reject
from qt_bert.data.parquet import ParquetFile
from qt_bert.data.quoting import csv_rows, split_quoted
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.progress import tell

# Rows of TSV and CSV: fields by position.


class DelimitedFile:
    """A line of TSV cut at tabs; a row of CSV, which may span lines, at commas outside quotes.

    Quotes in TSV are text, unless the first lines look as a CSV writer leaves them (`quotes_tsv`):
    that is printed once, and so is a field that only looks so. The header, or without one the first
    row, says how many fields a row has.
    """

    def __init__(self, source: Lines, columns: Columns, separator: str) -> None:
        self._source = source
        self._columns = columns
        self._separator = separator
        self.joined: Joined = csv_rows if separator == "," else iter

    @property
    def quoted(self) -> bool:
        """Whether fields may stand in quotes."""
        return self._separator == "," or self._source.quoted

    def _splitter(self) -> Callable[[str], list[str] | None]:
        if not self.quoted:
            return lambda text: text.split("\t")
        if self._separator == "\t":
            tell(
                f"{self._source.path}: fields stand in quotes, as spreadsheets and pandas write TSV; they "
                "are read without the quotes"
            )
            return partial(split_quoted, separator="\t")
        return split_quoted

    @property
    def encoding(self) -> str:
        """The file's text encoding."""
        return self._source.encoding

    def find_columns(self) -> Head | None:
        """The header or, without one, as many empty fields as the first row has; None without both.

        Raises PairFileError where a column that was asked for is missing.
        """
        split = self._splitter()
        for item in self._source.lines(self.joined):
            if isinstance(item, Reject):
                self._refuse_as_header(item)
                continue
            line, text = item
            width = self._placement(line, split(text)).width
            if self._columns.header:
                return Head(line + text.count("\n"), text)
            return Head(0, self._separator * (width - 1))
        return None

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order, and a reject where the fields are too few or too many."""
        placement: Placement | None = None
        split, plain = self._splitter(), not self.quoted
        for item in self._source.lines(self.joined):
            if isinstance(item, Reject):
                if placement is None:
                    self._refuse_as_header(item)
                yield item
                continue
            line, text = item
            fields = split(text)
            if placement is None:
                placement = self._placement(line, fields)
                if self._columns.header:
                    continue
            if plain and '""' in text and any(map(_LOOKS_QUOTED.fullmatch, text.split("\t"))):
                plain = False
                tell(
                    f"warning: {self._source.path}: line {line}: a field looks quoted as CSV is, but other "
                    "fields do not; quotes are read as text"
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
        names = [f"column_{i}" for i in range(1, len(fields) + 1)]
        if self._columns.header:
            names = [field.strip() or name for field, name in zip(fields, names, strict=True)]
        try:
            return self._columns.place(names, where)
        except PairFileError as error:
            other = next((name for mark, name in _SEPARATORS.items() if mark in fields[0]), None)
            if len(fields) > 1 or other is None:
                raise
            raise PairFileError(
                f"{error}; its fields seem to stand between {other}, but .tsv and .txt have tabs and .csv "
                "commas: rename the file, or save it so"
            ) from error


_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons"}
_LOOKS_QUOTED = re.compile(r'"(?:[^"]++|"")*+""(?:[^"]++|"")*+"')


def _row(line: int, text: str, fields: list[str] | None, place: Placement) -> RawRow | Reject:
    if fields is None:
        return Reject.of(line, Reason.UNCLOSED_QUOTE, text)
    if len(fields) != place.width:
        few = len(fields) < place.width
        return Reject.of(line, Reason.TOO_FEW_FIELDS if few else Reason.TOO_MANY_FIELDS, text)
    return RawRow(
        line,
        fields[place.query],
        fields[place.title],
        None if place.grade is None else fields[place.grade],
        None if place.id is None else fields[place.id],
        {name: fields[i] for name, i in place.extra} if place.extra else NO_EXTRA,
        text,
    )


# JSON Lines: one object a line, or the objects of one array.
#
# A number is taken as the text it is written with, inside nested values too; null, true, lists and
# objects are no query and no title. A repeated key and very deep nesting make a line bad JSON.


_TEXTS = (
    ("query", Reason.MISSING_QUERY, Reason.QUERY_NOT_TEXT, Reason.QUERY_NAN),
    ("title", Reason.MISSING_TITLE, Reason.TITLE_NOT_TEXT, Reason.TITLE_NAN),
)
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_LISTS = ("pos", "neg")
_OF_LISTS = frozenset((*_LISTS, "pos_scores", "neg_scores"))
# Only an escape can bring a lone surrogate into decoded text; most such escapes are whole pairs.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLinesFile:
    """JSON objects, one a line, `columns` naming their keys.

    An object with lists of titles, `pos` and `neg`, in place of a title is a row a title, whose label
    is the name of the list.
    """

    quoted = False

    def __init__(self, source: Lines, columns: Columns) -> None:
        self._source = source
        self.joined: Joined = partial(json_rows, source.path)
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
        for item in self._items():
            value = None if isinstance(item, Reject) else _parsed(item[1])
            if isinstance(value, dict):
                sought.see(value | self._of_lists("pos", None) if self._has_lists(value) else value)
            if not sought.unseen:
                return None
        sought.refuse_unseen(self._source.path)
        return None

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order, and a reject for each line that is no object with both texts.

        Raises PairFileError at the end where no object had a key that was asked for.
        """
        sought, title = _Sought(self._required), self._keys["title"]
        for item in self._items():
            if isinstance(item, Reject):
                yield item
                continue
            line, text = item
            value = _parsed(text)
            if isinstance(value, Reason):
                yield Reject.of(line, value, text)
            elif title not in value and self._has_lists(value):
                sought.see(value | self._of_lists("pos", None))
                yield from self._spread(line, text, value)
            else:
                sought.see(value)
                yield self._row(line, text, value)
        sought.refuse_unseen(self._source.path)

    def _items(self) -> Iterator[tuple[int, str] | Reject]:
        items = self._source.lines(self.joined)
        for item in items:
            if not isinstance(item, Reject) and item[0] == 1 and _ARRAY.match(item[1]):
                return _elements(self._source.path, item[1])
            return chain((item,), items)
        return items

    def _has_lists(self, value: dict[str, Any]) -> bool:
        return self._keys["title"] not in value and ("pos" in value or "neg" in value)

    def _of_lists(self, label: str, title: Any) -> dict[str, Any]:
        """What a title of a list adds to its object."""
        own = {"title": title, "grade": label}
        return {self._keys[name]: one for name, one in own.items() if name in self._keys}

    def _spread(self, line: int, text: str, value: dict[str, Any]) -> Iterator[RawRow | Reject]:
        kept = {key: field for key, field in value.items() if key not in _OF_LISTS}
        if not any(value.get(label, []) != [] for label in _LISTS):
            yield Reject.of(line, Reason.MISSING_TITLE, text)
        for label in _LISTS:
            titles = value.get(label, [])
            if not isinstance(titles, list):
                yield Reject.of(line, Reason.NOT_A_LIST, text)
                continue
            for number, title in enumerate(titles, start=1):
                row = self._row(line, text, kept | self._of_lists(label, title))
                if isinstance(row, RawRow):
                    row = row._replace(id=f"{row.id or line}:{label}{number}")
                yield row

    def _refusal(self, text: str, value: dict[str, Any]) -> Reason | None:
        for name, missing, not_text, no_number in _TEXTS:
            if self._keys[name] not in value:
                return missing
            said = value[self._keys[name]]
            if not isinstance(said, str):
                return not_text
            if isinstance(said, Json) and said in _NO_NUMBERS:
                return no_number
        if _SURROGATE_ESCAPE.search(text) and _SURROGATE.search(_as_json(value)):
            return Reason.SURROGATE
        return None

    def _row(self, line: int, text: str, value: dict[str, Any]) -> RawRow | Reject:
        if reason := self._refusal(text, value):
            return Reject.of(line, reason, text)
        return RawRow(
            line,
            query=value[self._keys["query"]],
            title=value[self._keys["title"]],
            grade=self._optional("grade", value),
            id=self._optional("id", value),
            extra={
                key: field if isinstance(field, str) else _as_json(field)
                for key, field in value.items()
                if key not in self._known
            },
            text=text,
        )

    def _optional(self, name: str, value: dict[str, Any]) -> str | None:
        field = value.get(self._keys[name]) if name in self._keys else None
        return field if field is None or isinstance(field, str) else _as_json(field)


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


def _as_json(value: Any) -> Json:
    if value is None or isinstance(value, Json):
        return Json(value or "")
    if isinstance(value, list):
        return Json(f"[{', '.join(_as_json(one).literal for one in value)}]")
    if isinstance(value, dict):
        inner = (f"{_as_json(key)}: {_as_json(one).literal}" for key, one in value.items())
        return Json(f"{{{', '.join(inner)}}}")
    return Json(json.dumps(value, ensure_ascii=False))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Json, parse_int=Json, parse_constant=Json
)


# A file that is one array of objects: its lines are one row, so that no part of the file cuts it.


_ARRAY = re.compile(r"\s*\[\s*(?:\{|\Z)")
_BEHIND_ELEMENT = re.compile(r"\s*(?:,\s*|(\]\s*\Z))")
_SCANNER = json.JSONDecoder(parse_float=str, parse_int=str)


def json_rows(path: Location, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Numbered lines with their ends; all in one where the first begins an array of objects.

    Raises PairFileError, naming `path`, where these are more than 64 MiB.
    """
    source = iter(lines)
    for number, raw in source:
        if number == 1 and _ARRAY.match(raw.removeprefix(UTF8_BOM).decode("latin-1")):
            whole = bytearray(raw)
            for _, more in source:
                whole += more
                if len(whole) > MAX_LINE_BYTES:
                    raise PairFileError(
                        f"{path}: one JSON array of more than {MAX_LINE_BYTES >> 20} MiB; `jq -c '.[]'` "
                        "makes JSON Lines of it"
                    )
            raw = bytes(whole)
        yield number, raw
        yield from source


def _elements(path: Location, text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each element of an array; PairFileError where it breaks off."""
    at = text.index("{")
    line, last = 1 + text.count("\n", 0, at), False
    while not last:
        try:
            end = _SCANNER.raw_decode(text, at)[1]
        except (ValueError, RecursionError):
            end = len(text)
        if not (behind := _BEHIND_ELEMENT.match(text, end)):
            raise PairFileError(
                f"{path}: line {line}: the JSON array breaks off here; make it again"
            )
        yield line, text[at:end]
        line += text.count("\n", at, behind.end())
        at, last = behind.end(), bool(behind[1])


# File formats by suffix: .tsv .txt .csv .jsonl .ndjson .json, plain or .gz/.xz, and .parquet.


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
"""One open file of pairs, or a part of one: its `encoding`; `find_columns`, which looks for the
columns asked for, raises PairFileError without them, and gives what a part of the file needs to be
read alone; `rows`, in file order, with the reject of each row that cannot be one. Of text also
`joined`, which makes rows of lines, and `quoted`."""

_TEXT_FORMATS: dict[str, Callable[[Lines, Columns], PairFormat]] = {
    "tsv": lambda source, columns: DelimitedFile(source, columns, "\t"),
    "csv": lambda source, columns: DelimitedFile(source, columns, ","),
    "jsonl": JsonLinesFile,
}


def format_of(path: Location) -> str:
    """`tsv`, `csv`, `jsonl` or `parquet`; PairFileError naming the suffixes for any other."""
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
    """Open a file of pairs in the format its suffix names.

    Raises PairFileError where the file cannot be one, ArgumentError where `columns` do not fit
    the format.
    """
    name = format_of(path)
    if not columns.header and name not in ("tsv", "csv"):
        raise ArgumentError(f"{path}: --no-header is for TSV and CSV; {name} names its columns")
    if name == "jsonl" and any(isinstance(key, int) for key in columns.wanted.values()):
        raise ArgumentError(f"{path}: JSON Lines has keys, not positions; give names")
    if name != "parquet":
        return open_lines(TextSource(path), columns)
    file = ParquetFile(path, columns)
    file.find_columns()
    return file


def open_lines(source: Lines, columns: Columns) -> PairFormat:
    """Lines of a file in the text format that its suffix names."""
    return _TEXT_FORMATS[format_of(source.path)](source, columns)
