"""Cells by column: of pairs, and of another file, FILE:COLUMN or FILE:COLUMN,COLUMN,…"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from qt_bert.data.columns import parse_columns
from qt_bert.data.formats import format_of
from qt_bert.data.pairs import Pair, number_of
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError


def column_of(scorer: str | None) -> tuple[Path, str] | None:
    """The file and the column of FILE:COLUMN; None for a model.

    FILE is the shortest part before a colon that is a file, so it may begin with a drive (`C:\\log.tsv`), and
    the column's name may hold colons. A file of pairs alone has the column "". Raises ArgumentError where
    FILE has a suffix of pairs and is missing.
    """
    place = Path(scorer or "")
    if scorer is None or place.is_dir():
        return None
    for mark in re.finditer(":", scorer):
        if (file := Path(scorer[: mark.start()])).is_file():
            return file, scorer[mark.end() :]
    name = scorer if place.is_file() else scorer.rpartition(":")[0] or scorer
    try:
        format_of(Path(name))
    except PairFileError:
        return None
    if place.is_file():
        return place, ""
    raise ArgumentError(f"{scorer}: no such file {name!r}; write FILE:COLUMN")


def cells_of(pair: Pair) -> Mapping[str, str]:
    """Column → cell; `grade` is the label's."""
    return pair.extra if pair.label is None else {"grade": pair.label, **pair.extra}


def no_column(where: object, column: str, there: Iterable[str]) -> ArgumentError:
    """The error of a `column` that is not among those that are `there`."""
    return ArgumentError(f"{where}: no column {column!r}; there are {', '.join(there) or 'none'}")


def joined(columns: Sequence[str], reader: ReaderOptions) -> Callable[[Pair], Mapping[str, str]]:
    """`cells_of` with those `columns` that are FILE:COLUMN, joined by query and title."""
    places = {column: place for column in columns if (place := column_of(column)) is not None}
    files = {column: read_cells(*place, reader).of for column, place in places.items()}

    def cells(pair: Pair) -> Mapping[str, str]:
        key, none = (pair.query, pair.title), (0, ("",))
        return {**cells_of(pair)} | {name: of.get(key, none)[1][0] for name, of in files.items()}

    return cells


def column_cells(rows: Iterable[Mapping[str, str]], column: str, where: object) -> list[str]:
    """The stripped cells of a column. Raises ArgumentError, beginning with `where`, where it is missing."""
    rows = list(rows)
    if column not in (there := dict.fromkeys(name for row in rows for name in row)):
        raise no_column(where, column, there)
    return [row.get(column, "").strip() for row in rows]


@dataclass(frozen=True)
class Cells:
    """Cells of `columns`: (query, title) → line and cells, but for pairs whose cells are all empty.
    `rejected` rows of the file are no pairs."""

    columns: tuple[str, ...]
    of: dict[tuple[str, str], tuple[int, tuple[str, ...]]]
    rejected: int


def read_cells(file: Path, column: str, reader: ReaderOptions) -> Cells:
    """The cells of a column, or of several separated by commas.

    Query and title stand in the columns that `reader` names, or in `query` and `title`. Raises ArgumentError
    for a missing column, PairFileError for a pair with different cells on two lines.
    """
    of: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {}
    names, there, conflicts = list[str](), dict[str, None](), list[tuple[int, int]]()
    rows = _columns_in(file, reader).open(file)
    for row in rows:
        named = cells_of(row)
        there |= dict.fromkeys(named)
        names = names or ([column] if column in named else column.split(","))
        values = tuple((named.get(name) or "").strip() for name in names)
        if any(values):
            line, before = of.setdefault((row.query, row.title), (row.line, values))
            if not all(map(_same_cell, before, values)):
                conflicts.append((line, row.line))
    if missing := [name for name in names if name not in there]:
        raise ArgumentError(f"{no_column(file, missing[0], there)}; write FILE:COLUMN")
    if conflicts:
        raise PairFileError(
            f"{file}: {len(conflicts):,} rows repeat a pair with another {column}, first lines "
            f"{conflicts[0][0]} and {conflicts[0][1]}; keep one row a pair"
        )
    return Cells(tuple(names), of, rows.rejected)


def _same_cell(first: str, second: str) -> bool:
    """Whether two cells are the same text or the same number: `0.5` and `0.50` are one score."""
    return first == second or number_of(first) == number_of(second)


def _columns_in(file: Path, reader: ReaderOptions) -> ReaderOptions:
    """`reader` with names of query and title that `file`, which has a header, has: its own, or the default ones."""
    names = parse_columns(reader.columns) if reader.columns is not None else {}
    spec = [f"{name}={names[name]}" for name in ("query", "title") if name in names]
    faults = []
    for columns in (",".join(spec) or None, None):
        options = replace(reader, columns=columns, grades=None, no_header=False)
        try:
            with closing(iter(options.open(file))) as rows:
                next(rows)
            return options
        except PairFileError as error:
            faults.append(error)
    raise faults[0]
