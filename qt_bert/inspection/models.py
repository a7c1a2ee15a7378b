"""The models that a page offers: opened when first asked for, shared by all visitors."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import read_json
from qt_bert.inspection.work import ModelLock, Worker
from qt_bert.shipped import GRADED, PRETRAINED, STUDENT, shipped

if TYPE_CHECKING:
    from qt_bert.inspection.inspected import Inspected
    from qt_bert.models.checkpoint import Checkpoint

MOST_OPEN = 4
_SHAPE = (
    "model_type",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
    "vocab_size",
)
"""What a model and the one it was tuned from have in common."""


class Shelf:
    """Models by name, with the lock and the worker that all of them share.

    `models` is a checkpoint folder, or a folder of such; what ships stands behind them. `base` names
    the model that those of `models` were tuned from; without it their own training record is asked.
    At most four models stay open. Raises CheckpointError for a folder without a checkpoint,
    ArgumentError for a `base` that is not there.
    """

    def __init__(self, models: Path | None = None, *, base: str | None = None) -> None:
        self.lock = ModelLock()
        self.worker = Worker(self.lock)
        self._base = base
        self._folders = _folders(models)
        if base is not None and base not in self._folders:
            raise ArgumentError(f"--base {base!r}: there is {', '.join(self._folders)}")
        self._open: OrderedDict[str, Inspected] = OrderedDict()
        self._listed = threading.Lock()
        self._opening = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names, the default first."""
        return tuple(self._folders)

    def folder_of(self, name: str) -> Path:
        """Where the model lies. Raises ArgumentError for a name that is not on the shelf."""
        if name not in self._folders:
            raise ArgumentError(f"no model {name[:40]!r}; there is {', '.join(self._folders)}")
        return self._folders[name]

    def open(self, name: str) -> Inspected:
        """The model, opened once for all.

        Raises ArgumentError for an unknown name, CheckpointError and EquivalenceError as opening
        does. Opening takes the lock, so that whoever holds it could wait for ever: RuntimeError.
        """
        self.folder_of(name)
        found = self._opened(name)
        if found is not None:
            return found
        if self.lock.mine:
            raise RuntimeError("a model that is not open yet must not be opened under the lock")
        with self._opening:  # one at a time: opening seeds torch's random numbers
            return self._opened(name) or self._keep(name, self._inspected(name))

    def base_of(self, name: str) -> str | None:
        """The name of the model before fine-tuning, where it is known and of the same shape."""
        folder = self.folder_of(name)
        known = self._known_base(folder)
        if known is None or known == name or known not in self._folders:
            return None
        one, other = (_config(at) for at in (folder, self._folders[known]))
        return known if all(one.get(key) == other.get(key) for key in _SHAPE) else None

    def _known_base(self, folder: Path) -> str | None:
        """What ships says, else the option, else the model's own training record."""
        places = {at.resolve(): name for name, at in self._folders.items()}
        ours = dict(zip(_shipped(GRADED), _shipped(PRETRAINED), strict=False))
        if folder in ours:
            return places.get(ours[folder].resolve())
        recorded = _record(folder, "training.json").get("base")
        return self._base or (recorded if isinstance(recorded, str) else None)

    def _opened(self, name: str) -> Inspected | None:
        with self._listed:
            if name in self._open:
                self._open.move_to_end(name)
            return self._open.get(name)

    def _keep(self, name: str, inspected: Inspected) -> Inspected:
        with self._listed:
            self._open[name] = inspected
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return inspected

    def _inspected(self, name: str) -> Inspected:
        from qt_bert.inspection.inspected import Inspected
        from qt_bert.models.checkpoint import open_checkpoint

        folder = self._folders[name]
        tuned = next((one for one in self._folders if self.base_of(one) == name), None)
        if tuned is None or _has_classifier(folder):
            return Inspected(name, open_checkpoint(folder), self.worker)
        return Inspected(name, self._base_checkpoint(folder, tuned), self.worker, classifies=False)

    def _base_checkpoint(self, folder: Path, tuned: str) -> Checkpoint:
        """An encoder without a classifier, opened like the model that was tuned from it."""
        from qt_bert.models.checkpoint import open_checkpoint
        from qt_bert.probes.base_model import open_base

        found = self._opened(tuned)
        like = found.scorer.checkpoint if found else open_checkpoint(self._folders[tuned])
        return open_base(folder, like)


def checkpoints_in(models: Path) -> list[Path]:
    """`models` itself where it is a checkpoint, else those directly in it, classifiers first.

    Raises CheckpointError where there is none.
    """
    if _is_checkpoint(models):
        return [models]
    inside = sorted(models.iterdir()) if models.is_dir() else []
    found = [one for one in inside if _is_checkpoint(one)]
    if not found:
        raise CheckpointError(
            f"{models}: no checkpoint here; give a folder that holds folders with config.json and "
            "*.safetensors, or one of these"
        )
    return sorted(found, key=lambda folder: not _says_classifier(folder))


def _folders(models: Path | None) -> dict[str, Path]:
    """Name → folder: those given, then what ships, each folder once."""
    given = [] if models is None else checkpoints_in(Path(os.path.abspath(models)))
    found = {one.name: one for one in given}
    there = {one.resolve() for one in given}
    for folder in _shipped(GRADED, STUDENT, PRETRAINED):
        if folder.resolve() not in there:
            name = folder.name if folder.name not in found else f"{folder.name} (shipped)"
            found[name] = folder
    if not found:
        raise CheckpointError("this installation ships no model; give a folder with --models")
    return found


def _shipped(*names: str) -> list[Path]:
    """The folders of these names, as far as this installation has them."""
    found = []
    for name in names:
        with suppress(ArgumentError):
            found.append(shipped(name))
    return found


def _is_checkpoint(folder: Path) -> bool:
    hidden = folder.name.startswith(".")
    return not hidden and (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


def _says_classifier(folder: Path) -> bool:
    kinds = _record(folder, "config.json").get("architectures")
    return isinstance(kinds, list) and any("Classification" in str(kind) for kind in kinds)


def _has_classifier(folder: Path) -> bool:
    from qt_bert.models.folder import verify_folder, weight_shapes

    _, family = verify_folder(folder)
    return family.classifier in weight_shapes(folder)


def _config(folder: Path) -> dict[str, Any]:
    """The config.json as the model's family has it."""
    from qt_bert.models.card import unmarked

    return unmarked(_record(folder, "config.json"))


def _record(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object beside the weights; empty where there is none that can be read."""
    try:
        value = read_json(folder / name)
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
