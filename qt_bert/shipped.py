"""Paths of the shipped data: beside a source checkout, or inside an installed wheel."""

from __future__ import annotations

from pathlib import Path

from qt_bert.errors import ArgumentError

_PACKAGE = Path(__file__).resolve().parent
_ROOTS = (_PACKAGE.parent / "data", _PACKAGE / "_shipped")

GRADED = "checkpoints/graded"
PRETRAINED = "checkpoints/pretrained"
STUDENT = "checkpoints/student"
TRAIN, DEV, TEST = ("pairs/train.tsv", "pairs/dev.tsv", "pairs/test.tsv")
CASES = "cases.tsv"
BASELINES = "baselines"
PATTERNS = "patterns"
BEHAVIOURS = "behaviours/cases.tsv"


def shipped(name: str) -> Path:
    """The path of a shipped file or folder, such as `pairs/test.tsv` or `checkpoints/graded`.

    Raises ArgumentError where this installation lacks it.
    """
    for root in _ROOTS:
        if (root / name).exists():
            return root / name
    raise ArgumentError(
        f"this installation ships no {name}; give a path of your own (--model, --pairs)"
    )


def ships(name: str) -> bool:
    """Whether this installation holds `name`."""
    return any((root / name).exists() for root in _ROOTS)
