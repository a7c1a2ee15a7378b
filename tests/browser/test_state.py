"""The state lives in the address: a link shows what a colleague saw, and it outlives a change of page."""

from __future__ import annotations

import pytest

from tests.browser.driving.visitor import PAGES

STATE = {
    "q": "京东小哥",
    "t": "京东小哥最近在干嘛",
    "layer": "9",
    "head": "3",
    "out": "L1H2 L4H5",
    "mode": "uniform",
    "seed": "7",
    "lang": "en",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_link_shows_a_colleague_the_same(visitor, name):
    one, other = visitor(), visitor()
    one.open(name, **STATE)
    link = one.page.url
    other.page.goto(link)
    other.settle()
    assert one.state().items() >= STATE.items()
    assert other.state() == one.state()
    assert other.metrics() == one.metrics()
    assert other.main.inner_text() == one.main.inner_text()


def test_the_state_survives_every_change_of_page(visitor):
    one = visitor()
    one.open("focus", **STATE)
    state, numbers = one.state(), one.metrics()
    for name in (*PAGES[1:], PAGES[0]):
        one.go(name)
        assert one.state() == state, name
        assert one.field("side-query").input_value() == STATE["q"], name
        assert one.field("side-out").input_value() == STATE["out"], name
    assert one.metrics() == numbers


def test_what_is_changed_on_one_page_holds_on_the_next(visitor):
    one = visitor()
    one.open("focus", **STATE)
    one.leave_out("L0H0")
    one.type("side-layer", "4")
    one.go("order")
    assert (one.state()["out"], one.state()["layer"]) == ("L0H0", "4")
    one.page.go_back()
    one.settle()
    assert (one.state()["out"], one.state()["layer"]) == ("L0H0", "4")


def test_a_link_that_does_not_fit_is_said_and_the_rest_of_it_holds(visitor):
    one = visitor()
    wrong = {
        "model": "/etc/passwd",
        "layer": "99",
        "head": "-1",
        "out": "L1H2 L99H99",
        "lang": "xx",
    }
    one.open("focus", **(STATE | wrong | {"mode": "pickle", "seed": "1e9"}))
    assert one.page.get_by_test_id("stMain").get_by_test_id("stAlert").count() >= 5
    assert one.state()["q"] == STATE["q"]
    assert one.state()["model"] == "graded"
    assert one.metrics()


def test_the_language_switch_changes_every_page(visitor):
    one = visitor()
    one.open("focus")
    assert "期望等级" in one.main.inner_text()
    one.element("side-language").get_by_text("English").click()
    one.settle()
    assert one.state()["lang"] == "en"
    for name in PAGES:
        one.go(name)
        heading = one.main.get_by_role("heading").first.inner_text()
        assert heading.isascii(), heading
