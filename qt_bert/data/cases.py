"""Behaviour cases: a query, two titles and their relation, read from TSV or CSV."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from qt_bert.data.formats import format_of
from qt_bert.data.lines import TextSource
from qt_bert.data.pairs import Pair, Reason, Reject
from qt_bert.data.quoting import csv_rows, split_csv
from qt_bert.errors import PairFileError

Relation = Literal["better", "alike"]
"""`better`: the title serves the query clearly better than the other; `alike`: equally well."""
BETTER: Relation = "better"
ALIKE: Relation = "alike"

COLUMNS = ("id", "phenomenon", "relation", "query", "title", "other")
SHOWN = 10
"""Number of bad rows that an error lists; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case; in `alike` cases `other` is `title` changed. `line` in the file; 0 without a file."""

    id: str
    phenomenon: str
    relation: Relation
    query: str
    title: str
    other: str
    line: int = 0


@dataclass(frozen=True)
class Cases:
    """The cases of one file, in its order."""

    path: Path
    listed: tuple[Case, ...]

    @cached_property
    def phenomena(self) -> dict[str, Relation]:
        """Each phenomenon with its relation, in order of first occurrence."""
        return {case.phenomenon: case.relation for case in self.listed}

    @cached_property
    def texts_sha256(self) -> str:
        """SHA-256 over the texts of all cases, in order."""
        digest = hashlib.sha256()
        for case in self.listed:
            digest.update(f"{case.query}\0{case.title}\0{case.other}\n".encode())
        return digest.hexdigest()


def titles_then_others(cases: Sequence[Case]) -> list[Pair]:
    """The unlabelled pairs of all titles, then those of all others [2 cases]."""
    titles = [Pair(case.query, case.title, None, case.id, case.line, None, {}) for case in cases]
    others = [
        Pair(case.query, case.other, None, f"{case.id}/other", case.line, None, {})
        for case in cases
    ]
    return titles + others


def read_cases(path: Path) -> Cases:
    """All cases of `path`; further columns are ignored.

    Raises PairFileError for a file that is not TSV or CSV, lacks a column or has no case, and for bad
    rows, with line and reason of each.
    """
    listed, faults = list[Case](), list[str]()
    ids: dict[str, int] = {}  # their lines
    phenomena: dict[str, Case] = {}  # the first of each
    for line, row in _rows(path):
        fault = row if isinstance(row, str) else _fault(row)
        if isinstance(row, str) or fault is not None:
            faults.append(f"line {line}: {fault}")
            continue
        case = Case(**row, line=line)  # type: ignore[arg-type]
        if (first := ids.setdefault(case.id, line)) != line:
            faults.append(f"line {line}: the id {case.id!r} is already used in line {first}")
        elif (other := phenomena.setdefault(case.phenomenon, case)).relation != case.relation:
            faults.append(
                f"line {line}: {case.phenomenon!r} is {case.relation!r} here and {other.relation!r} in line "
                f"{other.line}"
            )
        else:
            listed.append(case)
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise PairFileError(
            f"{path}: {len(faults)} of its rows cannot be read as cases: {'; '.join(faults[:SHOWN])}{more}"
        )
    if not listed:
        raise PairFileError(f"{path}: no case in it; a row has {', '.join(COLUMNS)}")
    return Cases(path, tuple(listed))


def _fault(row: Mapping[str, str]) -> str | None:
    """What is wrong with a row alone."""
    if empty := [name for name in COLUMNS if not row[name].strip()]:
        return f"{' and '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty"
    if row["relation"] not in get_args(Relation):
        return f"unknown relation {row['relation']!r}; it is {' or '.join(get_args(Relation))}"
    return "title and other are the same" if row["title"] == row["other"] else None


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Line and fields by name of every row below the header, or the fault of the row."""
    kind = format_of(path)
    if kind not in ("tsv", "csv"):
        raise PairFileError(f"{path}: cases are read from TSV and CSV files; save them as one")
    places: dict[str, int] | None = None
    width = 0
    for item in TextSource(path).lines(csv_rows if kind == "csv" else iter):
        if isinstance(item, Reject):
            yield item.line, item.reason
            continue
        line, text = item
        fields = split_csv(text) if kind == "csv" else text.split("\t")
        if fields is None:
            yield line, Reason.UNCLOSED_QUOTE
        elif places is None:
            places, width = _places(path, line, fields), len(fields)
        elif len(fields) != width:
            yield line, f"{len(fields)} fields, but {width} columns"
        elif "\0" in text:
            yield line, "a NUL character in it"
        else:
            row = {name: fields[place] for name, place in places.items()}
            yield line, row | {name: row[name].strip() for name in COLUMNS[:3]}


def _places(path: Path, line: int, header: Sequence[str]) -> dict[str, int]:
    names = [name.strip() for name in header]
    wrong = [name for name in COLUMNS if names.count(name) != 1]
    if wrong:
        raise PairFileError(
            f"{path}: line {line}: the header must have each of the columns {', '.join(COLUMNS)} "
            f"once; missing or repeated: {', '.join(wrong)}"
        )
    return {name: names.index(name) for name in COLUMNS}
