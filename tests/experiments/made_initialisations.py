"""A record of the initialisation study whose arms are known: made, not trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.initialisations.record import (
    ARMS,
    SPLITS,
    FileRef,
    Initialisations,
    Record,
    SplitOutputs,
    Try,
)

GRADES = tuple((grade,) for grade in range(1, 6))
RIGHT = {"untrained": 0.0, "frozen": 0.4, "random": 0.6, "tuned": 1.0}
"""The share of an arm's pairs that it grades right; the others it grades one off."""


def made(base_sha256: str, pairs: int = 50, seeds: int = 2) -> Initialisations:
    """Fifty pairs of 25 queries, on which arm by arm the first pairs are graded right."""
    tries = [
        Try(arm=arm, seed=seed, rate=None, discovery=0.5, step=0, steps=0, seconds=1.0)
        for arm in ARMS
        for seed in range(seeds)
    ]
    record = Record(
        base=FileRef(name="base", sha256=base_sha256),
        train=(FileRef(name="train.tsv", sha256="a" * 64, rows=10),),
        splits={split: FileRef(name=f"{split}.tsv", sha256="b" * 64) for split in SPLITS},
        metric="qwk",
        grades=GRADES,
        tries=tuple(tries),
        final=tuple(range(len(tries))),
    )
    return Initialisations(record, {split: _outputs(record, pairs) for split in SPLITS})


def _outputs(record: Record, pairs: int) -> SplitOutputs:
    truth = np.arange(pairs) % 5
    logits = np.zeros((len(record.final), pairs, 5), np.float32)
    for row, place in enumerate(record.final):
        right = np.arange(pairs) // 5 % 10 < 10 * RIGHT[record.tries[place].arm]
        predicted = np.where(right, truth, (truth + 1) % 5)
        logits[row, np.arange(pairs), predicted] = 5.0
    queries = np.arange(pairs) // 2
    return SplitOutputs(logits, queries.astype(np.int32), np.eye(5, dtype=bool)[truth])


def written(folder: Path, base_sha256: str) -> Path:
    """The same as a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made(base_sha256).write(folder)
    return folder
