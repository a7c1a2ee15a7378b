"""Checkpoints opened, verified and saved; the encoder families and the layer-by-layer forward."""

from qt_bert.encoder.card import ModelLabels, ModelSettings
from qt_bert.encoder.checkpoint import (
    DTYPES,
    Checkpoint,
    has_bfloat16,
    open_checkpoint,
    open_tokenizer,
    positions_of,
    resolve_folder,
)
from qt_bert.encoder.families import FAMILIES, Family
from qt_bert.encoder.forward import Encoder
from qt_bert.encoder.saving import save_checkpoint

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
