"""The classifier that ships with the labelled maps: opened, and what is known of its errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qt_bert.codec import read_result
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import sha256_file
from qt_bert.probes.patterns.errors import ANSWERS, FIRST, RULES_SECOND, SECOND, Errors, read_errors
from qt_bert.probes.patterns.features import features
from qt_bert.probes.patterns.kinds import KINDS
from qt_bert.probes.patterns.maps import Maps
from qt_bert.probes.patterns.rules import Rules
from qt_bert.stats.arrays import IntArray

RECORD = "classifier.json"
RULES: Literal["rules"] = "rules"
NETWORK = "network"
"""A convolutional network that was judged too and not chosen; the record has its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A figure and its 95 % interval, over groups of maps of the same head."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How a classifier did on maps of heads that it was not fitted on.

    `macro_f1` is the mean F1 of the kinds with labelled maps enough, `macro_f1_all` of all five;
    `macro_f1_trained` is `macro_f1` without the maps of random weights, which are easy. `f1` has one
    for each kind, `confusion` counts labels (rows) by answers (columns).
    """

    macro_f1: Measured
    macro_f1_trained: Measured
    macro_f1_all: float
    accuracy: float
    f1: tuple[float | None, ...]
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """How far two passes of labels of the same maps agree: Cohen's κ, and first (rows) by second.

    `kappa_trained` is without the maps of random weights.
    """

    kappa: Measured
    kappa_trained: Measured
    agreed: float
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """`classifier.json`: which classifier labels in the probe, and what stands behind it.

    `rules` are fitted on the first pass of labels, `rules_second` on the second, where there is one:
    they stand in for a stricter eye, and `judged_second` holds them against it. `counted` are the kinds
    in the macro-F1 of the first pass. `examples` names a map of each kind that all agree on, where
    there is one. `files` holds the SHA-256 of the files it was made from and of `answers.csv`.
    """

    schema: Literal[1] = 1
    chosen: Literal["rules"]
    kinds: tuple[str, ...]
    counted: tuple[str, ...]
    maps: int
    groups: int
    rules: Rules
    rules_second: Rules | None
    judged: dict[str, Judged]
    judged_second: Judged | None
    passes: Passes | None
    examples: dict[str, str]
    files: dict[str, str]


@dataclass(frozen=True, eq=False)
class Classifier:
    """Says of maps which kind they are, by rules.

    `errors` are those of the rules fitted on the first pass of labels, `errors_second` those of the
    rules fitted on the second pass, where there was one.
    """

    record: TrainingRecord
    folder: Path
    errors: Errors
    errors_second: Errors | None

    def answers(self, maps: Maps) -> list[IntArray]:
        """The kind of every map [N], as its place in KINDS; then the same by the second pass's rules."""
        seen = features(maps).double().numpy()
        rules = (self.record.rules, self.record.rules_second)
        return [one.of_features(seen) for one in rules if one is not None]

    @property
    def judged(self) -> Judged:
        """The figures of the one that was chosen."""
        return self.record.judged[self.record.chosen]


def open_classifier(folder: Path) -> Classifier:
    """The classifier of a folder with `classifier.json`.

    Raises ArgumentError where the record is broken or of other kinds, or the answers are not its
    own.
    """
    try:
        record = read_result(TrainingRecord, folder / RECORD)
    except (OSError, RunFolderError) as error:
        raise ArgumentError(f"{folder}: no classifier of patterns in it ({error})") from error
    if record.kinds != KINDS or record.chosen not in record.judged:
        raise ArgumentError(f"{folder / RECORD}: of other kinds than {KINDS}; train it anew")
    path = _own(folder, ANSWERS, record)
    errors = read_errors(path, FIRST, record.chosen)
    second = None if record.rules_second is None else read_errors(path, SECOND, RULES_SECOND)
    return Classifier(record, folder, errors, second)


def _own(folder: Path, name: str, record: TrainingRecord) -> Path:
    """The path of a file that the record speaks of; ArgumentError where it is another or none."""
    path = folder / name
    if not path.exists() or sha256_file(path) != record.files.get(name):
        raise ArgumentError(f"{path}: not the file that {RECORD} speaks of; train it anew")
    return path
