"""The colours of report and page: one palette that colour-blind readers can distinguish.

The series are those of Okabe and Ito, darkened or lightened for contrast on white and on dark
pages. The report's style sheet holds the same values under the same names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal

from qt_bert.figures import Scale

Hue = Literal["heat", "negative", "positive"]
Ink = Literal["ink", "on_middle", "on_heat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colours for one kind of page: `#rrggbb`, or an expression of CSS."""

    surface: str
    ink: str
    muted: str
    grid: str
    heat: str
    on_heat: str
    on_middle: str
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
    on_middle="#1c2430",
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
    on_middle="#0b1218",
    negative="#56b4e9",
    positive="#f0934a",
    series=("#56b4e9", "#f0934a", "#35c79a", "#e6b422", "#8fb8ff", "#e39ac6"),
)
_NAMES = tuple(field.name for field in fields(Palette) if field.name != "series")
VARIABLES = Palette(
    **{name: f"var(--{name.replace('_', '-')})" for name in _NAMES},
    series=tuple(f"var(--series-{number + 1})" for number in range(len(LIGHT.series))),
)
"""The names of the colours in the report's style sheet, which has a light and a dark value of each."""
EITHER = Palette(
    **{name: f"light-dark({getattr(LIGHT, name)}, {getattr(DARK, name)})" for name in _NAMES},
    series=tuple(
        f"light-dark({light}, {dark})"
        for light, dark in zip(LIGHT.series, DARK.series, strict=True)
    ),
)
"""Both values of each colour; a browser takes that of the element's `color-scheme`."""

SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
"""The shapes of points in a scatter plot, by their names in Vega."""


def shape_of(series: int) -> str:
    """The shape of a series by its number: another one each time the colours repeat."""
    return SHAPES[(series + series // len(LIGHT.series)) % len(SHAPES)]


@dataclass(frozen=True, slots=True)
class Shades:
    """Maps a value to a hue and a share: 0 is the surface's colour, 1 the full hue."""

    scale: Scale
    low: float
    high: float

    @classmethod
    def over(
        cls,
        values: Iterable[float | None],
        scale: Scale,
        low: float | None = None,
        high: float | None = None,
    ) -> Shades:
        """Over the range of `values`, or over `low`…`high` where given.

        Symmetric about zero when diverging; `high` is at least `low`, even where all values lie below.
        """
        known = [value for value in values if value is not None] or [0.0]
        low = min(known) if low is None else low
        high = max(known) if high is None else high
        if scale == "diverging":
            high = max(abs(low), abs(high))
            return cls(scale, -high, high)
        return cls(scale, low, max(low, high))

    def __call__(self, value: float | None) -> tuple[Hue | Literal["missing"], float]:
        """Hue and share of a value; beyond the range, those of its end."""
        if value is None:
            return "missing", 1.0
        if self.scale == "diverging":
            share = min(abs(value) / self.high, 1.0) if self.high else 0.0
            return ("negative" if value < 0 else "positive"), round(share, 3)
        span = self.high - self.low
        share = (value - self.low) / span if span else float(value > 0 and value >= self.low)
        return "heat", round(min(max(share, 0.0), 1.0), 3)

    def ink(self, value: float | None) -> Ink:
        """The colour of text on the fill of `value`."""
        hue, share = self(value)
        return "ink" if hue == "missing" else ink_on(hue, share)

    def strip(self, steps: int) -> list[float]:
        """Values from end to end, for a legend."""
        return [self.low + (self.high - self.low) * i / (steps - 1) for i in range(steps)]


@cache
def ink_on(hue: Hue, share: float) -> Ink:
    """The colour of text on a fill, `share` of the way from surface to `hue`.

    `ink` or `on_heat`, whichever has more contrast (WCAG 2, which compares luminances);
    `on_middle` where a light page needs the first and a dark one the second.
    """
    light, dark = (_ink_reads(palette, getattr(palette, hue), share) for palette in (LIGHT, DARK))
    if light == dark:
        return "ink" if light else "on_heat"
    return "on_middle"


def contrast(first: str, second: str) -> float:
    """The contrast of two colours by WCAG 2, from 1 to 21."""
    low, high = sorted((_luminance(_channels(first)), _luminance(_channels(second))))
    return (high + 0.05) / (low + 0.05)


def mixed(surface: str, hue: str, share: float) -> str:
    """The colour `share` of the way from `surface` to `hue`."""
    pairs = zip(_channels(surface), _channels(hue), strict=True)
    return "#" + "".join(f"{round((a + (b - a) * share) * 255):02x}" for a, b in pairs)


def _ink_reads(palette: Palette, hue: str, share: float) -> bool:
    fill = mixed(palette.surface, hue, share)
    return contrast(fill, palette.ink) >= contrast(fill, palette.on_heat)


def _channels(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _luminance(channels: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
