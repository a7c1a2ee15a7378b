"""The page Words in Streamlit's test runner."""

from __future__ import annotations

from tests.apps.conftest import Visit, shown

LINK = {"q": "京东小哥", "t": "京东小哥最近在干嘛", "lang": "en"}


def test_the_page_reads_the_pair(app: Visit) -> None:
    at = app("words", **LINK)
    assert not at.exception
    text = shown(at)
    assert "Words: where heads end them" in text
    assert "11 decisions" in text and "dev pairs that ship: 240 pairs" in text
    assert at.radio(key="words.who").value == "best"


def test_a_head_of_ones_own_and_the_articles_rule(app: Visit) -> None:
    at = app("words", **LINK, layer="1", head="1")
    at.radio(key="words.who").set_value("own").run()
    assert [str(head) for head in at.multiselect(key="words.own.tiny").value] == ["L1H1"]
    at.radio(key="words.rule").set_value("article").run()
    assert not at.exception and "11 decisions" in shown(at)


def test_heads_left_out_above_change_nothing(app: Visit) -> None:
    at = app("words", **LINK, out="L1H0")
    assert "No head left out lies below these" in shown(at)


def test_any_text_in_place_of_the_pair(app: Visit) -> None:
    at = app("words", **LINK)
    at.text_input(key="words.typed").set_value("北京到上海\x00高铁").run()
    assert not at.exception and "6 decisions" in shown(at)
    at.text_input(key="words.typed").set_value("<img src=x onerror=alert(1)>").run()
    assert not at.exception and "nothing to decide" in shown(at)


def test_an_empty_text_runs_nothing(app: Visit) -> None:
    at = app("words", q=" ", t="京东", lang="en")
    assert not at.exception and "Enter a query and a title" in shown(at)
    assert "Words: where heads end them" not in shown(at)
