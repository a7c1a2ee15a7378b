"""Keys of stages: two runs of a stage with one key give the same files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.results.codec import encode
from qt_bert.shipped import shipped, ships
from qt_bert.study.record import RunRecord
from qt_bert.study.stage import Stage


def stage_key(stage: Stage, record: RunRecord, needed: Mapping[str, str]) -> str:
    """SHA-256 over all that the stage's files depend on.

    `needed` maps the stages whose results it reads to their keys.
    Raises ArgumentError when the run lacks an argument that the stage names.
    """
    inputs = record.inputs
    missing = [name for name in stage.arguments if name not in inputs.arguments]
    if missing:
        raise ArgumentError(f"stage {stage.name!r} needs the argument {missing[0]!r}")
    parts = {
        "stage": stage.name,
        "source": record.source,
        "versions": record.versions,
        "model": inputs.model.sha256,
        "pairs": inputs.pairs.sha256,
        "segmenter": inputs.segmenter,
        "arguments": {name: encode(inputs.arguments[name]) for name in stage.arguments},
        "needs": dict(needed),
        "reads": {name: sha256_file(shipped(name)) for name in stage.reads if ships(name)},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
