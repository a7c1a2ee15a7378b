"""File formats by suffix: .tsv .txt .csv .jsonl .ndjson, plain or .gz/.xz, and .parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs.columns import Columns
from qt_bert.pairs.formats.delimited import CSV, TSV, DelimitedFile
from qt_bert.pairs.formats.jsonl import JsonLinesFile
from qt_bert.pairs.formats.opening import Location
from qt_bert.pairs.formats.parquet import ParquetFile
from qt_bert.pairs.formats.parquet_source import ParquetSource
from qt_bert.pairs.formats.rows import PairFormat
from qt_bert.pairs.formats.source import PACKED_SUFFIXES, Lines, TextSource

FORMAT_OF_SUFFIX = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}

_TEXT_FORMATS: dict[str, Callable[[Lines, Columns], PairFormat]] = {
    "tsv": lambda source, columns: DelimitedFile(source, columns, TSV),
    "csv": lambda source, columns: DelimitedFile(source, columns, CSV),
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
    file = ParquetFile(ParquetSource(path), columns)
    file.find_columns()
    return file


def open_lines(source: Lines, columns: Columns) -> PairFormat:
    """Lines of a file in the text format that its suffix names."""
    return _TEXT_FORMATS[format_of(source.path)](source, columns)
