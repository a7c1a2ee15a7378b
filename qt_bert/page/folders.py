"""The model folders that a page offers. They are checked without opening one, so without torch."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import read_json
from qt_bert.models.card import CARD, unmarked
from qt_bert.shipped import GRADED, PRETRAINED, STUDENT, shipped

_CLASSIFIER = re.compile(
    r"(\w+\.){0,2}(classifier|classification_head|logits_proj|score|sequence_summary)\."
)
"""The beginning of the names of a classifier's weights, in the models of transformers."""
_SHAPE = (
    "model_type",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
    "vocab_size",
)
"""Settings that a model shares with its base."""


class Folders:
    """The classifiers that a page offers, by name: those of `models` first, then those that ship.

    `models` are checkpoints, or folders of checkpoints; encoders without a classifier are `left_out`.
    `base` is the folder that the classifiers of `models` were tuned from; by default their training
    record names it. Raises CheckpointError for a folder without a checkpoint and where no classifier
    is left, ArgumentError for a `base` that no classifier of `models` was tuned from.
    """

    def __init__(self, models: Sequence[Path] = (), base: Path | None = None) -> None:
        self._named: dict[str, Path] = {}
        requested = [self._add(path) for folder in models for path in checkpoints_in(folder)]
        for folder in shipped_folders(GRADED, STUDENT, PRETRAINED):
            self._add(folder, " (shipped)")
        available = list(self._named)
        if base is not None and not _is_checkpoint(base):
            raise ArgumentError(f"--base {base}: no folder with config.json and *.safetensors")
        self._base = None if base is None else self._add(Path(os.path.abspath(base)))
        encoders = {name for name, folder in self._named.items() if not _classifies(folder)}
        self._requested = [name for name in dict.fromkeys(requested) if name not in encoders]
        if requested and not self._requested:
            raise CheckpointError(
                f"{', '.join(str(self[name]) for name in requested)}: no classifier, so it cannot grade "
                "pairs; tune it with `qt-bert train`, and pass the result as --model"
            )
        self.left_out = tuple(sorted(encoders.intersection(requested) - {self._base}))
        names = dict.fromkeys([*self._requested, *available])
        self.names = tuple(name for name in names if name not in encoders)
        if not self.names:
            raise CheckpointError("this installation ships no model; pass a folder as --model")
        if base is not None and self._base not in map(self.base_of, self._requested):
            raise ArgumentError(
                f"--base {base}: {' or '.join(self._requested)} cannot be tuned from it: other layers, "
                "heads, positions or vocabulary, or the same folder"
                if requested
                else f"--base {base}: needs --model; the shipped models have their own base"
            )

    def __getitem__(self, name: str) -> Path:
        """The folder of a model or a base."""
        return self._named[name]

    def base_of(self, name: str) -> str | None:
        """The name of the model before fine-tuning, where it is known and of the same shape."""
        base = self._known_base(name)
        if base is None or base == name or base not in self._named:
            return None
        tuned, untuned = (unmarked(record_of(self[at], "config.json")) for at in (name, base))
        return base if all(tuned.get(key) == untuned.get(key) for key in _SHAPE) else None

    def _known_base(self, name: str) -> str | None:
        """`base` for a requested model; else the shipped base, or that of the training record."""
        if self._base is not None and name in self._requested:
            return self._base
        ours = shipped_folders(GRADED, PRETRAINED)
        if len(ours) == 2 and ours[0].resolve() == self[name].resolve():
            return self._add(ours[1])
        recorded = record_of(self[name], "training.json").get("base")
        return recorded if isinstance(recorded, str) else None

    def _add(self, folder: Path, mark: str = "") -> str:
        """The unique name of a folder: its last part, or where that is taken a longer one."""
        for name, path in self._named.items():
            if path.resolve() == folder.resolve():
                return name
        names = (folder.name, f"{folder.name}{mark}", f"{folder.parent.name}/{folder.name}")
        name = next((name for name in names if name not in self._named), str(folder))
        self._named[name] = folder
        return name


def checkpoints_in(models: Path) -> list[Path]:
    """The checkpoint `models`, or those in it, by name. Raises CheckpointError for none."""
    models = Path(os.path.abspath(models))
    inside = (
        sorted(models.iterdir()) if models.is_dir() and not _is_checkpoint(models) else [models]
    )
    if not (checkpoints := list(filter(_is_checkpoint, inside))):
        raise CheckpointError(
            f"{models}: no checkpoint here; pass a folder with config.json and *.safetensors, or a "
            "folder of such folders"
        )
    return checkpoints


def shipped_folders(*names: str) -> list[Path]:
    """The folders of these names that this installation has."""
    folders = []
    for name in names:
        with suppress(ArgumentError):
            folders.append(shipped(name))
    return folders


def _is_checkpoint(folder: Path) -> bool:
    hidden = folder.name.startswith(".")
    return not hidden and (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


def _classifies(folder: Path) -> bool:
    """Whether it has a classifier or answers yes or no; True if damaged: opening it tells why."""
    from safetensors import SafetensorError, safe_open

    if record_of(folder, CARD).get("template"):
        return True
    try:
        for path in folder.glob("*.safetensors"):
            with safe_open(path, "np") as handle:
                if any(map(_CLASSIFIER.match, handle.keys())):
                    return True
    except (SafetensorError, OSError):
        return True
    return False


def record_of(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object beside the weights; empty where it is missing or damaged."""
    try:
        value = read_json(folder / name)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
