"""A file of pairs as digests and lengths: enough to compare texts without keeping them."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from qt_bert.pairs.pair import Pair

if TYPE_CHECKING:
    import numpy as np

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
