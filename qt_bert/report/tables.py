"""Tables as CSV files that a spreadsheet opens, with nothing in them that it would run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from qt_bert.files import atomic_write
from qt_bert.report.blocks import Badge, Cell, Column, Interval, Table
from qt_bert.results import Text
from qt_bert.results.csv_bytes import csv_bytes


def write_csv(table: Table, path: Path) -> None:
    """Write `table` as UTF-8 with a byte order mark, so that Excel shows Chinese.

    An interval takes three columns and those of its unit, a bilingual text two. A text that a spreadsheet would take
    for a formula gets a leading apostrophe.
    """
    columns = list(zip(table.columns, zip(*table.rows, strict=True), strict=False))
    if not table.rows:
        columns = [(column, ()) for column in table.columns]
    expanded = [pair for column, cells in columns for pair in _expand(column, cells)]
    names, cells = (
        [name for name, _ in expanded],
        zip(*(cells for _, cells in expanded), strict=True),
    )
    with atomic_write(path) as temporary:
        temporary.write_bytes(csv_bytes([names, *cells]))


def _expand(column: Column, cells: tuple[Cell, ...]) -> Iterator[tuple[str, list[object]]]:
    if any(isinstance(cell, Interval) for cell in cells):
        ends = [
            cell if isinstance(cell, Interval) else Interval(value=None, low=None, high=None)
            for cell in cells
        ]
        yield column.name, [cell.value for cell in ends]
        yield f"{column.name}_ci_low", [cell.low for cell in ends]
        yield f"{column.name}_ci_high", [cell.high for cell in ends]
        if any(cell.unit for cell in ends):
            units = Column(f"{column.name}_unit", column.title)
            yield from _expand(units, tuple(cell.unit for cell in ends))
    elif any(isinstance(cell, Badge) for cell in cells):
        words = tuple(cell.text if isinstance(cell, Badge) else cell for cell in cells)
        yield from _expand(column, words)
    elif any(isinstance(cell, Text) for cell in cells):
        for language in ("zh", "en"):
            shown = [getattr(cell, language) if isinstance(cell, Text) else cell for cell in cells]
            yield f"{column.name}_{language}", shown
    else:
        yield column.name, list(cells)
