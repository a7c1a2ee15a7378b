"""Output tables written window by window, with the input file's columns; a killed run resumes."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from qt_bert.data.formats import format_of
from qt_bert.data.lines import Location, open_bytes
from qt_bert.data.pairs import Json, Pair, Reason
from qt_bert.data.parquet import arrow_column
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.files import atomic_write
from qt_bert.text import spreadsheet_safe

Row = TypeVar("Row")

_FIXED = ("id", "query", "title", "grade")
ABSENT = Json("")
"""The cell of a row without the column; omitted in JSON Lines."""


@dataclass(frozen=True)
class InputColumns:
    """The columns of an input file: whether it has a label, and `extra` columns in order.

    `names` are the file's for id, query, title and grade; `typed`: extra columns have types.
    """

    label: bool
    extra: tuple[str, ...]
    names: tuple[str, ...] = _FIXED
    typed: bool = False

    @classmethod
    def of(cls, pairs: Sequence[Pair], path: Location, options: ReaderOptions) -> InputColumns:
        """The columns of the file at `path`, whose first window is `pairs`."""
        label = any(p.label is not None for p in pairs) or has_grade_column(path, options)
        extra = tuple(dict.fromkeys(name for p in pairs for name in p.extra))
        targets = {} if options.no_header else options.resolve_columns().targets
        names = tuple(str(targets.get(name, name)) for name in _FIXED)
        return cls(label, extra, names, format_of(path) == "parquet")

    @classmethod
    def union(cls, several: Iterable[InputColumns]) -> InputColumns:
        """The columns of several files: a label if any has one, extra columns in order of appearance,
        typed only if all files have the same."""
        files = list(several)
        extra = dict.fromkeys(name for file in files for name in file.extra)
        names = files[0].names if files else _FIXED
        typed = all(file.typed and file.extra == files[0].extra for file in files)
        return cls(any(file.label for file in files), tuple(extra), names, typed)

    def table(
        self, pairs: Sequence[Pair], outputs: dict[str, list[Any]], where: str
    ) -> dict[str, list[Any]]:
        """One window of the output: id, query, title, label and the file's other columns, under their
        names in the file, then `outputs`.

        A column whose name is taken is called `input_` + name. Raises PairFileError, beginning with
        `where`, for a row with a column that the first window lacks.
        """
        known = set(self.extra)
        for pair in pairs:
            late = next((name for name in pair.extra if name not in known), None)
            if pair.label is not None and not self.label:
                late = "grade"
            if late is not None:
                raise PairFileError(
                    f"{where}, line {pair.line}: the column {late!r} is not in the first rows, "
                    "which name the columns of the output; give every row the same columns"
                )
        fixed = ("id", "query", "title", "label") if self.label else ("id", "query", "title")
        columns = [
            (shown, [getattr(p, name) or "" for p in pairs])
            for name, shown in zip(fixed, self.names, strict=False)
        ]
        columns += [(name, [p.extra.get(name, ABSENT) for p in pairs]) for name in self.extra]
        names = input_names([shown for shown, _ in columns], outputs)
        return dict(zip(names, (cells for _, cells in columns), strict=True)) | outputs


def input_names(columns: Iterable[str], outputs: Container[str]) -> list[str]:
    """The names of an input's columns beside `outputs`: one that is taken is called `input_` + name."""
    names: list[str] = []
    for name in columns:
        while name in outputs or name in names:
            name = f"input_{name}"
        names.append(name)
    return names


def table_beside(
    pairs: Sequence[Pair],
    added: dict[str, list[Any]],
    rows: Sequence[int],
    path: Path,
    reader: ReaderOptions,
) -> dict[str, list[Any]]:
    """Some `rows` of the `pairs` of a file, in that order, with the file's columns, then those `added` [pairs]."""
    columns = InputColumns.of(pairs, path, reader).table(pairs, added, str(path))
    return {name: [cells[row] for row in rows] for name, cells in columns.items()}


def has_grade_column(path: Location, options: ReaderOptions) -> bool:
    """Whether a TSV, CSV or Parquet file has the column, even if empty; False for JSON Lines."""
    try:
        reader = options.open(path, grade_required=True)
    except PairFileError:  # Parquet checks columns when opened
        return False
    if reader.format == "jsonl":
        return False
    try:
        return next(iter(reader), None) is not None
    except PairFileError:  # no column, or only rows without a grade
        return any(reader.reasons[r] for r in (Reason.MISSING_GRADE, Reason.BAD_GRADE))


def count_rows(path: Path) -> int | None:
    """Lines of a text file, header included, or rows of Parquet; None for an unreadable file."""
    try:
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq

            return int(pq.read_metadata(path).num_rows)
        with open_bytes(path) as handle:
            return sum(block.count(b"\n") for block in iter(lambda: handle.read(1 << 20), b""))
    except (OSError, PairFileError):
        return None


def windows(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """`rows` in lists of `size`, the last shorter."""
    stream = iter(rows)
    while window := list(islice(stream, size)):
        yield window


Columns = Mapping[str, Sequence[Any]]
FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".xz": lzma.compress,
}


def growing_table(path: Path, option: str = "--out", encoding: str = "utf-8") -> GrowingTable:
    """A table in the format of `path`'s suffix, written window by window; TSV and CSV in `encoding`.

    `append` writes a window to `hidden` and returns the mark after it; `rewind`, which comes first, drops
    what follows a mark (0: everything). `finish` moves the table to `path`, `clear` removes `hidden`.

    Raises ArgumentError, naming `option`, for an unknown suffix.
    """
    suffixes = path.suffixes[-2:]
    packing = suffixes[-1] if suffixes and suffixes[-1] in (".gz", ".xz") else ""
    kind = Path(path.name.removesuffix(packing)).suffix
    if kind == ".parquet" and not packing:
        return _ParquetTable(path)
    if kind not in FORMATS[:-1]:
        raise ArgumentError(
            f"{option} {path}: unknown format; end the name in {', '.join(FORMATS)} "
            "(the text formats also with .gz or .xz)"
        )
    return _TextTable(
        path, _LINES[kind], _COMPRESS[packing], "utf-8" if kind == ".jsonl" else encoding
    )


class _TextTable:
    """Windows appended to a hidden file, each compressed separately."""

    def __init__(
        self,
        path: Path,
        lines: Callable[[Columns, bool], str],
        compress: Callable[[bytes], bytes],
        encoding: str,
    ) -> None:
        self.path, self.lines, self.compress, self.encoding = path, lines, compress, encoding
        self.hidden = path.with_name(f".{path.name}.partial")
        self.mark = 0

    def append(self, columns: Columns) -> int:
        encoding = self.encoding.removesuffix("-sig") if self.mark else self.encoding
        data = self.compress(self.lines(columns, self.mark == 0).encode(encoding))
        with open(self.hidden, "ab") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        self.mark += len(data)
        return self.mark

    def rewind(self, mark: int) -> None:
        self.hidden.parent.mkdir(parents=True, exist_ok=True)
        with open(self.hidden, "ab") as handle:
            if handle.tell() < mark:
                raise RunFolderError(
                    f"{self.hidden}: shorter than the run says; start anew with --overwrite"
                )
            handle.truncate(mark)
        self.mark = mark

    def finish(self) -> None:
        os.replace(self.hidden, self.path)

    def clear(self) -> None:
        self.hidden.unlink(missing_ok=True)


class _ParquetTable:
    """One hidden file a window, merged at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hidden = path.with_name(f".{path.name}.parts")
        self.mark = 0

    def append(self, columns: Columns) -> int:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with atomic_write(self._part(self.mark)) as temporary:
            pq.write_table(pa.table({k: _arrow(v) for k, v in columns.items()}), temporary)
        self.mark += 1
        return self.mark

    def rewind(self, mark: int) -> None:
        self.hidden.mkdir(parents=True, exist_ok=True)
        for part in self.hidden.glob("*.parquet"):
            if int(part.stem) >= mark:
                part.unlink()
        self.mark = mark

    def finish(self) -> None:
        import pyarrow.parquet as pq

        schema = pq.read_schema(self._part(0))
        with atomic_write(self.path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
            for number in range(self.mark):
                writer.write_table(pq.read_table(self._part(number)))

    def clear(self) -> None:
        if self.hidden.exists():
            shutil.rmtree(self.hidden)

    def _part(self, number: int) -> Path:
        return self.hidden / f"{number:06}.parquet"


GrowingTable = _TextTable | _ParquetTable


def _arrow(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    if values and all(isinstance(v, float | np.floating) for v in values):
        is_double = isinstance(values[0], float)  # of NumPy's, float64 alone is
        return pa.array(np.asarray(values, np.float64 if is_double else np.float32))
    return arrow_column([v if isinstance(v, str) else str(v) for v in values])


def _text(value: Any) -> str:
    """A cell; nine significant digits represent a float32 exactly."""
    return f"{value:.9g}" if isinstance(value, float | np.floating) else str(value)


def _one_line(text: str) -> str:
    """`text` with spaces for tabs and line breaks."""
    return text.translate({9: " ", 10: " ", 13: " "})


_SIGNED = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def _csv(columns: Columns, header: bool) -> str:
    """CSV for spreadsheets: texts but numbers are `spreadsheet_safe`; line breaks stay."""
    safe = {
        name: [
            spreadsheet_safe(v) if isinstance(v, str) and not _SIGNED.fullmatch(v) else v
            for v in values
        ]
        for name, values in columns.items()
    }
    quoted = str.maketrans({'"': '""'})

    def cell(text: str) -> str:
        return f'"{text.translate(quoted)}"' if any(mark in text for mark in ',"\r\n') else text

    return _rows(safe, header, ",", cell)


def _rows(
    columns: Columns,
    header: bool,
    separator: str = "\t",
    cell: Callable[[str], str] = _one_line,
) -> str:
    lines = [separator.join(map(cell, columns))] if header else []
    lines += [
        separator.join(cell(_text(value)) for value in row)
        for row in zip(*columns.values(), strict=True)
    ]
    return "".join(line + "\n" for line in lines)


def _jsonl(columns: Columns, header: bool) -> str:
    names = [json.dumps(name, ensure_ascii=False) for name in columns]
    rows = (zip(names, row, strict=True) for row in zip(*columns.values(), strict=True))
    lines = (
        ", ".join(f"{name}: {_literal(value)}" for name, value in row if value is not ABSENT)
        for row in rows
    )
    return "".join(f"{{{line}}}\n" for line in lines)


def _literal(value: Any) -> str:
    """A value as JSON: `Json` as in its file, float32 with nine digits."""
    if isinstance(value, Json):
        return value.literal
    plain = float(f"{value:.9g}") if isinstance(value, np.floating) else value
    return json.dumps(plain, ensure_ascii=False)


_LINES = {".tsv": _rows, ".csv": _csv, ".jsonl": _jsonl}
