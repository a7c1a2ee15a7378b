"""Whether a checkpoint was trained on shuffled titles, as far as its folder says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from qt_bert.errors import CheckpointError

CARD = "README.md"

RULE = re.compile(r"^\| `shuffled_\w+` \|", re.MULTILINE)
"""A card's table row of a rule that makes shuffled titles (`experiments/make_pairs`)."""

Trained = Literal["yes", "unknown"]


def trained_on_shuffled(folder: Path) -> Trained:
    """`yes` where a table of the model card counts the pairs of such a rule.

    A card without one says nothing: a file of made pairs may hold them all the same.
    """
    return "yes" if RULE.search(_text(folder / CARD)) else "unknown"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from error
