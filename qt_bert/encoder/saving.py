"""Saving a checkpoint as a plain Hugging Face folder: whole, or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as hf_logging

from qt_bert.encoder.card import ModelSettings
from qt_bert.encoder.manifest import write_manifest
from qt_bert.errors import RunFolderError


def save_checkpoint(
    folder: str | Path,
    model: Any,
    tokenizer: Any,
    *,
    state: Mapping[str, torch.Tensor] | None = None,
    settings: ModelSettings | None = None,
    texts: Mapping[str, str] | None = None,
    dtype: torch.dtype = torch.float16,
    overwrite: bool = False,
) -> Path:
    """Write config, weights (`state` or the model's own, cast to `dtype`), tokenizer and manifest.

    The config keeps the model's own dtype, so that the Auto classes open float16 files in float32.
    `settings` becomes `qt_bert.json`; `texts` are further files, name → content.

    The folder is made beside its place and renamed into it: a kill leaves nothing half-written (at
    worst the old folder stands beside its place as `.NAME.old`). Raises RunFolderError where `folder` holds anything and `overwrite` is False.
    """
    final = Path(folder)
    if final.exists() and any(final.iterdir()) and not overwrite:
        raise RunFolderError(f"{final} is not empty; choose another folder, or --overwrite")
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    try:
        source = model.state_dict() if state is None else state
        tied = getattr(model, "_tied_weights_keys", None) or {}
        weights = {k: v.to(dtype) for k, v in source.items() if k not in tied}
        hf_logging.disable_progress_bar()
        model.save_pretrained(temporary, state_dict=weights)
        tokenizer.save_pretrained(temporary)
        if settings is not None:
            settings.write(temporary)
        for name, text in (texts or {}).items():
            (temporary / name).write_text(text, encoding="utf-8")
        write_manifest(temporary)
        _swap(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final


def _swap(new: Path, final: Path) -> None:
    new.chmod(0o755)
    for file in new.iterdir():
        file.chmod(0o644)
    if final.exists():
        old = final.with_name(f".{final.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
        new.rename(final)
        shutil.rmtree(old)
    else:
        new.rename(final)
