"""Opening a folder whose layers have shapes of their own, which transformers cannot describe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification
from transformers.initialization import no_init_weights

from qt_bert.encoder.families import Family
from qt_bert.encoder.smaller import resized
from qt_bert.encoder.verify import weight_shapes
from qt_bert.errors import ArgumentError, CheckpointError, QtBertError
from qt_bert.results.kept import KEPT, KeptFile, check_kept


def open_kept(folder: Path, config: Any) -> KeptFile | None:
    """What the model of `folder` keeps of its teacher; None where it is no smaller model.

    Raises CheckpointError where `kept.json` is damaged or speaks of another shape than the config.
    """
    try:
        kept = KeptFile.read(folder)
    except QtBertError as error:
        raise CheckpointError(str(error)) from error
    if kept is None:
        return None
    try:
        check_kept(kept.layers, kept.teacher)
    except ArgumentError as error:
        raise CheckpointError(f"{folder / KEPT}: {error}; fetch the folder anew") from error
    there = (config.num_hidden_layers, config.num_attention_heads)
    if there != (len(kept.layers), kept.teacher.heads):
        raise CheckpointError(
            f"{folder / KEPT} speaks of {len(kept.layers)} layers of {kept.teacher.heads} heads, "
            f"config.json of {there[0]} of {there[1]}; they belong to different models"
        )
    return kept


def load_kept(folder: Path, config: Any, family: Family, kept: KeptFile, attention: str) -> Any:
    """The classifier in float32, each layer in its stored shape.

    Raises CheckpointError where a weight is missing, unknown, or of another shape than `kept` says.
    """
    from safetensors.torch import load_file

    with no_init_weights():
        model = AutoModelForSequenceClassification.from_config(
            config, dtype=torch.float32, attn_implementation=attention
        )
    weight_shapes(folder)  # a truncated file is refused here
    state: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        state |= {name: value.float() for name, value in load_file(path).items()}
    try:
        resized(model, family, kept.layers).load_state_dict(state)
    except (RuntimeError, IndexError) as error:  # of a unit beyond the config's
        raise CheckpointError(
            f"{folder}: the weights do not fit {KEPT} ({error}); fetch the folder anew"
        ) from error
    return model
