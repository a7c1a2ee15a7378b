"""The shapes that marks of different series have, all of about one area."""

from __future__ import annotations

import math

from qt_bert.report.charts.canvas import Place
from qt_bert.results.palette import SHAPES

_ROUND = 16
_ARM = 0.36


def outline(shape: str, centre: Place, radius: float) -> list[Place]:
    """The corners of one of `palette.SHAPES` around `centre`, in pixels."""
    return [(centre[0] + radius * x, centre[1] + radius * y) for x, y in _CORNERS[shape]]


def _polygon(corners: int, start: float, size: float) -> list[Place]:
    """A regular one, its first corner at `start` of a full turn from the right."""
    angles = [2 * math.pi * (start + k / corners) for k in range(corners)]
    return [(size * math.cos(angle), size * math.sin(angle)) for angle in angles]


def _cross() -> list[Place]:
    arm = [(1.15, -_ARM), (1.15, _ARM), (_ARM, _ARM)]
    turned = [(math.cos(t), math.sin(t)) for t in (k * math.pi / 2 for k in range(4))]
    return [(x * c - y * s, x * s + y * c) for c, s in turned for x, y in arm]


_CORNERS: dict[str, list[Place]] = dict(
    zip(
        SHAPES,
        (
            _polygon(_ROUND, 0, 1.0),
            _polygon(4, 1 / 8, 1.2),
            _polygon(4, 0, 1.3),
            _polygon(3, 3 / 4, 1.4),
            _polygon(3, 1 / 4, 1.4),
            _cross(),
        ),
        strict=True,
    )
)
