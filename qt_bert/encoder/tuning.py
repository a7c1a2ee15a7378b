"""Opening any encoder folder as the start of a fine-tuning run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.utils import logging as hf_logging

from qt_bert.encoder.families import Family
from qt_bert.encoder.verify import verify_folder, weight_shapes
from qt_bert.errors import CheckpointError


def open_for_tuning(folder: Path, labels: int) -> tuple[Any, Family]:
    """A sequence classifier with `labels` outputs whose encoder comes from `folder`, in float32.

    Pooler and classifier may be absent (they start at random, from torch's seed); a classifier of
    another size is replaced. Raises CheckpointError where an encoder weight is missing, and for
    every fault `verify_folder` knows.
    """
    _, family = verify_folder(folder)
    weight_shapes(folder)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    config.num_labels = labels
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        model, info = AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            attn_implementation="eager",
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except Exception as error:  # transformers has no common error for weights that do not fit
        raise CheckpointError(f"{folder}: the weights do not fit the config ({error})") from error
    finally:
        hf_logging.set_verbosity_warning()
    lost = [
        name
        for name in {*info["missing_keys"], *(key[0] for key in info["mismatched_keys"])}
        if not name.startswith("classifier.") and ".pooler." not in name
    ]
    if lost:
        raise CheckpointError(
            f"{folder}: encoder weights are missing or of another size: {lost[0]}"
        )
    return model, family
