"""Escaped texts, metrics with arrows, tables."""

import pyarrow
import pytest
from streamlit.proto.Metric_pb2 import Metric
from streamlit.testing.v1 import AppTest

from qt_bert.page.widgets import escaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("京东小哥", "京东小哥"),
        ("<b>a</b>", r"\<b\>a\<\/b\>"),
        ("[a](http)", r"\[a\]\(http\)"),
        (":red[x] $y$", r"\:red\[x\] \$y\$"),
        ("a\nb\x00", "a b\ufffd"),
    ],
)
def test_markup_is_escaped(text, shown):
    assert escaped(text) == shown


def page(change: str | None) -> None:
    from qt_bert.page.widgets import metric

    metric("[a] <b>", "−1.0", change, about="*what*")


@pytest.mark.parametrize(
    ("change", "arrow"), [("+0.2", "UP"), ("−0.2", "DOWN"), ("0.0", "NONE"), (None, "NONE")]
)
def test_the_arrow_follows_the_sign(change, arrow):
    at = AppTest.from_function(page, args=(change,)).run()
    assert not at.exception
    (shown,) = at.metric
    assert (shown.value, shown.delta) == ("−1.0", change or "")
    assert shown.proto.direction == Metric.MetricDirection.Value(arrow)


def test_the_name_is_text_and_wraps():
    at = AppTest.from_function(page, args=(None,)).run()
    assert at.caption[0].value == r"\[a\] \<b\>"
    assert at.caption[0].proto.help == r"\*what\*"


def texts() -> None:
    from qt_bert.page.widgets import table
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


def test_texts_in_the_visitors_language_and_empty_columns_left_out():
    at = AppTest.from_function(texts).run()
    assert not at.exception
    frame = at.dataframe[0].value
    assert list(frame.columns) == ["name", "value", "kind"]
    assert list(frame["kind"]) == ["甲", "乙"]
    assert list(frame["name"]) == ["<b>=1+1", "b\ufffd"]


def numbers() -> None:
    from qt_bert.page.widgets import table
    from qt_bert.text import Text

    names = ("value", "change", "p", "count")
    rows = [
        {"value": -1.0126, "change": 0.25, "p": 0.04211, "count": 1200},
        {"value": None, "change": -0.00001, "p": None, "count": None},
    ]
    columns = {name: Text(name, name) for name in names}
    table(rows, columns, key="t", digits={"p": 4}, signed=("change",))


def test_numbers_are_formatted_and_sort_as_numbers():
    at = AppTest.from_function(numbers).run()
    assert not at.exception
    styler = at.dataframe[0].proto.arrow_data.styler
    shown = pyarrow.ipc.open_stream(styler.display_values).read_pandas()
    assert shown.values.tolist() == [
        ["−1.013", "+0.250", "0.0421", "1,200"],
        ["—", "0.000", "—", "—"],
    ]
    assert at.dataframe[0].value["value"][0] == -1.0126
