"""Tables of numbers and texts, saved as CSV that a spreadsheet does not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import streamlit as st

from qt_bert.app.words import say
from qt_bert.results import numbers
from qt_bert.results.csv_bytes import csv_bytes
from qt_bert.results.numbers import MISSING, printable
from qt_bert.results.text import Label, Text

if TYPE_CHECKING:
    import pandas

Cell = str | int | float | None
Row = Mapping[str, Cell | Text]
_SHOWN_WHOLE, _DIGITS = 30, 3
SAVE = Text("保存表格（CSV）", "Save the table (CSV)")


def table(
    rows: Sequence[Row],
    columns: Mapping[str, Label],
    *,
    key: str,
    digits: Mapping[str, int] | None = None,
    signed: Sequence[str] = (),
    select: bool = False,
) -> int | None:
    """Show `rows` under the names that `columns` gives their keys, in its order, and offer a CSV.

    Columns that are empty in all rows are left out; `signed` ones show a plus, and `digits` says of
    which not three stand behind the point. With `select` a row can be clicked, and its number is
    returned while it is.
    """
    keys = [name for name in columns if any(row.get(name) is not None for row in rows)]
    cells = [{name: _cell(row.get(name)) for name in keys} for row in rows]
    spelled = {
        name: partial(_spelled, digits=(digits or {}).get(name, _DIGITS), sign=name in signed)
        for name in keys
    }
    options: dict[str, Any] = {}
    if select:
        options = {"on_select": "rerun", "selection_mode": "single-row"}
    event = st.dataframe(
        _frame(cells, keys).style.format(spelled),
        hide_index=True,
        key=key,
        height="content" if len(rows) <= _SHOWN_WHOLE else "auto",
        placeholder=MISSING,
        column_config={name: say(columns[name]) for name in keys},
        **options,
    )
    st.download_button(
        say(SAVE),
        csv_of(cells, [say(columns[name]) for name in keys]),
        file_name=f"{key}.csv",
        mime="text/csv",
        key=f"{key}-csv",
        icon=":material/download:",
        on_click="ignore",
    )
    chosen = list(event.selection.rows) if select else []
    return int(chosen[0]) if chosen and chosen[0] < len(rows) else None


def csv_of(rows: Sequence[Row], names: Sequence[str]) -> bytes:
    """Rows under `names`, UTF-8 that Excel recognises."""
    return csv_bytes([names, *(row.values() for row in rows)])


def _cell(value: str | int | float | Text | None) -> Cell:
    if isinstance(value, Text):
        return say(value)
    return printable(value) if isinstance(value, str) else value


def _frame(cells: Sequence[Mapping[str, Cell]], keys: Sequence[str]) -> pandas.DataFrame:
    """Columns that sort as what they hold: whole numbers stay whole beside missing ones."""
    import pandas

    frame = pandas.DataFrame(list(cells), columns=list(keys))
    for name in keys:
        if all(isinstance(cell[name], int | None) for cell in cells):
            frame[name] = frame[name].astype("Int64")
    return frame


def _spelled(value: Any, digits: int, sign: bool) -> str:
    """A cell as the page spells numbers everywhere."""
    import pandas

    if isinstance(value, str):
        return value
    if pandas.isna(value):
        return MISSING
    value = int(value) if isinstance(value, Integral) else float(value)
    return (numbers.signed if sign else numbers.number)(value, digits)
