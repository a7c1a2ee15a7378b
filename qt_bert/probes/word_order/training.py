"""Whether a checkpoint was trained on shuffled titles, as far as its folder says."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from qt_bert.errors import CheckpointError

RULE = "shuffled_"
"""How the rules that make shuffled titles begin (`qt-bert make-pairs`)."""

RECORDS = ("training.json", "README.md")

Trained = Literal["yes", "unknown"]


def trained_on_shuffled(folder: Path) -> Trained:
    """`yes` where the record of training or the model card names such a rule.

    A folder that names none says nothing: a file of made pairs may hold them all the same.
    """
    return "yes" if any(RULE in _text(folder / name) for name in RECORDS) else "unknown"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from error
