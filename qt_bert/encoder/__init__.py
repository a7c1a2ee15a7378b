"""Checkpoints opened, verified and saved; the encoder families and the layer-by-layer forward.

Names are imported when first used: what only looks at the files of a folder needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qt_bert.encoder.card import ModelLabels, ModelSettings
    from qt_bert.encoder.checkpoint import (
        DTYPES,
        Checkpoint,
        has_bfloat16,
        open_checkpoint,
        open_tokenizer,
    )
    from qt_bert.encoder.families import FAMILIES, Family
    from qt_bert.encoder.forward import Encoder
    from qt_bert.encoder.hub import resolve_folder
    from qt_bert.encoder.loading import positions_of
    from qt_bert.encoder.saving import save_checkpoint

_HOME = {
    "DTYPES": "checkpoint",
    "FAMILIES": "families",
    "Checkpoint": "checkpoint",
    "Encoder": "forward",
    "Family": "families",
    "ModelLabels": "card",
    "ModelSettings": "card",
    "has_bfloat16": "checkpoint",
    "open_checkpoint": "checkpoint",
    "open_tokenizer": "checkpoint",
    "positions_of": "loading",
    "resolve_folder": "hub",
    "save_checkpoint": "saving",
}

__all__ = [
    "DTYPES",
    "FAMILIES",
    "Checkpoint",
    "Encoder",
    "Family",
    "ModelLabels",
    "ModelSettings",
    "has_bfloat16",
    "open_checkpoint",
    "open_tokenizer",
    "positions_of",
    "resolve_folder",
    "save_checkpoint",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'qt_bert.encoder' has no attribute {name!r}")
    return getattr(import_module(f"qt_bert.encoder.{_HOME[name]}"), name)
