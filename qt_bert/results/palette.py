"""The colours of report and page: one calm palette that colour-blind readers can tell apart.

The series are those of Okabe and Ito, darkened or lightened for contrast on white and on dark
pages. The report's style sheet holds the same values under the same names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qt_bert.results.figures import Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colours for one kind of page, as `#rrggbb`."""

    surface: str
    ink: str
    muted: str
    grid: str
    heat: str
    on_heat: str
    negative: str
    positive: str
    series: tuple[str, ...]


LIGHT = Palette(
    surface="#ffffff",
    ink="#1c2430",
    muted="#5b6675",
    grid="#e8ebef",
    heat="#08589e",
    on_heat="#ffffff",
    negative="#0072b2",
    positive="#d55e00",
    series=("#0072b2", "#d55e00", "#009e73", "#b07700", "#2f8fc9", "#b05c8f"),
)
DARK = Palette(
    surface="#1a2029",
    ink="#e7ebf0",
    muted="#a2adbb",
    grid="#28303b",
    heat="#74bdf2",
    on_heat="#0b1218",
    negative="#56b4e9",
    positive="#f0934a",
    series=("#56b4e9", "#f0934a", "#35c79a", "#e6b422", "#8fb8ff", "#e39ac6"),
)

SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
"""The shapes of things in a scatter, by the names that Vega knows them by."""


def shape_of(series: int) -> str:
    """The shape of a series by its number; as colours come round, another goes with each."""
    return SHAPES[(series + series // len(LIGHT.series)) % len(SHAPES)]


def span(
    values: Iterable[float | None],
    scale: Scale,
    low: float | None = None,
    high: float | None = None,
) -> tuple[float, float]:
    """From where to where colours go: over the range of `values`, or over `low`…`high` where given.

    Symmetric about zero when diverging; else never downwards, even where all values lie below `low`.
    """
    known = [value for value in values if value is not None] or [0.0]
    low = min(known) if low is None else low
    high = max(known) if high is None else high
    if scale == "diverging":
        high = max(abs(low), abs(high))
        return -high, high
    return low, max(low, high)


def contrasts_with_ink(palette: Palette, hue: str, share: float) -> bool:
    """Whether text on a fill, `share` of the way from surface to `hue`, is better in `ink`.

    Else in `on_heat`. By the contrast of WCAG 2, which compares luminances.
    """
    pairs = zip(_channels(palette.surface), _channels(hue), strict=True)
    fill = _luminance([a + (b - a) * share for a, b in pairs])
    return _contrast(fill, palette.ink) >= _contrast(fill, palette.on_heat)


def _contrast(fill: float, text: str) -> float:
    low, high = sorted((fill, _luminance(_channels(text))))
    return (high + 0.05) / (low + 0.05)


def _channels(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _luminance(channels: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
