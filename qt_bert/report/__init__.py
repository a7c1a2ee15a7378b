"""The report: one page, its data and its tables, drawn from a run folder's results."""

from qt_bert.report.blocks import (
    Block,
    Card,
    Cards,
    Column,
    Example,
    Examples,
    FigureBlock,
    Interval,
    Prose,
    Table,
)
from qt_bert.report.render import render
from qt_bert.report.section import Section

__all__ = [
    "Block",
    "Card",
    "Cards",
    "Column",
    "Example",
    "Examples",
    "FigureBlock",
    "Interval",
    "Prose",
    "Section",
    "Table",
    "render",
]
