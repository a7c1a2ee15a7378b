"""The page: one HTML file with its style sheet and pictures inside, and no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import compress
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING

from qt_bert.report.blocks import Badge, Card, Cell, Interval, Link, Section, Table, wording
from qt_bert.report.figures import drawn
from qt_bert.run.folder import RunRecord
from qt_bert.text import MISSING, Text, clip, interval, number, printable, signed

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).with_name("templates")


def page(
    record: RunRecord,
    cards: Sequence[Card],
    sections: Sequence[Section],
    *,
    heading: Text | None = None,
    tables: bool = True,
) -> str:
    """The whole page; `tables`: whether CSV files lie beside it, which it then names, and shows in part.

    Every text in it is escaped; see `_environment`.
    """
    from markupsafe import Markup

    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            record=record,
            cards=cards,
            sections=sections,
            unfinished=[name for name, stage in record.stages.items() if stage.status != "done"],
            style=Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8")),
            heading=heading or wording("report_heading"),
            footer=wording("footer" if tables else "footer_alone"),
            tables=tables,
        )
    )


@cache
def _environment() -> Environment:
    """Templates that escape all values, and fail on an unknown name."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters |= {"clip": clip, "number": number, "signed": signed}
    environment.globals |= {
        "drawn": drawn,
        "wording": wording,
        "interval": interval,
        "p_value": _p_value,
        "groups": _groups,
        "without_empty": _without_empty,
        "shape": lambda cell: _SHAPES.get(type(cell), "number"),
        "MISSING": MISSING,
    }
    return environment


def _p_value(value: float, digits: int) -> str:
    """A number, or `<` the smallest that its digits show."""
    least = 10.0**-digits
    return f"< {number(least, digits)}" if 0 <= value < least else number(value, digits)


_EMPTY = (None, "", Text("", ""))


def _without_empty(table: Table, shown: int | None) -> Table:
    """The first `shown` rows of a table, without filed columns and optional ones whose cells are empty."""
    kept = [
        not column.filed and (not column.optional or any(cell not in _EMPTY for cell in cells))
        for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=False)
    ]
    return replace(
        table,
        columns=tuple(compress(table.columns, kept)) if table.rows else table.columns,
        rows=tuple(tuple(compress(row, kept)) for row in table.rows[:shown]),
    )


def _groups(table: Table) -> list[tuple[Cell, list[tuple[Cell, ...]]]]:
    """The rows of a grouped table by their first cell, the others as one group without a name."""
    if not table.grouped:
        return [(None, list(table.rows))]
    groups: dict[Cell, list[tuple[Cell, ...]]] = {}
    for row in table.rows:
        groups.setdefault(row[0], []).append(row[1:])
    return list(groups.items())


_SHAPES: dict[type, str] = {
    NoneType: "missing",
    Badge: "badge",
    Interval: "interval",
    Link: "link",
    Text: "words",
    str: "text",
}
"""The kind of a cell, which the template draws; `words` are bilingual."""
