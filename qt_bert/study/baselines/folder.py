"""The folder of a table: models below `pretraining/` and `models/`, what was measured below `measured/`.

`trials/` holds the short run that is under way.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_write, is_vacant, read_json, write_json
from qt_bert.results.baselines import OUTPUTS, RECORD

_JOB = "job.json"
_PARTS = ("pretraining", "trials", "models", "measured")

Arrays = dict[str, np.ndarray]


class BaselinesFolder:
    """Where a table is made. What was made under the same key is taken as it is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(
        cls, path: Path, asked: Mapping[str, Any], *, resume: bool, overwrite: bool
    ) -> BaselinesFolder:
        """Begin a table in `path`, or go on with the one there.

        Raises RunFolderError where it holds anything and the flags do not say what to do, where it
        was begun with other inputs (`asked`), and where it holds no table at all.
        """
        plain = json.loads(json.dumps(asked, default=str))
        folder = cls(path)
        if path.exists() and not path.is_dir():
            raise RunFolderError(f"{path} is a file; --out names a folder")
        if not is_vacant(path):
            folder._go_on(plain, resume, overwrite)
        write_json(path / _JOB, plain)
        return folder

    def _go_on(self, asked: Mapping[str, Any], resume: bool, overwrite: bool) -> None:
        job = self.path / _JOB
        if not job.is_file():
            raise RunFolderError(f"{self.path} holds no table of baselines; choose another --out")
        if overwrite:
            for part in _PARTS:
                shutil.rmtree(self.path / part, ignore_errors=True)
            for name in (RECORD, OUTPUTS):
                (self.path / name).unlink(missing_ok=True)
        elif not resume:
            raise RunFolderError(
                f"{self.path} holds a table that was begun; --resume goes on with it, --overwrite "
                "starts anew"
            )
        elif (differs := _differs(read_json(job), asked)) is not None:
            raise RunFolderError(
                f"{self.path} was begun with another {differs}; go on with the same, or start anew "
                "with --overwrite"
            )

    def pretraining(self, name: str) -> Path:
        """The folder of a model pretrained anew."""
        return self._below("pretraining") / name

    def model(self, name: str) -> Path:
        """The folder of a tuned model."""
        return self._below("models") / name

    def trial(self, name: str) -> Path:
        """The folder of a short run of a model, until what it reached is stored."""
        return self._below("trials") / name

    def measured(
        self, name: str, parts: Mapping[str, Any], measure: Callable[[], Arrays]
    ) -> Arrays:
        """Arrays that `measure` gives, kept under a key made of `parts`, which stand for its inputs."""
        key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
        path = self._below("measured") / f"{name}.npz"
        if path.is_file():
            with np.load(path, allow_pickle=False) as stored:
                if str(stored["key"]) == key:
                    return {n: stored[n] for n in stored.files if n != "key"}
        arrays: dict[str, Any] = measure()
        with atomic_write(path) as temporary, open(temporary, "wb") as handle:
            np.savez_compressed(handle, key=np.array(key), **arrays)
        return arrays

    def _below(self, part: str) -> Path:
        folder = self.path / part
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _differs(stored: Any, asked: Mapping[str, Any]) -> str | None:
    """The first thing asked for that is not what it was."""
    before = stored if isinstance(stored, dict) else {}
    return next((name for name, value in asked.items() if before.get(name) != value), None)
