"""The page Order in Streamlit's test runner."""

from __future__ import annotations

from qt_bert.inspection.views.order import CASE
from tests.apps.conftest import Visit, shown

LINK = {"q": "京东小哥", "t": "京东小哥最近在干嘛", "lang": "en", "out": "L0H1"}


def metrics(at) -> list[str]:
    return [one.value for one in at.metric]


def test_the_page_grades_both_orders(app: Visit) -> None:
    at = app("order", **LINK)
    assert not at.exception
    text = shown(at)
    assert "do not say whether it saw shuffled titles" in text
    assert "your choice: L0H1" in text
    assert len(at.metric) == 3 and len(at.dataframe) == 1
    assert at.selectbox(key="order.kind").value == "characters"


def test_another_seed_and_another_kind(app: Visit) -> None:
    at = app("order", **LINK)
    first = metrics(at)
    at.button(key="order.again").click().run()
    assert not at.exception and at.query_params["seed"] in ("1", ["1"])
    second = metrics(at)
    assert first[0] == second[0] and first[1] != second[1]
    at.selectbox(key="order.kind").select("reversal").run()
    assert not at.exception and metrics(at)[1] not in (first[1], second[1])


def test_the_articles_case_is_one_click_away(app: Visit) -> None:
    at = app("order", q="苹果手机", t="苹果手机多少钱", lang="en")
    at.button(key="order.article").click().run()
    assert not at.exception
    assert at.query_params["q"] in (CASE[0], [CASE[0]])
    assert at.text_input(key="order.typed").value == CASE[2]
    assert "More than the order differs" in shown(at)


def test_a_text_with_no_other_order(app: Visit) -> None:
    at = app("order", q="京东", t="哈哈哈", lang="en")
    assert not at.exception and "no other arrangement" in shown(at) and not at.metric
    at.radio(key="order.side").set_value("query").run()
    assert not at.exception and len(at.metric) == 2


def test_a_hostile_order_stays_text(app: Visit) -> None:
    at = app("order", **LINK)
    at.selectbox(key="order.kind").select("typed").run()
    assert "no other arrangement" in shown(at)
    at.text_input(key="order.typed").set_value("<img src=x onerror=alert(1)>").run()
    assert not at.exception and len(at.metric) == 3
    assert "\\<img" in shown(at) or "<img" not in shown(at)
