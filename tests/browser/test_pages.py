"""Every page answers to another pair and to heads left out."""

from __future__ import annotations

import pytest

from tests.browser.driving.charts import click_head, drawing
from tests.browser.driving.explained import grade
from tests.browser.driving.visitor import PAGES

QUERY, TITLE = "怎么去除衣服上的油渍", "衣服沾了油怎么洗掉"
HEADS = "L2H1 L3H7"
NUMBERED = ("focus", "attention", "order", "ranking", "behaviour")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_with_a_heading_and_figures_and_no_fault(visitor, name):
    one = visitor()
    one.open(name)
    assert one.main.get_by_role("heading").count()
    assert one.main.get_by_test_id("stAlertContentError").count() == 0
    if name not in ("behaviour", "evaluate"):  # those wait for a click
        assert one.main.locator("svg.marks, canvas.marks").count()


@pytest.mark.parametrize("name", NUMBERED)
def test_another_pair_and_other_heads_change_the_numbers(visitor, name):
    one = visitor()
    one.open(name, out=HEADS)
    if name == "attention":
        across(one)
    first = one.metrics()
    one.pair(QUERY, TITLE)
    second = one.metrics()
    one.leave_out("L5H0 L6H1 L7H2 L8H3")
    third = one.metrics()
    assert first and second and third
    assert first != second != third


def test_attention_follows_layer_and_head_and_a_click_on_the_grid(visitor):
    one = visitor()
    one.open("attention", q=QUERY, t=TITLE, out="none", layer=10, head=0)
    across(one)
    first = one.metrics()
    one.type("side-layer", "5")
    assert one.metrics() != first
    click_head(one, one.element("figure-attention-grid"), 3, 7)
    assert (one.state()["layer"], one.state()["head"]) == ("3", "7")
    assert "L3H7" in one.main.inner_text()


def test_the_atlas_shows_the_card_of_the_head_clicked_and_leaves_it_out(visitor):
    one = visitor()
    one.open("atlas", q=QUERY, t=TITLE, out="none")
    grid = one.main.locator("[class*=st-key-figure-atlas]").first
    click_head(one, grid, 3, 7)
    assert one.main.get_by_role("heading", name="L3H7", exact=True).count() == 1
    one.element("atlas-out").get_by_role("button").click()
    one.settle()
    assert one.state()["out"] == "L3H7"
    one.element("atlas-open").get_by_role("button").click()
    one.settle()
    assert "/attention" in one.page.url
    assert (one.state()["out"], one.state()["layer"], one.state()["head"]) == ("L3H7", "3", "7")


def test_words_are_drawn_anew_for_another_text_and_without_heads(visitor):
    one = visitor()
    one.open("words", q=QUERY, t=TITLE, out="none")
    first = drawing(one)
    one.leave_out("L0H0 L0H1 L0H2 L0H3 L0H4 L0H5")
    second = drawing(one)
    one.type("words-typed", "北京到上海高铁票价")
    assert first != second != drawing(one)


def test_order_shows_the_articles_case_and_another_draw(visitor):
    one = visitor()
    one.open("order", out="none")
    one.element("order-article").get_by_role("button").click()
    one.settle()
    assert one.state()["q"] == "京东小哥"
    assert one.metrics()[0] == grade("京东小哥", "京东小哥最近在干嘛", digits=3)
    one.choose("order-kind", "打乱")
    before = one.metrics()
    one.element("order-again").get_by_role("button").click()
    one.settle()
    assert one.state()["seed"] == "1"
    assert one.metrics() != before


def test_typed_titles_are_ranked_by_the_command_lines_grades(visitor):
    one = visitor()
    titles = [TITLE, "红烧排骨的家常做法", "油渍去除小妙招"]
    one.open("ranking", q=QUERY, t=TITLE, out="none")
    field = one.field("ranking-titles")
    field.fill("\n".join(titles))
    field.press("Control+Enter")
    one.settle()
    ranked = sorted(titles, key=lambda title: -float(grade(QUERY, title)))
    table = one.element("ranking-table").locator("table[role=grid]")
    shown = table.inner_text() if table.count() else ""
    places = [shown.find(title) for title in ranked]
    assert places == sorted(places) and places[0] >= 0, shown


def test_two_titles_of_ones_own_part_as_the_command_lines_grades(visitor):
    one = visitor()
    other = "红烧排骨的家常做法"
    one.open("behaviour", q=QUERY, t=TITLE, out="none")
    one.type("behaviour-other", other)
    better, worse = (float(grade(QUERY, title)) for title in (TITLE, other))
    (shown,) = one.metrics()
    assert float(shown.replace("−", "-")) == pytest.approx(better - worse, abs=2e-3)
    one.leave_out(HEADS)
    assert len(one.metrics()) == 2
    one.element("behaviour-swap").get_by_role("button").click()
    one.settle()
    assert one.state()["t"] == other
    assert one.field("behaviour-other").input_value() == TITLE


def test_all_cases_are_judged_here_and_one_is_opened_on_the_front_page(visitor):
    one = visitor()
    one.open("behaviour", q=QUERY, t=TITLE, out="none")
    one.element("behaviour-go").get_by_role("button").click()
    phenomena = one.element("behaviour-phenomenon")
    phenomena.wait_for()
    one.settle()
    phenomena.get_by_text("否定或反义").click()
    one.settle()
    one.element("behaviour-open-title").get_by_role("button").click()
    one.settle()
    assert one.state()["q"] != QUERY
    assert one.main.locator("svg.marks, canvas.marks").count()


def across(one):
    """The part of the map that has a number: from query to title."""
    one.element("attention-part").get_by_text("查询看标题").click()
    one.settle()
