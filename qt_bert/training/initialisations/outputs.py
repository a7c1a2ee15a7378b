"""What one run left: the facts of the try, and the outputs of the model where they are wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qt_bert.files import atomic_write, write_json
from qt_bert.results.codec import encode, read_result
from qt_bert.results.initialisations import SPLITS, Try

Outputs = dict[str, np.ndarray]
"""Logits [pairs, outputs] by split."""


class RunFiles:
    """The finished runs of a study, two files each in a folder: a run that is there is not run again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def done(self, name: str) -> Try | None:
        """The facts of a finished run."""
        path = self.folder / f"{name}.json"
        return read_result(Try, path) if path.exists() else None

    def outputs(self, name: str) -> Outputs | None:
        """Its outputs, where they were stored."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as stored:
            return {split: stored[split] for split in SPLITS}

    def store(self, name: str, facts: Try) -> Try:
        """Keep the facts of a run."""
        write_json(self.folder / f"{name}.json", encode(facts))
        return facts

    def store_outputs(self, name: str, outputs: Outputs) -> Outputs:
        """Keep the outputs of a run."""
        path = self.folder / f"{name}.npz"
        with atomic_write(path) as temporary, open(temporary, "wb") as handle:
            np.savez_compressed(handle, **outputs)  # type: ignore[arg-type]
        return outputs
