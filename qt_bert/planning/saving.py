"""A smaller model as a folder: weights, and `kept.json`, which names every head as the teacher does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from qt_bert.encoder import Checkpoint, save_checkpoint
from qt_bert.errors import ArgumentError
from qt_bert.results.codec import encode
from qt_bert.results.kept import KEPT


def save_smaller(
    folder: str | Path,
    checkpoint: Checkpoint,
    *,
    state: Mapping[str, torch.Tensor] | None = None,
    texts: Mapping[str, str] | None = None,
    dtype: torch.dtype = torch.float16,
    overwrite: bool = False,
) -> Path:
    """Write a checkpoint that `smaller_checkpoint` made, with `kept.json`, as `save_checkpoint` does.

    Its calibration is left out: it was fitted to the teacher's outputs. Raises ArgumentError for a
    checkpoint that is no smaller model, RunFolderError as `save_checkpoint` does.
    """
    if checkpoint.kept is None or not checkpoint.compact:
        raise ArgumentError(
            f"{checkpoint.name} is no smaller model; it has nothing to say in {KEPT}"
        )
    kept = json.dumps(encode(checkpoint.kept), ensure_ascii=False, indent=1)
    return save_checkpoint(
        folder,
        checkpoint.model,
        checkpoint.tokenizer,
        state=state,
        settings=replace(checkpoint.settings, calibration=None),
        texts={KEPT: f"{kept}\n", **(texts or {})},
        dtype=dtype,
        overwrite=overwrite,
    )
