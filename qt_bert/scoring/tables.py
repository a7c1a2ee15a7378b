"""Tables that grow window by window and survive a kill: TSV, CSV, JSONL (.gz, .xz) and Parquet."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import atomic_write

Columns = Mapping[str, Sequence[Any]]
FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".xz": lzma.compress,
}


class GrowingTable(Protocol):
    """A table written window by window; `mark` is what a resumed run continues from.

    `hidden` is where its windows lie until it is finished.
    """

    hidden: Path

    def append(self, columns: Columns) -> int:
        """Write one window and return the mark behind it."""

    def rewind(self, mark: int) -> None:
        """Drop what was written after `mark` (0: everything)."""

    def finish(self) -> None:
        """Put the finished table in its place."""

    def clear(self) -> None:
        """Remove what lies at `hidden`."""


def growing_table(path: Path, option: str = "--out") -> GrowingTable:
    """A table in the format of `path`'s suffix; nothing is written before `rewind`.

    Raises ArgumentError, naming `option`, for a suffix that is no format here.
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
    return _TextTable(path, _LINES[kind], _COMPRESS[packing])


class _TextTable:
    """Windows appended to a hidden file; a compressed window is a member of its own."""

    def __init__(
        self,
        path: Path,
        lines: Callable[[Columns, bool], str],
        compress: Callable[[bytes], bytes],
    ) -> None:
        self.path, self.lines, self.compress = path, lines, compress
        self.hidden = path.with_name(f".{path.name}.partial")
        self.mark = 0

    def append(self, columns: Columns) -> int:
        data = self.compress(self.lines(columns, self.mark == 0).encode("utf-8"))
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
    """One hidden file a window, joined at the end row group by row group."""

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


def _arrow(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    if values and isinstance(values[0], np.floating):
        return pa.array(np.asarray(values, np.float32))
    return pa.array([str(v) for v in values], pa.string())


def _text(value: Any) -> str:
    """A cell; nine significant digits restore a float32."""
    return f"{value:.9g}" if isinstance(value, float | np.floating) else str(value)


def _one_line(text: str) -> str:
    """Tabs and line breaks become spaces: a row is a line."""
    return text.translate({9: " ", 10: " ", 13: " "})


def _tsv(columns: Columns, header: bool) -> str:
    return _rows(columns, header, "\t", _one_line)


def _csv(columns: Columns, header: bool) -> str:
    return _rows(columns, header, ",", _csv_cell)


def _csv_cell(text: str) -> str:
    text = _one_line(text)
    if "," in text or '"' in text:
        return '"' + text.replace('"', '""') + '"'
    return text


def _rows(columns: Columns, header: bool, separator: str, cell: Callable[[str], str]) -> str:
    lines = [separator.join(map(cell, columns))] if header else []
    lines += [
        separator.join(cell(_text(value)) for value in row)
        for row in zip(*columns.values(), strict=True)
    ]
    return "".join(line + "\n" for line in lines)


def _jsonl(columns: Columns, header: bool) -> str:
    names = list(columns)
    return "".join(
        json.dumps(dict(zip(names, map(_plain, row), strict=True)), ensure_ascii=False) + "\n"
        for row in zip(*columns.values(), strict=True)
    )


def _plain(value: Any) -> Any:
    """JSON numbers of float32 with nine digits, all else text as it is."""
    return float(f"{value:.9g}") if isinstance(value, np.floating) else value


_LINES = {".tsv": _tsv, ".csv": _csv, ".jsonl": _jsonl}
