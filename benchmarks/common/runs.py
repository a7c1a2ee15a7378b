"""Rows to score on Ray, and whether two runs gave the same."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

from qt_bert.data.reader import ReaderOptions


def texts_of(files: Sequence[Path], columns: str | None) -> list[tuple[str, str]]:
    """Queries and titles of all files. Raises PairFileError as the reader does."""
    options = ReaderOptions(columns=columns)
    return [(pair.query, pair.title) for file in files for pair in options.open(file)]


def write_rows(path: Path, texts: Sequence[tuple[str, str]], rows: int) -> None:
    """`rows` pairs as a CSV file; the texts are begun again where they are fewer."""
    with open(path, "w", encoding="utf-8", newline="") as handle:
        out = csv.writer(handle)
        out.writerow(("query", "title"))
        out.writerows(islice(cycle(texts), rows))


def differences(one: Path, other: Path) -> list[str]:
    """The names of part files that are not in both run folders with the same bytes."""
    mine, others = ({p.name: p for p in (out / "parts").iterdir()} for out in (one, other))
    return sorted(
        name
        for name in mine.keys() | others.keys()
        if not (name in mine and name in others)
        or mine[name].read_bytes() != others[name].read_bytes()
    )
