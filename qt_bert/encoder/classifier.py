"""The classifier of a folder in float32: of a family, pruned or whole, or of another architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoModelForSequenceClassification

from qt_bert.encoder.architectures.model import PairConfig
from qt_bert.encoder.architectures.opening import stored_model
from qt_bert.encoder.architectures.registry import Architecture
from qt_bert.encoder.families import Family
from qt_bert.encoder.kept import load_kept, open_kept
from qt_bert.encoder.loading import load_config, load_weights
from qt_bert.encoder.smaller import with_absent_heads
from qt_bert.encoder.verify import weight_shapes
from qt_bert.errors import CheckpointError
from qt_bert.results.kept import KeptFile


def stored_classifier(
    folder: Path, kind: Family | Architecture, *, attention: str, compact: bool
) -> tuple[Any, KeptFile | None]:
    """The model of a verified folder, and what it keeps of its teacher.

    `attention` and `compact` as in `open_checkpoint`. Raises CheckpointError for weights that do not
    fit the config, and for one that is missing.
    """
    shapes = weight_shapes(folder)
    if isinstance(kind, Architecture):
        described = PairConfig.read(folder)
        _classifier_fits(folder, kind.classifier, shapes, described.num_labels)
        return stored_model(folder, kind, described), None
    config = load_config(folder)
    _classifier_fits(folder, kind.classifier, shapes, config.num_labels)
    kept = open_kept(folder, config)
    if kept is None or kept.plain:
        return _weights(folder, config, attention), kept
    loaded = load_kept(folder, config, kind, kept, attention)
    if not compact:
        with_absent_heads(loaded, kind, kept.layers, kept.teacher.heads)
    return loaded, kept


def _classifier_fits(
    folder: Path, classifier: str, shapes: dict[str, list[int]], labels: int
) -> None:
    shape = shapes.get(classifier)
    if shape is None:
        raise CheckpointError(
            f"{folder}: no classifier ({classifier}); this is an encoder that was never "
            "fine-tuned for classification: tune it with `qt-bert train`"
        )
    if shape[0] != labels:
        raise CheckpointError(
            f"{folder}: config.json speaks of {labels} labels, the classifier has {shape[0]} rows"
        )


def _weights(folder: Path, config: Any, attention: str) -> Any:
    loaded, info = load_weights(
        AutoModelForSequenceClassification, folder, config, attention=attention
    )
    missing = sorted(info["missing_keys"])
    if missing:
        raise CheckpointError(
            f"{folder}: {len(missing)} weights are missing ({', '.join(missing[:3])}…); "
            "transformers would start them at random, so the folder is refused"
        )
    return loaded
