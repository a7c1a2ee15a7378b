"""What a model folder must hold before any weight is read: each fault has its own clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qt_bert.encoder.architectures.registry import Architecture, architecture_of
from qt_bert.encoder.card import CARD, stored_block
from qt_bert.encoder.families import Family, family_of
from qt_bert.encoder.manifest import verify_manifest
from qt_bert.encoder.marking import is_marked, unmarked
from qt_bert.errors import CheckpointError

_VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
)
_PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def verify_folder(folder: Path) -> tuple[dict[str, Any], Family]:
    """Check the folder of a model with attention heads; returns its config and family.

    Raises CheckpointError as `verify_model` does, and for an architecture without heads.
    """
    config, kind = verify_model(folder)
    if isinstance(kind, Architecture):
        raise kind.no_heads(folder.name)
    return config, kind


def verify_model(folder: Path) -> tuple[dict[str, Any], Family | Architecture]:
    """Check a checkpoint folder; returns its config and what kind of model it is.

    Raises CheckpointError for: no folder, no or broken config.json, code of its own (`auto_map`),
    an unknown family, pickled or missing weights, a missing vocabulary, a damaged file, an offline
    model whose block is missing.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder; give a folder with config.json")
    stored = _config(folder)
    config = unmarked(stored)
    if config.get("auto_map") or any(folder.glob("modeling_*.py")):
        raise CheckpointError(
            f"{folder}: this model brings code of its own (auto_map), which is never run; "
            "convert it to one of the built-in architectures"
        )
    kind = architecture_of(config.get("model_type")) or family_of(
        str(config.get("model_type")), str(folder / "config.json")
    )
    _weights_present(folder)
    if not any((folder / name).exists() for name in _VOCABULARIES):
        raise CheckpointError(
            f"{folder}: no vocabulary; copy the model's {_VOCABULARIES[0]} or {_VOCABULARIES[1]}"
        )
    verify_manifest(folder)
    if is_marked(stored) and stored_block(folder) is None:
        raise CheckpointError(
            f"{folder}: an offline model without `offline` in {CARD}, which says how it reads a "
            "pair; fetch the folder anew"
        )
    return config, kind


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        raise CheckpointError(f"{folder}: no config.json; is this a Hugging Face model folder?")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return config


def _weights_present(folder: Path) -> None:
    if any(folder.glob("*.safetensors")):
        return
    pickled = sorted(p.name for pattern in _PICKLES for p in folder.glob(pattern))
    if pickled:
        raise CheckpointError(
            f"{folder}: {pickled[0]} is a pickle, which can run code when opened; convert it once, "
            "where you trust it, with `model.save_pretrained(..., safe_serialization=True)`"
        )
    raise CheckpointError(f"{folder}: no weights (*.safetensors)")


def weight_shapes(folder: Path) -> dict[str, list[int]]:
    """Name → shape of every stored tensor, from the headers alone.

    Raises CheckpointError where a file is truncated or no safetensors file.
    """
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, list[int]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "pt") as handle:
                for name in handle.keys():  # noqa: SIM118 - not a mapping
                    shapes[name] = handle.get_slice(name).get_shape()
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{path}: truncated or not a safetensors file ({error}); fetch it anew"
            ) from error
    return shapes
