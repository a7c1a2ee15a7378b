"""Figures as data: report and page draw the same object, each in its own way.

Missing values are `None`; NaN and infinity are refused when a figure is stored. Every figure has a
`name` (unique in its file, for links and tables), a bilingual title and a unit.
"""

from __future__ import annotations

from typing import Any

from qt_bert.results.codec import decode
from qt_bert.results.figures.bars import Bars, BarSeries
from qt_bert.results.figures.base import Scale
from qt_bert.results.figures.cells import HeatMap, Token, TokenLine, Tokens
from qt_bert.results.figures.curve import Curve, Point, Series
from qt_bert.results.figures.graph import Edge, Graph, Node
from qt_bert.results.figures.scatter import Mark, Scatter

Figure = HeatMap | Curve | Bars | Tokens | Graph | Scatter


def figure_from_json(value: Any, where: str = "figure") -> Figure:
    """The figure that `to_json` turned into `value`.

    Raises RunFolderError naming `where` and the key that does not fit.
    """
    return decode(Figure, value, where)  # type: ignore[no-any-return]


__all__ = [
    "BarSeries",
    "Bars",
    "Curve",
    "Edge",
    "Figure",
    "Graph",
    "HeatMap",
    "Mark",
    "Node",
    "Point",
    "Scale",
    "Scatter",
    "Series",
    "Token",
    "TokenLine",
    "Tokens",
    "figure_from_json",
]
