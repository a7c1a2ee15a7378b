"""Tables on a page: columns in words, and a CSV that a spreadsheet does not run."""

from __future__ import annotations

import csv
import io

import pyarrow
from streamlit.testing.v1 import AppTest

from qt_bert.app.widgets import csv_of


def page() -> None:
    from qt_bert.app.widgets import table
    from qt_bert.text import Text

    columns = {
        "name": Text("名", "name"),
        "value": Text("值", "value"),
        "none": Text("无", "none"),
        "kind": Text("类", "kind"),
    }
    rows = [
        {"name": "<b>=1+1", "value": 0.25, "none": None, "kind": Text("甲", "a")},
        {"name": "b\x00", "value": None, "none": None, "kind": Text("乙", "b")},
    ]
    table(rows, columns, key="t")


def test_texts_in_the_visitors_language_and_empty_columns_left_out() -> None:
    at = AppTest.from_function(page).run()
    assert not at.exception
    frame = at.dataframe[0].value
    assert list(frame.columns) == ["name", "value", "kind"]
    assert list(frame["kind"]) == ["甲", "乙"]
    assert list(frame["name"]) == ["<b>=1+1", "b\ufffd"]


def numbers() -> None:
    from qt_bert.app.widgets import table
    from qt_bert.text import Text

    names = ("value", "change", "p", "count")
    rows = [
        {"value": -1.0126, "change": 0.25, "p": 0.04211, "count": 1200},
        {"value": None, "change": -0.00001, "p": None, "count": None},
    ]
    columns = {name: Text(name, name) for name in names}
    table(rows, columns, key="t", digits={"p": 4}, signed=("change",))


def test_numbers_are_spelled_as_everywhere_and_sort_as_numbers() -> None:
    at = AppTest.from_function(numbers).run()
    assert not at.exception
    styler = at.dataframe[0].proto.arrow_data.styler
    shown = pyarrow.ipc.open_stream(styler.display_values).read_pandas()
    assert shown.values.tolist() == [
        ["−1.013", "+0.250", "0.0421", "1,200"],
        ["—", "0.000", "—", "—"],
    ]
    assert at.dataframe[0].value["value"][0] == -1.0126


def test_csv_has_a_mark_for_excel_and_no_formulas() -> None:
    data = csv_of([{"a": "=1+1", "b": -0.5}, {"a": "x,y", "b": None}], ["甲", "+b"])
    assert data.startswith(b"\xef\xbb\xbf")
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
    assert rows == [["甲", "'+b"], ["'=1+1", "-0.5"], ["x,y", ""]]
