"""A number in large type: its name whole, its change with an arrow that agrees with the sign."""

from __future__ import annotations

import pytest
from streamlit.proto.Metric_pb2 import Metric
from streamlit.testing.v1 import AppTest


def page(change: str | None) -> None:
    from qt_bert.app.widgets import metric

    metric("[a] <b>", "−1.0", change, about="*what*")


@pytest.mark.parametrize(
    ("change", "arrow"), [("+0.2", "UP"), ("−0.2", "DOWN"), ("0.0", "NONE"), (None, "NONE")]
)
def test_the_arrow_follows_the_sign(change: str | None, arrow: str) -> None:
    at = AppTest.from_function(page, args=(change,)).run()
    assert not at.exception
    (shown,) = at.metric
    assert (shown.value, shown.delta) == ("−1.0", change or "")
    assert shown.proto.direction == Metric.MetricDirection.Value(arrow)


def test_the_name_is_text_and_wraps() -> None:
    at = AppTest.from_function(page, args=(None,)).run()
    assert at.caption[0].value == r"\[a\] \<b\>"
    assert at.caption[0].proto.help == r"\*what\*"
