"""Models of an architecture: new ones from a base, stored ones from their folder."""

from __future__ import annotations

from pathlib import Path

import torch

from qt_bert.encoder.architectures.model import (
    PairConfig,
    PairModel,
    encoder_config,
    without_pooler,
)
from qt_bert.encoder.architectures.registry import Architecture
from qt_bert.encoder.loading import load_config, positions_of
from qt_bert.encoder.tuning import open_for_tuning
from qt_bert.encoder.verify import weight_shapes
from qt_bert.errors import CheckpointError


def new_model(architecture: Architecture, base: Path, labels: int) -> PairModel:
    """A model with `labels` outputs to be trained, in float32, drawn from torch's seed.

    The folder `base` gives the encoder's weights where the architecture has one, else the size of
    the vocabulary alone. Raises CheckpointError as `open_for_tuning` does.
    """
    model, family = open_for_tuning(base, labels) if architecture.encodes else (None, None)
    config = load_config(base) if model is None else model.config
    made = architecture.model(
        PairConfig(
            model_type=architecture.model_type,
            num_labels=labels,
            vocab_size=int(config.vocab_size),
            pad_token_id=int(config.pad_token_id or 0),
            max_position_embeddings=positions_of(config),
            encoder=None if model is None else encoder_config(config),
        )
    )
    if model is not None and family is not None:
        setattr(made, family.backbone, without_pooler(getattr(model, family.backbone)))
    return made


def stored_model(folder: Path, architecture: Architecture, config: PairConfig) -> PairModel:
    """The model of a folder, in float32.

    Raises CheckpointError where a weight is missing, unknown or of another shape than the config says.
    """
    from safetensors.torch import load_file
    from transformers.initialization import no_init_weights

    weight_shapes(folder)  # a truncated file is refused here
    state: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        state |= {name: value.float() for name, value in load_file(path).items()}
    try:
        with no_init_weights():
            model = architecture.model(config)
        model.load_state_dict(state)
    except CheckpointError:
        raise
    except Exception as error:  # transformers' configs and load_state_dict have no common error
        raise CheckpointError(f"{folder}: the weights do not fit the config ({error})") from error
    return model
