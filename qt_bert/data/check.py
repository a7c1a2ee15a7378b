"""Statistics of a file of pairs, and its overlap with another file."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

from qt_bert.data.pairs import Pair, number_of
from qt_bert.text import query_key

if TYPE_CHECKING:
    import numpy as np

    from qt_bert.data.reader import PairReader

EXAMPLES = 5
OTHER_LABELS = "(other labels)"
_LABELS_COUNTED = 1000


@dataclass(frozen=True)
class Lengths:
    """Lengths of texts in characters."""

    min: int
    median: float
    p95: float
    max: int


@dataclass(frozen=True)
class Shared:
    """Rows whose query or pair is also in the other file, the distinct ones, and their first lines."""

    rows: int
    distinct: int
    lines: list[int]


@dataclass(frozen=True)
class Repeats:
    """Pairs that occur more than once: their rows, the distinct pairs, the lines of the first ones."""

    rows: int
    distinct: int
    lines: list[list[int]]


@dataclass(frozen=True)
class CheckReport:
    """The result of `check_file`.

    `labels` counts the accepted rows by label text ("" for none; labels beyond a thousand count
    together), `grades` by the grades the label may mean, such as `3+4`. `duplicates` counts all rows
    of a repeated pair, `contradicting` those with two labels or more. `shared_*` is None without
    another file.
    """

    path: str
    format: str
    encoding: str
    rows: int
    accepted: int
    rejected: int
    reasons: dict[str, int]
    bad_grades: int
    labels: dict[str, int]
    grades: dict[str, int]
    queries: int
    query_lengths: Lengths
    title_lengths: Lengths
    duplicates: Repeats
    contradicting: Repeats
    against: str | None
    shared_queries: Shared | None
    shared_pairs: Shared | None

    def render(self) -> str:
        """The report as text, one fact a line."""
        lines = [
            f"{self.path}: {self.format}, {self.encoding}",
            f"rows: {self.rows:,} = {self.accepted:,} pairs + {self.rejected:,} rejects",
            *(f"  reject, {reason}: {count:,}" for reason, count in self.reasons.items()),
            f"queries: {self.queries:,} different",
            *(f"label {label or '(none)'}: {n:,}" for label, n in self.labels.items()),
            *(f"grade {grades}: {n:,}" for grades, n in self.grades.items()),
            *([f"labels that are no grade: {self.bad_grades:,}"] if self.bad_grades else []),
        ]
        for name, lengths in (("query", self.query_lengths), ("title", self.title_lengths)):
            lines.append(
                f"{name} length in characters: {lengths.min:,} to {lengths.max:,}, "
                f"median {lengths.median:g}, 95 % up to {lengths.p95:g}"
            )
        for name, repeats in (
            ("duplicate", self.duplicates),
            ("contradicting", self.contradicting),
        ):
            examples = "; ".join(" and ".join(map(str, rows)) for rows in repeats.lines)
            where = f" (lines {examples})" if examples else ""
            lines.append(f"{name} pairs: {repeats.distinct:,} in {repeats.rows:,} rows{where}")
        for name, shared in (("queries", self.shared_queries), ("pairs", self.shared_pairs)):
            if shared is not None:
                where = f" (first lines {', '.join(map(str, shared.lines))})" * bool(shared.lines)
                lines.append(
                    f"{name} shared with {self.against}: {shared.distinct:,} in {shared.rows:,} "
                    f"rows{where}"
                )
        return "\n".join(lines)


def check_file(reader: PairReader, against: PairReader | None = None) -> CheckReport:
    """Read a file once, and `against` once, and report statistics.

    A query spelled in several ways is one (`query_key`); pairs are compared exactly. By 64-bit digests; about
    50 bytes a row are kept. Raises what the readers raise.
    """
    import numpy as np

    labels: Counter[str] = Counter()
    grades: Counter[str] = Counter()
    columns = _columns(_counted(reader, labels, grades))
    other = None if against is None else _columns(against)
    # The row indices of each repeated pair, ascending, by first row.
    order = np.argsort(columns["pair"], kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(columns["pair"][order])) + 1)
    repeated = sorted((rows for rows in groups if rows.size > 1), key=lambda rows: int(rows[0]))
    contradicting = [rows for rows in repeated if len({*columns["label"][rows].tolist()} - {0}) > 1]

    def lengths(values: np.ndarray) -> Lengths:
        median, p95 = np.percentile(values, [50, 95])
        return Lengths(int(values.min()), float(median), float(p95), int(values.max()))

    def repeats(groups: list[np.ndarray]) -> Repeats:
        lines = [columns["line"][rows[:EXAMPLES]].tolist() for rows in groups[:EXAMPLES]]
        return Repeats(sum(rows.size for rows in groups), len(groups), lines)

    def shared(column: str) -> Shared | None:
        if other is None:
            return None
        common = np.isin(columns[column], other[column])
        distinct = int(np.unique(columns[column][common]).size)
        return Shared(int(common.sum()), distinct, columns["line"][common][:EXAMPLES].tolist())

    return CheckReport(
        path=str(reader.path),
        format=reader.format,
        encoding=reader.encoding,
        rows=reader.rows_read,
        accepted=reader.accepted,
        rejected=reader.rejected,
        reasons=dict(reader.reasons.most_common()),
        bad_grades=reader.bad_grades,
        labels=dict(sorted(labels.items())),
        grades=dict(sorted(grades.items())),
        queries=int(np.unique(columns["query"]).size),
        query_lengths=lengths(columns["query_length"]),
        title_lengths=lengths(columns["title_length"]),
        duplicates=repeats(repeated),
        contradicting=repeats(contradicting),
        against=str(against.path) if against is not None else None,
        shared_queries=shared("query"),
        shared_pairs=shared("pair"),
    )


def _counted(pairs: Iterable[Pair], labels: Counter[str], grades: Counter[str]) -> Iterable[Pair]:
    """The pairs; their labels and grades are counted."""
    for pair in pairs:
        label = pair.label or ""
        counted = label in labels or len(labels) < _LABELS_COUNTED
        labels[label if counted else OTHER_LABELS] += 1
        if pair.grades is not None:
            grades["+".join(map(str, pair.grades))] += 1
        yield pair


def _columns(pairs: Iterable[Pair]) -> dict[str, np.ndarray]:
    """Per pair: 64-bit digests of query, pair and label (0 without one), the line, both lengths."""
    import numpy as np

    names = ("query", "pair", "label", "line", "query_length", "title_length")
    columns = {name: array("Q") for name in names}
    for pair in pairs:
        meaning = pair.label if pair.grades is None else str(pair.grades)
        columns["query"].append(_digest(str(query_key(pair.query))))
        columns["pair"].append(_digest(f"{pair.query}\0{pair.title}"))  # texts hold no NUL
        if not isnan(number := number_of(meaning or "")):
            meaning = str(number)  # `0.5` and `0.50` are one label
        columns["label"].append(0 if meaning is None else _digest(meaning))
        columns["line"].append(pair.line)
        columns["query_length"].append(len(pair.query))
        columns["title_length"].append(len(pair.title))
    return {name: np.array(column) for name, column in columns.items()}


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")
