"""The classifier that ships with the labelled maps: opened, and what is known of its errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.evaluation.arrays import FloatArray, IntArray
from qt_bert.files import sha256_file
from qt_bert.probes.map_patterns.features import features
from qt_bert.probes.map_patterns.kinds import KINDS
from qt_bert.probes.map_patterns.maps import Maps
from qt_bert.probes.map_patterns.network import Network
from qt_bert.probes.map_patterns.rules import Rules
from qt_bert.results.codec import read_result

RECORD, WEIGHTS = "classifier.json", "classifier.safetensors"
RULES: Literal["rules"] = "rules"
NETWORK: Literal["network"] = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A figure and its 95 % interval, over groups of maps of the same head."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How a classifier did on maps of heads that it was not fitted on.

    `macro_f1` is the mean F1 of the kinds in `TrainingRecord.counted`, `macro_f1_all` of all five;
    `f1` has one for each kind, `confusion` counts labels (rows) by answers (columns).
    """

    macro_f1: Measured
    macro_f1_all: float
    accuracy: float
    f1: tuple[float | None, ...]
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """How far two people's labels of the same maps agree: Cohen's κ, and first (rows) by second."""

    kappa: Measured
    agreed: float
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """`classifier.json`: which classifier labels in the probe, and what stands behind it.

    `rules` are fitted on the first pass of labels, `rules_second` on the second, where there is one:
    they stand in for a stricter eye. `examples` names a map of each kind that all agree on, where there
    is one. `files` holds the SHA-256 of the files it was made from, and of
    the network's weights.
    """

    schema: Literal[1] = 1
    chosen: Literal["rules", "network"]
    kinds: tuple[str, ...]
    counted: tuple[str, ...]
    maps: int
    groups: int
    rules: Rules
    rules_second: Rules | None
    judged: dict[str, Judged]
    passes: Passes | None
    examples: dict[str, str]
    files: dict[str, str]


@dataclass(frozen=True, eq=False)
class Classifier:
    """Says of maps which kind they are; `network` is there where it was chosen."""

    record: TrainingRecord
    network: Network | None
    folder: Path

    def predict(self, maps: Maps) -> IntArray:
        """The kind of every map [N], as its place in KINDS."""
        return self.answers(maps)[0]

    def answers(self, maps: Maps) -> list[IntArray]:
        """The same, and behind it what rules fitted on the second pass say, where there was one."""
        seen = features(maps).double().numpy()
        rules = (self.record.rules, self.record.rules_second)
        found = [one.of_features(seen) for one in rules if one is not None]
        if self.network is not None:
            found[0] = np.asarray(self.network.probabilities(maps).argmax(-1).numpy())
        return found

    @property
    def judged(self) -> Judged:
        """The figures of the one that was chosen."""
        return self.record.judged[self.record.chosen]

    @property
    def confusion(self) -> FloatArray:
        """Labels by answers, counts [KINDS, KINDS]."""
        return np.array(self.judged.confusion, np.float64)


def open_classifier(folder: Path) -> Classifier:
    """The classifier of a folder with `classifier.json`.

    Raises ArgumentError where the record is broken or of other kinds, or the weights are not its own.
    """
    try:
        record = read_result(TrainingRecord, folder / RECORD)
    except (OSError, RunFolderError) as error:
        raise ArgumentError(f"{folder}: no classifier of patterns in it ({error})") from error
    if record.kinds != KINDS or record.chosen not in record.judged:
        raise ArgumentError(f"{folder / RECORD}: of other kinds than {KINDS}; train it anew")
    network = _network(folder, record) if record.chosen == NETWORK else None
    return Classifier(record, network, folder)


def _network(folder: Path, record: TrainingRecord) -> Network:
    path = folder / WEIGHTS
    if not path.exists() or sha256_file(path) != record.files.get(WEIGHTS):
        raise ArgumentError(f"{path}: not the weights that {RECORD} speaks of; train it anew")
    network = Network()
    try:
        network.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError) as error:
        raise ArgumentError(f"{path}: no weights of this network ({error})") from error
    return network.eval()
