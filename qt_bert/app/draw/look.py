"""What the charts share: the page's colours and language, axes and legends.

A chart is a Vega-Lite specification in plain dictionaries: checked by the browser's tests, made in a
millisecond, where a page draws a dozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from qt_bert.app.draw.labels import FONT, LABEL_PIXELS, SMALL, Spec, label_of
from qt_bert.app.words import language
from qt_bert.results.numbers import printable
from qt_bert.results.palette import DARK, LIGHT, Palette, contrasts_with_ink
from qt_bert.results.text import Label, in_language

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class Look:
    """The visitor's language and the colours of the visitor's theme."""

    language: str
    palette: Palette
    dark: bool = False

    def say(self, label: Label) -> str:
        """The words of `label`, with nothing in them that a browser cannot show."""
        return printable(in_language(label, self.language))

    def with_unit(self, label: Label, unit: Label) -> str:
        """`share (%)`: a name and its unit, or either alone."""
        name, of = self.say(label), self.say(unit)
        return f"{name} ({of})" if name and of else name or of

    def colours(self, scale: str) -> list[str]:
        """From nothing to much, or from negative over zero to positive."""
        if scale == "diverging":
            return [self.palette.negative, self.palette.surface, self.palette.positive]
        return [self.palette.surface, self.palette.heat]

    def strong(self, value: float | None, scale: str, ends: tuple[float, float]) -> bool:
        """Whether a cell of this value is so strongly coloured that its text needs the other ink."""
        low, high = ends
        if value is None or high <= low:
            return False
        diverging = scale == "diverging"
        share = abs(value) / high if diverging else (value - low) / (high - low)
        hue = self.palette.heat
        if diverging:
            hue = self.palette.negative if value < 0 else self.palette.positive
        return not contrasts_with_ink(self.palette, hue, min(max(share, 0.0), 1.0))

    def ink(self) -> Spec:
        """A text's colour on a cell, by the cell's field `strong`."""
        strong = {"test": "datum.strong", "value": self.palette.on_heat}
        return {"condition": strong, "value": self.palette.ink}


def look() -> Look:
    """How the visitor sees the page; light until the browser has said."""
    dark = st.context.theme.type == "dark"
    return Look(language(), DARK if dark else LIGHT, dark)


@dataclass(frozen=True, slots=True)
class Chart:
    """A specification, the table it draws, and how wide it may grow (None: as wide as its place)."""

    spec: Spec
    data: pyarrow.Table
    width: int | None = None


def axis(title: str, **more: Any) -> Spec:
    """An axis; its colours are the theme's, also where that changes under a chart."""
    sizes = {"labelFontSize": FONT, "titleFontSize": FONT, "titleFontWeight": "normal"}
    lines = {"domain": False, "ticks": False}
    return {"title": title or None, "labelLimit": LABEL_PIXELS} | sizes | lines | more


def shading(look: Look, scale: str, ends: tuple[float, float], title: str, digits: int) -> Spec:
    """The colour of the field `value`, with a legend below the chart that has its unit and ends."""
    low, high = ends if ends[0] < ends[1] else (ends[0], ends[0] + 1.0)
    domain = [low, 0.0, high] if scale == "diverging" else [low, high]
    legend = {
        "orient": "bottom",
        "title": title or None,
        "titleFontSize": SMALL,
        "titleFontWeight": "normal",
        "titleLimit": 320,
        "labelFontSize": SMALL,
        "gradientLength": {"expr": "min(160, width)"},
        "gradientThickness": 8,
        "values": domain,
        "format": f",.{digits}f",
    }
    colours = {"range": look.colours(scale), "interpolate": "lab", "clamp": True}
    return {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": domain} | colours,
        "legend": legend,
    }


def series_legend(names: str) -> Spec:
    """A legend of series below the chart, one a row."""
    return {
        "orient": "bottom",
        "direction": "vertical",
        "columns": 1,
        "title": None,
        "labelExpr": label_of(names),
        "labelLimit": 320,
        "labelFontSize": FONT,
        "symbolType": "square",
        "symbolOpacity": 1,
    }


def framed(parts: Spec) -> Spec:
    """A specification that fills its place in width, and whose height is that of its plot."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": "transparent",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": {"left": 4, "top": 4, "right": 4, "bottom": 4},
        "config": {"view": {"stroke": None}, "font": FONTS},
    } | parts


FONTS = (
    '"Source Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC", '
    '"Source Han Sans SC", sans-serif'
)
"""Latin letters as on the page; Chinese from what the system has."""
