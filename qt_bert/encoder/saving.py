"""Saving a checkpoint as a plain Hugging Face folder: whole, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as hf_logging

from qt_bert.encoder.card import ModelSettings
from qt_bert.encoder.manifest import write_manifest
from qt_bert.encoder.marking import mark
from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_folder, is_vacant


def check_place(folder: Path, overwrite: bool) -> None:
    """Raise RunFolderError where no model can be saved in `folder`: a file, or it holds anything and
    `overwrite` is False."""
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file; --out names a folder")
    if not is_vacant(folder) and not overwrite:
        raise RunFolderError(f"{folder} is not empty; choose another folder, or --overwrite")


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
    `settings` becomes `qt_bert.json`; `texts` are further files, name → content. The config of an
    offline model says that it is one (`marking`).

    The folder is written whole or not at all (`atomic_folder`). Raises RunFolderError as
    `check_place` does.
    """
    final = Path(folder)
    check_place(final, overwrite)
    with atomic_folder(final) as temporary:
        source = model.state_dict() if state is None else state
        tied = getattr(model, "_tied_weights_keys", None) or {}
        weights = {k: v.to(dtype) for k, v in source.items() if k not in tied}
        hf_logging.disable_progress_bar()
        model.save_pretrained(temporary, state_dict=weights)
        tokenizer.save_pretrained(temporary)
        if settings is not None:
            settings.write(temporary)
            if settings.offline is not None:
                mark(temporary)
        for name, text in (texts or {}).items():
            (temporary / name).write_text(text, encoding="utf-8")
        write_manifest(temporary)
    return final
