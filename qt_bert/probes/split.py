"""The pairs of a probe: discovery to choose on, validation to test on, split by query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import split_halves
from qt_bert.files import sha256_file
from qt_bert.results.probe import PairsRef

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels


class Split(NamedTuple):
    """Graded pairs for choosing and for testing, and how many rows were no pairs."""

    discovery: list[Pair]
    validation: list[Pair]
    rejected: int


@dataclass(frozen=True, kw_only=True)
class PairFiles:
    """Where the pairs lie and how they are read.

    `discovery` is a file of its own, as with the splits that ship; without it `pairs` is halved by
    a hash of the query.
    """

    pairs: Path
    reader: ReaderOptions = ReaderOptions()
    discovery: Path | None = None

    def read(self, labels: ModelLabels) -> Split:
        """The graded pairs, their labels read as a model of these `labels` can be judged by.

        Raises PairFileError for rows without a label or with a bad one (above `--max-rejects`), and
        for a file that leaves a half without graded pairs.
        """
        from qt_bert.scoring.judge import graded_pairs

        validation, rejected = graded_pairs(self.pairs, self.reader, labels)
        if self.discovery is None:
            return Split(*split_halves(validation), rejected)
        discovery, more = graded_pairs(self.discovery, self.reader, labels)
        return Split(discovery, validation, rejected + more)


@dataclass(frozen=True, kw_only=True)
class HeldOutFile:
    """A graded file of its own, for figures alone, and how it is read."""

    path: Path
    reader: ReaderOptions = ReaderOptions()

    def read(self, labels: ModelLabels) -> list[Pair]:
        """Its graded pairs, for a model of these `labels`. Raises PairFileError as `PairFiles.read`."""
        from qt_bert.scoring.judge import graded_pairs

        return graded_pairs(self.path, self.reader, labels)[0]


def told_apart(names: Iterable[str]) -> list[str]:
    """Each name, with a number behind one that came before."""
    found: list[str] = []
    for name in names:
        own, number = name, 1
        while own in found:
            number += 1
            own = f"{name} ({number})"
        found.append(own)
    return found


def reference(path: Path, pairs: list[Pair]) -> PairsRef:
    """`path` by name and hash, with the number of `pairs` used of it and of their queries."""
    return PairsRef(
        name=path.name,
        sha256=sha256_file(path),
        n_pairs=len(pairs),
        n_queries=len({pair.query for pair in pairs}),
    )
