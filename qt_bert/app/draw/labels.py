"""How a chart is told its labels, and how wide they are.

Labels travel as lists beside the data, which holds their places alone: two tokens may be the same
character, and a text of a visitor never becomes a formula.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, Literal

Spec = dict[str, Any]

FONT = 12
SMALL = 11
LABEL_PIXELS = 150
_AIR = 1
_TALL = 1.3


def labelled(name: str, labels: Sequence[str]) -> Spec:
    """A parameter that holds the labels of an axis or legend; `label_of(name)` shows one."""
    return {"name": name, "value": list(labels)}


def label_of(name: str) -> str:
    """The expression for an axis's or legend's label, by its place."""
    return f"{name}[datum.value]"


def beside(
    name: str, labels: Sequence[str], orient: Literal["top", "bottom"], size: float = FONT
) -> tuple[list[Spec], Spec]:
    """Labels side by side over or under a chart: the parameters, and what the axis says of them.

    The browser alone knows the width. There a label wider than its place stands upright, and where
    labels would touch even so, some are left out.
    """
    widths = [round(min(width_of(label, size), LABEL_PIXELS)) for label in labels]
    widths = [width if width > _TALL * size else 0 for width in widths]  # turning wins nothing
    wide = f"{name}_widths[datum.value] > width / {max(len(labels), 1)} - {_AIR}"
    params = [labelled(name, labels), {"name": f"{name}_widths", "value": widths}]
    away, near = ("left", "bottom") if orient == "top" else ("right", "top")
    return params, {
        "orient": orient,
        "labelExpr": label_of(name),
        "labelAngle": {"expr": f"{wide} ? -90 : 0"},
        "labelAlign": {"expr": f"{wide} ? '{away}' : 'center'"},
        "labelBaseline": {"expr": f"{wide} ? 'middle' : '{near}'"},
        "labelFontSize": size,
        "labelOverlap": "greedy",
        "labelSeparation": _AIR,
        "labelFlush": False,
        "grid": False,
    }


def width_of(text: str, size: float = FONT) -> float:
    """About how many pixels a text takes: a Chinese character is as wide as it is high."""
    return sum(_em(character) for character in text) * size


def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.56
