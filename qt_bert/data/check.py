"""What is in a file of pairs, and what it shares with another, before anything is trained on it."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from qt_bert.data.pairs import Pair

if TYPE_CHECKING:
    import numpy as np

    from qt_bert.data.reader import PairReader


# A file of pairs as digests and lengths: enough to compare texts without keeping them.


OTHER_LABELS = "(other labels)"
_LABELS_COUNTED = 1000

Column = Literal["query", "pair", "label", "line", "query_length", "title_length"]


class Fingerprints:
    """One entry per pair in each column: 64-bit digests of the query, of the pair and of its label
    (0 without one), the line, and both lengths in characters.

    `labels` and `grades` count what the pairs are labelled with; beyond a thousand different labels
    the rest is counted together.
    """

    def __init__(self) -> None:
        self._columns: dict[Column, array[int]] = {
            "query": array("Q"),
            "pair": array("Q"),
            "label": array("Q"),
            "line": array("Q"),
            "query_length": array("L"),
            "title_length": array("L"),
        }
        self.labels: Counter[str] = Counter()
        self.grades: Counter[str] = Counter()

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Fingerprints:
        """The fingerprints of all pairs, in their order."""
        prints = cls()
        for pair in pairs:
            prints.add(pair)
        return prints

    def add(self, pair: Pair) -> None:
        """Add one pair."""
        meaning = pair.label if pair.grades is None else str(pair.grades)
        columns = self._columns
        columns["query"].append(_digest(pair.query))
        # A text holds no NUL, so this joins no two different pairs to the same text.
        columns["pair"].append(_digest(f"{pair.query}\0{pair.title}"))
        columns["label"].append(0 if meaning is None else _digest(meaning))
        columns["line"].append(pair.line)
        columns["query_length"].append(len(pair.query))
        columns["title_length"].append(len(pair.title))
        label = pair.label or ""
        counted = label in self.labels or len(self.labels) < _LABELS_COUNTED
        self.labels[label if counted else OTHER_LABELS] += 1
        if pair.grades is not None:
            self.grades["+".join(map(str, pair.grades))] += 1

    def array(self, column: Column) -> np.ndarray:
        """One column as an unsigned integer array [pairs]."""
        import numpy as np

        return np.array(self._columns[column])

    def distinct(self, column: Column) -> int:
        """How many different values a column has."""
        import numpy as np

        return int(np.unique(self.array(column)).size)

    def groups(self) -> list[np.ndarray]:
        """The row indices, rising, of each pair that stands more than once, by first row."""
        import numpy as np

        pair = self.array("pair")
        order = np.argsort(pair, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(pair[order]) != 0])
        ends = np.r_[starts[1:], pair.size]
        several = ends - starts > 1
        groups = [order[a:b] for a, b in zip(starts[several], ends[several], strict=True)]
        return sorted(groups, key=lambda rows: int(rows[0]))


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")


# What is in a file of pairs, before anything is trained or judged on it.


EXAMPLES = 5


@dataclass(frozen=True)
class Lengths:
    """How long the texts are, in characters."""

    min: int
    median: float
    p95: float
    max: int


@dataclass(frozen=True)
class Shared:
    """Rows that have something in common, how many different ones, and the first lines of such."""

    rows: int
    distinct: int
    lines: list[int]


@dataclass(frozen=True)
class Repeats:
    """Pairs that stand more than once: their rows, how many pairs, and the lines of the first."""

    rows: int
    distinct: int
    lines: list[list[int]]


@dataclass(frozen=True)
class CheckReport:
    """What `check_file` found.

    `labels` counts the accepted rows by label text, "" for none; `grades` by what the label may
    mean, such as `3+4`, where labels were read as grades. Repeats count all rows of such a pair;
    contradicting ones have two labels or more. `shared_*` is None without another file.
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

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)

    def render(self) -> str:
        """The report as readable text, one fact a line."""
        lines = [
            f"{self.path}: {self.format}, {self.encoding}",
            f"rows: {self.rows:,} = {self.accepted:,} pairs + {self.rejected:,} rejects",
            *(f"  reject, {reason}: {count:,}" for reason, count in self.reasons.items()),
            f"queries: {self.queries:,} different",
            *(f"label {label or '(none)'}: {n:,}" for label, n in self.labels.items()),
            *(f"grade {grades}: {n:,}" for grades, n in self.grades.items()),
            *([f"labels that are no grade: {self.bad_grades:,}"] if self.bad_grades else []),
            _lengths_line("query", self.query_lengths),
            _lengths_line("title", self.title_lengths),
            _repeats_line("duplicate pairs", self.duplicates),
            _repeats_line("contradicting pairs", self.contradicting),
        ]
        if self.shared_queries and self.shared_pairs:
            lines.append(_shared_line("queries", self.against, self.shared_queries))
            lines.append(_shared_line("pairs", self.against, self.shared_pairs))
        return "\n".join(lines)


def check_file(reader: PairReader, against: PairReader | None = None) -> CheckReport:
    """Read a file once (and another once, to compare) and say what is in it.

    Queries and pairs are the same where their texts are equal, character by character. Texts are
    not kept: some 40 bytes a row are, 64-bit digests among them. Raises what the readers raise.
    """
    mine = Fingerprints.of(reader)
    other = Fingerprints.of(against) if against is not None else None
    groups, labels = mine.groups(), mine.array("label")
    return CheckReport(
        path=str(reader.path),
        format=reader.format,
        encoding=reader.encoding,
        rows=reader.rows_read,
        accepted=reader.accepted,
        rejected=reader.rejected,
        reasons=dict(reader.reasons.most_common()),
        bad_grades=reader.bad_grades,
        labels=dict(sorted(mine.labels.items())),
        grades=dict(sorted(mine.grades.items())),
        queries=mine.distinct("query"),
        query_lengths=_lengths(mine.array("query_length")),
        title_lengths=_lengths(mine.array("title_length")),
        duplicates=_repeats(mine, groups),
        contradicting=_repeats(mine, [rows for rows in groups if _contradicts(labels[rows])]),
        against=str(against.path) if against is not None else None,
        shared_queries=_shared(mine, other, "query") if other else None,
        shared_pairs=_shared(mine, other, "pair") if other else None,
    )


def _lengths(values: np.ndarray) -> Lengths:
    import numpy as np

    median, p95 = np.percentile(values, [50, 95])
    return Lengths(int(values.min()), float(median), float(p95), int(values.max()))


def _contradicts(labels: np.ndarray) -> bool:
    return len(set(labels.tolist()) - {0}) > 1


def _repeats(prints: Fingerprints, groups: list[np.ndarray]) -> Repeats:
    line = prints.array("line")
    return Repeats(
        rows=sum(rows.size for rows in groups),
        distinct=len(groups),
        lines=[line[rows[:EXAMPLES]].tolist() for rows in groups[:EXAMPLES]],
    )


def _shared(mine: Fingerprints, other: Fingerprints, column: Column) -> Shared:
    import numpy as np

    values = mine.array(column)
    common = np.isin(values, other.array(column))
    return Shared(
        rows=int(common.sum()),
        distinct=int(np.unique(values[common]).size),
        lines=mine.array("line")[common][:EXAMPLES].tolist(),
    )


def _lengths_line(name: str, lengths: Lengths) -> str:
    return (
        f"{name} length in characters: {lengths.min:,} to {lengths.max:,}, "
        f"median {lengths.median:g}, 95 % up to {lengths.p95:g}"
    )


def _repeats_line(name: str, repeats: Repeats) -> str:
    examples = "; ".join(" and ".join(map(str, lines)) for lines in repeats.lines)
    where = f" (lines {examples})" if examples else ""
    return f"{name}: {repeats.distinct:,} in {repeats.rows:,} rows{where}"


def _shared_line(name: str, against: str | None, shared: Shared) -> str:
    where = f" (first lines {', '.join(map(str, shared.lines))})" if shared.lines else ""
    return f"{name} shared with {against}: {shared.distinct:,} in {shared.rows:,} rows{where}"
