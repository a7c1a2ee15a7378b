"""Were two models trained alike but for the block? By what their folders say of their making."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError
from qt_bert.files import read_json

FACTS = "training.json"
BLOCK = ("offline_layers", "title_start", "title_tokens", "layers_above")
"""What may differ between an offline model and its control, by the names in `asked`."""

_DATA = ("texts_sha256", "data_sha256")
"""Hashes of the training pairs: of their texts, or of their tokens, which a block may cut elsewhere."""


def check_same_recipe(offline: Path, control: Path) -> None:
    """Raise ArgumentError unless both folders were trained on the same pairs, from the same base, with
    the same settings and seed."""
    one, other = _facts(offline, "--offline"), _facts(control, "--offline-control")
    asked, expected = _asked(one), _asked(other)
    differ = [
        f"{name}: {asked.get(name)!r} and {expected.get(name)!r}"
        for name in sorted(asked.keys() | expected.keys())
        if asked.get(name) != expected.get(name)
    ]
    known = next((name for name in _DATA if name in one and name in other), None)
    if known is None or one[known] != other[known]:
        differ.append(f"the training pairs, by {known or 'their hash, which is not there'}")
    if differ:
        raise ArgumentError(
            f"--offline {offline} and --offline-control {control} differ in more than the block "
            f"({'; '.join(differ[:3])}); train the control by the same command without "
            "--offline-layers"
        )


def _asked(facts: dict[str, Any]) -> dict[str, Any]:
    """All that was asked of a training but the block."""
    return {name: value for name, value in facts["asked"].items() if name not in BLOCK}


def _facts(folder: Path, option: str) -> dict[str, Any]:
    """What a folder says of its making. Raises ArgumentError where that is not enough."""
    try:
        found = read_json(folder / FACTS)
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError(
            f"{option} {folder}: no {FACTS} that can be read ({error}); give a folder made by "
            "`qt-bert train`"
        ) from error
    if not isinstance(found, dict) or not isinstance(found.get("asked"), dict):
        raise ArgumentError(
            f"{option} {folder}: its {FACTS} does not say what was asked of the training; give a "
            "folder made by `qt-bert train`, not one that was averaged or made otherwise"
        )
    return found
