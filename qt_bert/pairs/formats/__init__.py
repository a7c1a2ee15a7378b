"""File formats by suffix: .tsv .txt .csv .jsonl .ndjson, plain or .gz/.xz, and .parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs.columns import Columns
from qt_bert.pairs.formats.csv import split_csv
from qt_bert.pairs.formats.delimited import DelimitedFile
from qt_bert.pairs.formats.jsonl import JsonLinesFile
from qt_bert.pairs.formats.parquet import ParquetFile
from qt_bert.pairs.formats.rows import PairFormat
from qt_bert.pairs.formats.source import PACKED_SUFFIXES
from qt_bert.pairs.formats.tsv import split_tsv

FORMAT_OF_SUFFIX = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}

_OPENERS: dict[str, Callable[[Path, Columns], PairFormat]] = {
    "tsv": lambda path, columns: DelimitedFile(path, columns, split_tsv),
    "csv": lambda path, columns: DelimitedFile(path, columns, split_csv),
    "jsonl": JsonLinesFile,
    "parquet": ParquetFile,
}


def format_of(path: Path) -> str:
    """`tsv`, `csv`, `jsonl` or `parquet`; PairFileError naming the suffixes for any other."""
    packed = path.suffix.lower() in PACKED_SUFFIXES
    suffix = Path(path.stem).suffix.lower() if packed else path.suffix.lower()
    if suffix not in FORMAT_OF_SUFFIX:
        raise PairFileError(
            f"{path}: unknown suffix {suffix!r}; files of pairs end in "
            f"{', '.join(FORMAT_OF_SUFFIX)}, and all but .parquet may go on with .gz or .xz"
        )
    if packed and suffix == ".parquet":
        raise PairFileError(f"{path}: Parquet is compressed inside; unpack the file first")
    return FORMAT_OF_SUFFIX[suffix]


def open_format(path: Path, columns: Columns) -> PairFormat:
    """Open a file of pairs in the format its suffix names.

    Raises PairFileError where the file cannot be one, ArgumentError where `columns` do not fit
    the format.
    """
    name = format_of(path)
    if not columns.header and name not in ("tsv", "csv"):
        raise ArgumentError(f"{path}: --no-header is for TSV and CSV; {name} names its columns")
    return _OPENERS[name](path, columns)
