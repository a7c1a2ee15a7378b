"""Texts to measure on, rows to score on Ray, and a comparison of two runs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from qt_bert.data.reader import ReaderOptions


def texts_of(files: Sequence[Path], columns: str | None) -> list[tuple[str, str]]:
    """Queries and titles of all files. Raises PairFileError as the reader does."""
    options = ReaderOptions(columns=columns)
    return [(pair.query, pair.title) for file in files for pair in options.open(file)]


def drawn(path: Path, columns: str | None, count: int) -> list[tuple[str, str]]:
    """Up to `count` pairs of a file in random order."""
    texts = texts_of([path], columns)
    return [texts[i] for i in np.random.default_rng(0).permutation(len(texts))[:count]]


def write_rows(path: Path, texts: Sequence[tuple[str, str]], rows: int) -> None:
    """`rows` pairs as a CSV file; fewer texts are repeated."""
    with open(path, "w", encoding="utf-8", newline="") as handle:
        out = csv.writer(handle)
        out.writerow(("query", "title"))
        out.writerows(islice(cycle(texts), rows))


def differences(first: Path, second: Path) -> list[str]:
    """The names of part files that are not in both run folders with the same bytes."""
    a, b = ({p.name: p.read_bytes() for p in (out / "parts").iterdir()} for out in (first, second))
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
