"""The one file a training run resumes from: tensors and plain values, replaced atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_write

STATE_FILE = "state.safetensors"


def save_state(folder: Path, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
    """Store tensors and JSON-able `values` as `folder/state.safetensors` (old or new, never half)."""
    with atomic_write(folder / STATE_FILE) as temporary:
        save_file(
            {k: v.contiguous() for k, v in tensors.items()},
            temporary,
            metadata={"values": json.dumps(values)},
        )


def load_state(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """What `save_state` stored, or None where there is none.

    Raises RunFolderError where the file is not a training state.
    """
    path = folder / STATE_FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as handle:
            metadata = handle.metadata() or {}
            tensors = {k: handle.get_tensor(k) for k in handle.keys()}  # noqa: SIM118
        return tensors, json.loads(metadata["values"])
    except Exception as error:
        raise RunFolderError(
            f"{path} is not a training state ({error}); start anew with --overwrite"
        ) from error


def same_settings(folder: Path, stored: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse to resume a run under other settings (RunFolderError naming the first that differ)."""
    differ = [k for k in sorted(stored.keys() | asked.keys()) if stored.get(k) != asked.get(k)]
    if differ:
        shown = "; ".join(f"{k}: {stored.get(k)!r} then, {asked.get(k)!r} now" for k in differ[:3])
        raise RunFolderError(
            f"{folder} holds a run with other settings ({shown}); "
            "resume with the same, or start anew with --overwrite"
        )
