"""The pairs of a study: those to choose on and those to test on, of different queries."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import split_halves
from qt_bert.files import sha256_file
from qt_bert.request import Request
from qt_bert.results.probe import PairsRef

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels


class Split(NamedTuple):
    """Graded pairs for choosing and for testing, and how many rows were no pairs."""

    discovery: list[Pair]
    validation: list[Pair]
    rejected: int


def read_split(request: Request, labels: ModelLabels) -> Split:
    """The graded pairs of a request, their labels read as a model of these `labels` can be judged by.

    Without a file `discovery`, the pairs are halved by a hash of the query. Raises PairFileError for rows
    without a label or with a bad one (above `--max-rejects`), and for a file that leaves a half without
    graded pairs.
    """
    from qt_bert.scoring.judge import graded_pairs

    validation, rejected = graded_pairs(request.validation_file, request.reader, labels)
    if request.discovery is None:
        return Split(*split_halves(validation), rejected)
    discovery, more = graded_pairs(request.discovery, request.reader, labels)
    return Split(discovery, validation, rejected + more)


def read_held_out(request: Request, labels: ModelLabels) -> list[tuple[Path, list[Pair]]]:
    """The held-out files of a request with their graded pairs. Raises PairFileError as `read_split`."""
    from qt_bert.scoring.judge import graded_pairs

    return [
        (path, graded_pairs(path, reader, labels)[0]) for path, reader in request.held_out_files()
    ]


def distinct_names(names: Iterable[str]) -> list[str]:
    """Each name, with a number behind one that came before."""
    distinct: list[str] = []
    for name in names:
        numbered, number = name, 1
        while numbered in distinct:
            number += 1
            numbered = f"{name} ({number})"
        distinct.append(numbered)
    return distinct


def reference(path: Path, pairs: list[Pair]) -> PairsRef:
    """`path` by name and hash, with the number of `pairs` used of it and of their queries."""
    return PairsRef.of(path.name, sha256_file(path), pairs)
