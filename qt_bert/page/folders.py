"""The model folders that a page offers, found without opening any: no torch is needed to refuse one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
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
"""How the weights of a classifier begin, in the models of transformers."""
_SHAPE = (
    "model_type",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
    "vocab_size",
)
"""What a model and the one it was tuned from have in common."""


class Folders:
    """The models that a page offers by name, those of `models` first, then what ships.

    `models` are checkpoints, or folders of such; encoders among them, which grade nothing, are
    `left_out`. `base` is the folder that the graders of `models` were tuned from; without it their own
    training record names one of the folders. Raises CheckpointError for a folder without a checkpoint and
    where no classifier is left, ArgumentError for a `base` that no grader of `models` was tuned from.
    """

    def __init__(self, models: Sequence[Path] = (), base: Path | None = None) -> None:
        self._named: dict[str, Path] = {}
        given = [self._add(one) for place in models for one in checkpoints_in(place)]
        for folder in shipped_folders(GRADED, STUDENT, PRETRAINED):
            self._add(folder, " (shipped)")
        there = list(self._named)
        if base is not None and not _is_checkpoint(base):
            raise ArgumentError(f"--base {base}: no folder with config.json and *.safetensors")
        self._base = None if base is None else self._add(Path(os.path.abspath(base)))
        encoders = {name for name, folder in self._named.items() if not _classifies(folder)}
        self._own = [name for name in dict.fromkeys(given) if name not in encoders]
        if given and not self._own:
            raise CheckpointError(
                f"{', '.join(str(self[one]) for one in given)}: no classifier, so nothing that grades "
                "pairs; tune it with `qt-bert train`, and give what comes of it with --model"
            )
        self.left_out = tuple(sorted(encoders.intersection(given) - {self._base}))
        every = dict.fromkeys([*self._own, *there])
        self.names = tuple(name for name in every if name not in encoders)
        if not self.names:
            raise CheckpointError("this installation ships no model; give a folder with --model")
        if base is not None and self._base not in map(self.base_of, self._own):
            raise ArgumentError(
                f"--base {base}: {' or '.join(self._own)} cannot come of it: other layers, heads, "
                "positions or vocabulary, or the same folder"
                if given
                else f"--base {base}: goes with --model; what ships is shown beside its own base"
            )

    def __getitem__(self, name: str) -> Path:
        """The folder of a model or a base."""
        return self._named[name]

    def base_of(self, name: str) -> str | None:
        """The name of the model before fine-tuning, where it is known and of the same shape."""
        known = self._known_base(name)
        if known is None or known == name or known not in self._named:
            return None
        one, other = (unmarked(record_of(self[at], "config.json")) for at in (name, known))
        return known if all(one.get(key) == other.get(key) for key in _SHAPE) else None

    def _known_base(self, name: str) -> str | None:
        """The option, of a model that was given; else what ships says, or the training record."""
        if self._base is not None and name in self._own:
            return self._base
        for tuned, base in zip(*map(shipped_folders, (GRADED, PRETRAINED)), strict=False):
            if tuned.resolve() == self[name].resolve():
                return self._add(base)
        recorded = record_of(self[name], "training.json").get("base")
        return recorded if isinstance(recorded, str) else None

    def _add(self, folder: Path, mark: str = "") -> str:
        """The name of a folder, each under one: its own, or where that is taken one that tells them apart."""
        for name, there in self._named.items():
            if there.resolve() == folder.resolve():
                return name
        names = (folder.name, f"{folder.name}{mark}", f"{folder.parent.name}/{folder.name}")
        name = next((one for one in names if one not in self._named), str(folder))
        self._named[name] = folder
        return name


def checkpoints_in(models: Path) -> list[Path]:
    """`models` itself where it is a checkpoint, else those directly in it, by name.

    Raises CheckpointError where there is none.
    """
    models = Path(os.path.abspath(models))
    inside = (
        sorted(models.iterdir()) if models.is_dir() and not _is_checkpoint(models) else [models]
    )
    if not (found := list(filter(_is_checkpoint, inside))):
        raise CheckpointError(
            f"{models}: no checkpoint here; give a folder that holds folders with config.json and "
            "*.safetensors, or one of these"
        )
    return found


def shipped_folders(*names: str) -> list[Path]:
    """The folders of these names, as far as this installation has them."""
    found = []
    for name in names:
        with suppress(ArgumentError):
            found.append(shipped(name))
    return found


def _is_checkpoint(folder: Path) -> bool:
    hidden = folder.name.startswith(".")
    return not hidden and (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


def _classifies(folder: Path) -> bool:
    """Whether it grades: by its weights, or as a language model that answers yes or no.

    What cannot be read is offered too, so that opening it names the fault.
    """
    from safetensors import SafetensorError

    if record_of(folder, CARD).get("template"):
        return True
    try:
        return any(map(_CLASSIFIER.match, _weights(folder)))
    except (SafetensorError, OSError):
        return True


def _weights(folder: Path) -> Iterator[str]:
    from safetensors import safe_open

    for path in folder.glob("*.safetensors"):
        with safe_open(path, "np") as handle:
            yield from handle.keys()


def record_of(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object beside the weights; empty where there is none that can be read."""
    try:
        value = read_json(folder / name)
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
