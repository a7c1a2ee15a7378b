"""Heads are left out by a named set, by typing and by a click; the numbers change, and are right."""

from __future__ import annotations

import pytest

from tests.browser.driving.charts import click_head
from tests.browser.driving.explained import explained, grade

QUERY, TITLE = "怎么去除衣服上的油渍", "衣服沾了油怎么洗掉"
HEADS = "L2H1 L3H7"


def test_first_visit_shows_the_articles_case_with_the_matching_heads_out(visitor):
    one = visitor()
    one.open()
    assert one.field("side-query").input_value() == "紫熨斗"
    assert one.field("side-title").input_value() == "紫熨斗好用吗"
    out = one.state()["out"]
    assert one.field("side-out").input_value() == out != "none"
    assert "第 10 层" in one.main.inner_text()
    assert one.metrics()[0] == grade("紫熨斗", "紫熨斗好用吗", out)


def test_typed_pair_and_heads_give_the_command_lines_numbers(visitor):
    one = visitor()
    one.open()
    one.pair(QUERY, TITLE)
    one.leave_out("")
    assert one.metrics()[0] == grade(QUERY, TITLE)
    one.leave_out("l3h7, L2H1")
    assert one.state()["out"] == HEADS
    assert one.metrics()[0] == grade(QUERY, TITLE, HEADS) != grade(QUERY, TITLE)
    before, after = (explained(QUERY, TITLE, heads)["predicted_grade"] for heads in ("", HEADS))
    assert f"预测：{before} → {after}" in one.main.inner_text()


@pytest.mark.parametrize("mode", ["uniform", "mean"])
def test_another_replacement_gives_the_command_lines_numbers(visitor, mode):
    one = visitor()
    one.open("focus", q=QUERY, t=TITLE, out=HEADS)
    one.element("side-mode").get_by_text({"uniform": "均匀", "mean": "均值"}[mode]).click()
    one.settle()
    assert one.state()["mode"] == mode
    assert one.metrics()[0] == grade(QUERY, TITLE, HEADS, mode)


def test_a_named_set_leaves_its_heads_out_and_putting_back_ends_it(visitor):
    one = visitor()
    one.open("focus", q=QUERY, t=TITLE, out="none")
    one.choose("side-set", "匹配头")
    chosen = one.state()["out"]
    assert chosen != "none"
    assert one.metrics()[0] == grade(QUERY, TITLE, chosen)
    one.element("side-clear").get_by_role("button").click()
    one.settle()
    assert one.state()["out"] == "none"
    assert one.metrics()[0] == grade(QUERY, TITLE)


def test_a_click_on_the_grid_leaves_a_head_out_and_a_second_puts_it_back(visitor):
    one = visitor()
    one.open("focus", q=QUERY, t=TITLE, out="L2H1")
    one.element("side-grid-box").locator("summary").click()
    one.settle()
    click_head(one, one.element("side-grid"), 3, 7)
    assert one.state()["out"] == HEADS
    assert one.field("side-out").input_value() == HEADS
    assert one.metrics()[0] == grade(QUERY, TITLE, HEADS)
    click_head(one, one.element("side-grid"), 3, 7)
    assert one.state()["out"] == "L2H1"
    assert one.metrics()[0] == grade(QUERY, TITLE, "L2H1")


@pytest.mark.parametrize("typed", ["L99H0", "L3", "<b>L3H7</b>", "L3H7" * 500])
def test_heads_that_are_none_are_said_beside_the_field_and_change_nothing(visitor, typed):
    one = visitor()
    one.open("focus", q=QUERY, t=TITLE, out="L2H1")
    before = one.metrics()
    one.leave_out(typed)
    assert one.page.get_by_test_id("stSidebar").get_by_test_id("stAlert").count() == 1
    assert one.state()["out"] == "L2H1"
    assert one.metrics() == before
