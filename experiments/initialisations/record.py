"""The record of the initialisation study: how each start was tuned, and what came out pair by pair.

Two files: `initialisations.json` says what was run, `initialisations.npz` holds the outputs of the
final models beside the labels. No text of a pair is in either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from qt_bert.codec import encode, read_result
from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_write, sha256_file, write_json

RECORD, OUTPUTS = "initialisations.json", "initialisations.npz"
Arm = Literal["untrained", "frozen", "random", "tuned"]
ARMS: tuple[Arm, ...] = ("untrained", "frozen", "random", "tuned")
"""Pretrained with an untrained head; pretrained and frozen, head trained; random weights,
fine-tuned; pretrained, fine-tuned."""
SPLITS = ("discovery", "validation")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A file or model by name and hash; `rows` are the pairs that were read from it."""

    name: str
    sha256: str
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One run of an arm: its `discovery` figure decides over the learning rate.

    `step` of `steps` is the reading that was kept; both 0 where nothing was trained. `seconds` are
    those of the process that finished it. `folder` is the model's, inside the study's folder.
    """

    arm: Arm
    seed: int
    rate: float | None
    discovery: float | None
    step: int
    steps: int
    seconds: float
    folder: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`initialisations.json`.

    `tries` are all runs; `final` are the places in it of those that give the figures, in the order
    of the outputs. `grades` says which grades each output means, as in a model's card.
    """

    kind: ClassVar[str] = "initialisations"
    schema: Literal[1] = 1
    base: FileRef
    train: tuple[FileRef, ...]
    splits: dict[str, FileRef]
    metric: str
    grades: tuple[tuple[int, ...], ...]
    tries: tuple[Try, ...]
    final: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    outputs_sha256: str = ""

    def runs(self, arm: str) -> list[int]:
        """Places among the outputs of an arm's final runs, one for each seed."""
        return [row for row, place in enumerate(self.final) if self.tries[place].arm == arm]


@dataclass(frozen=True, eq=False)
class SplitOutputs:
    """One split: float32 `logits` [runs, pairs, outputs], the query's number of each pair [pairs],
    and `labels` [pairs, 5], True at each grade the label may mean."""

    logits: np.ndarray
    queries: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class Initialisations:
    """A record with the outputs of its final runs."""

    record: Record
    outputs: Mapping[str, SplitOutputs]

    def write(self, folder: Path) -> None:
        """Both files, the record last: a folder without it holds no study."""
        arrays = {
            f"{split}_{name}": getattr(outputs, name)
            for split, outputs in self.outputs.items()
            for name in ("logits", "queries", "labels")
        }
        with atomic_write(folder / OUTPUTS) as temporary, open(temporary, "wb") as handle:
            np.savez_compressed(handle, **arrays)
        value = encode(self.record) | {"outputs_sha256": sha256_file(folder / OUTPUTS)}
        write_json(folder / RECORD, value)


def read_initialisations(folder: Path) -> Initialisations:
    """The study in `folder`.

    Raises RunFolderError where a file is missing, damaged, or does not go with the other.
    """
    record = read_result(Record, folder / RECORD)
    path = folder / OUTPUTS
    if not path.is_file() or sha256_file(path) != record.outputs_sha256:
        raise RunFolderError(
            f"{path}: missing, or not the file that {RECORD} was written with; "
            "make it again with experiments/initialisations"
        )
    with np.load(path, allow_pickle=False) as stored:
        outputs = {
            split: SplitOutputs(*(stored[f"{split}_{n}"] for n in ("logits", "queries", "labels")))
            for split in SPLITS
        }
    _fits(record, outputs, path)
    return Initialisations(record, outputs)


def _fits(record: Record, outputs: Mapping[str, SplitOutputs], path: Path) -> None:
    if any(not 0 <= place < len(record.tries) for place in record.final):
        raise RunFolderError(f"{path.with_name(RECORD)}: `final` names a run that is not there")
    seeds = [[record.tries[record.final[row]].seed for row in record.runs(arm)] for arm in ARMS]
    if not seeds[0] or any(one != seeds[0] for one in seeds):
        raise RunFolderError(
            f"{path.with_name(RECORD)}: not every arm has a final run of each seed"
        )
    for split, one in outputs.items():
        pairs = len(one.queries)
        shape = (len(record.final), pairs, len(record.grades))
        if one.logits.shape != shape or one.labels.shape != (pairs, 5):
            raise RunFolderError(f"{path}: the arrays of {split} do not fit the record")
