"""Opening any encoder folder as the start of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoModelForSequenceClassification, BertForPreTraining

from qt_bert.encoder.families import Family
from qt_bert.encoder.loading import load_config, load_weights, without_dropout
from qt_bert.encoder.verify import verify_folder
from qt_bert.errors import CheckpointError


def open_for_tuning(folder: Path, labels: int) -> tuple[Any, Family]:
    """A sequence classifier with `labels` outputs whose encoder comes from `folder`, in float32.

    Pooler and classifier may be absent (they start at random, from torch's seed); a classifier of
    another size is replaced; dropout is off. Raises CheckpointError where an encoder weight is
    missing, and for every fault `verify_folder` knows.
    """
    _, family = verify_folder(folder)
    config = without_dropout(load_config(folder))
    config.num_labels = labels
    model, info = load_weights(AutoModelForSequenceClassification, folder, config, resize=True)
    lost = [
        name
        for name in {*info["missing_keys"], *(key[0] for key in info["mismatched_keys"])}
        if not name.startswith("classifier.") and ".pooler." not in name
    ]
    if lost:
        raise CheckpointError(
            f"{folder}: encoder weights are missing or of another size: {min(lost)}"
        )
    return model, family


def open_for_pretraining(folder: Path) -> BertForPreTraining:
    """The `BertForPreTraining` of a folder, in float32, dropout off.

    Raises CheckpointError for another family, for missing weights, and as `verify_folder` does.
    """
    config, family = verify_folder(folder)
    if family.model_type != "bert":
        raise CheckpointError(
            f"{folder}: pretraining goes on from a BERT, not {config['model_type']}"
        )
    model, info = load_weights(BertForPreTraining, folder, without_dropout(load_config(folder)))
    if info["missing_keys"]:
        raise CheckpointError(
            f"{folder}: weights are missing ({min(info['missing_keys'])}); pretraining goes on "
            "from a BertForPreTraining folder"
        )
    loaded: BertForPreTraining = model
    return loaded
