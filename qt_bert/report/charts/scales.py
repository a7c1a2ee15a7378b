"""From values to places and colours."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from qt_bert.results.figures import Scale
from qt_bert.results.palette import span


@dataclass(frozen=True, slots=True)
class Linear:
    """Maps `low`…`high` onto `start`…`end` pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of `value`."""
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Colours:
    """Maps values to a style class and an opacity between 0 and 1."""

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
    ) -> Colours:
        """Colours over the range of `values`, or over `low`…`high` where given."""
        return cls(scale, *span(values, scale, low, high))

    def __call__(self, value: float) -> tuple[str, float]:
        """The class and the opacity of `value`; beyond the range, those of its end."""
        if self.scale == "diverging":
            strength = abs(value) / self.high if self.high else 0.0
            return ("negative" if value < 0 else "positive", min(strength, 1.0))
        span = self.high - self.low
        share = (value - self.low) / span if span else float(value > 0 and value >= self.low)
        return "heat", min(max(share, 0.0), 1.0)


def ink(opacity: float) -> str:
    """The style of text on a fill: on a middle one, light and dark pages need different inks."""
    if opacity >= 0.7:
        return "value strong"
    return "value middle" if opacity >= 0.6 else "value"


def tick_label(value: float) -> str:
    """A tick's number, short and with a proper minus sign."""
    return f"{value:,g}".replace("-", "\N{MINUS SIGN}")


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """At most `count` + 1 round numbers (steps of 1, 2 or 5 × 10ⁿ) from `low` to `high`."""
    span = high - low
    if span <= 0:
        return [low]
    magnitude = 10.0 ** math.floor(math.log10(span / count))
    step = magnitude * next(m for m in (1, 2, 5, 10) if span / (magnitude * m) <= count + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(i * step, digits) for i in range(first, last + 1)]
