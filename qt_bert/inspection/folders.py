"""The model folders that a page offers, found without opening any: no torch is needed to refuse one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import read_json
from qt_bert.shipped import GRADED, PRETRAINED, STUDENT, shipped


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


def model_folders(models: Path | None, base: str | None = None) -> dict[str, Path]:
    """Name → folder: those given, then what ships, each folder once.

    Raises CheckpointError where there is none, ArgumentError for a `base` that is none of them.
    """
    given = [] if models is None else checkpoints_in(Path(os.path.abspath(models)))
    found = {one.name: one for one in given}
    there = {one.resolve() for one in given}
    for folder in shipped_folders(GRADED, STUDENT, PRETRAINED):
        if folder.resolve() not in there:
            name = folder.name if folder.name not in found else f"{folder.name} (shipped)"
            found[name] = folder
    if not found:
        raise CheckpointError("this installation ships no model; give a folder with --models")
    if base is not None and base not in found:
        raise ArgumentError(f"--base {base!r}: there is {', '.join(found)}")
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


def _says_classifier(folder: Path) -> bool:
    kinds = record_of(folder, "config.json").get("architectures")
    return isinstance(kinds, list) and any("Classification" in str(kind) for kind in kinds)


def record_of(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object beside the weights; empty where there is none that can be read."""
    try:
        value = read_json(folder / name)
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
