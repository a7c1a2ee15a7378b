"""A visit to all pages: Chinese, light, wide; English, dark, on a phone; by a link."""

import pytest

from tests.browser.driving import layout
from tests.browser.driving.charts import click_head, drawing
from tests.browser.driving.visitor import PAGES, PHONE, WIDE, Visitor

QUERY, TITLE = "怎么去除衣服上的油渍", "衣服沾了油怎么洗掉"
OTHER = "红烧排骨的家常做法"
OUT = ("L2H1 L3H7", "L0H0 L0H1 L0H2 L0H3 L0H4 L0H5")
"""Heads to leave out; of the second, half of the lowest layer, the heads of every page depend."""
STATE = {
    "q": "京东小哥",
    "t": "京东小哥最近在干嘛",
    "layer": "9",
    "head": "3",
    "out": "L1H2 L4H5",
    "mode": "uniform",
    "seed": "7",
}
GROUND = {"light": "rgb(255, 255, 255)", "dark": "rgb(26, 32, 41)"}


def unfold(visitor: Visitor) -> None:
    """Open every box of the page."""
    folded = visitor.main.locator("details:not([open]) > summary")
    while folded.count():
        folded.first.click()
        visitor.settle()


@pytest.mark.parametrize(("language", "theme"), [("zh", "light"), ("en", "dark")])
def test_every_page_fits_can_be_read_and_keeps_the_state(visitor, language, theme):
    one = visitor()
    one.open(**STATE)
    if language == "en":
        one.element("side-language").get_by_text("English").click()
        one.settle()
    unfold(one)
    state, numbers = one.state(), one.metrics()
    assert state.items() >= (STATE | {"lang": language}).items()
    for name in (*PAGES[1:], PAGES[0]):
        one.go(name)
        assert one.state() == state, name
        assert one.field("side-query").input_value() == STATE["q"], name
        assert one.field("side-out").input_value() == STATE["out"], name
        heading = one.main.get_by_role("heading").first.inner_text()
        assert heading.isascii() == (language == "en"), heading
        assert one.main.get_by_test_id("stAlertContentError").count() == 0, name
        if name not in ("behaviour", "evaluate"):  # those wait for a click
            assert one.main.locator("svg.marks, canvas.marks, .tokens").count(), name
        if theme == "dark":  # turned under the page that stands, which must stay readable
            one.look(PHONE, theme)
        unfold(one)  # a folded chart keeps the width of the page before
        app = one.page.get_by_test_id("stApp")
        ground = app.evaluate("one => getComputedStyle(one).backgroundColor")
        assert ground == GROUND[theme], name
        assert layout.faults(one.page) == [], name
        one.look(WIDE, "light")
        assert one.faults() == [], name
    assert one.metrics() == numbers
    letters = "查询标题去除衣服上的油渍熨斗\U0010fffd"
    assert layout.boxes(one.page, letters) == ["\U0010fffd"]


def test_another_title_and_other_heads_change_every_page_and_its_link_shows_the_same(visitor):
    one, colleague = visitor(), visitor()
    one.open(q=QUERY, t=TITLE, out=OUT[0], layer="10", head="0")
    for turn, name in enumerate((*PAGES[1:], PAGES[0])):
        one.go(name)
        seen = [shown(one)]
        one.type("side-title", (OTHER, TITLE)[turn % 2])
        seen.append(shown(one))
        one.leave_out(OUT[(turn + 1) % 2])
        seen.append(shown(one))
        if name not in ("evaluate", "behaviour", "atlas"):  # of a file, of cases, of the model
            assert seen[0] != seen[1] != seen[2], name
        colleague.page.goto(one.page.url)
        colleague.settle()
        assert colleague.state() == one.state(), name
        assert colleague.metrics() == one.metrics(), name
        assert colleague.main.inner_text() == one.main.inner_text(), name
    state = one.state()
    one.go("order")
    one.page.go_back()
    one.settle()
    assert one.state() == state


def test_a_click_on_a_map_of_heads_chooses_its_head(visitor):
    one = visitor()
    one.open("attention", q=QUERY, t=TITLE, out="none", layer=10, head=0)
    before = drawing(one)
    click_head(one, one.element("figure-attention-grid"), 3, 7)
    assert (one.state()["layer"], one.state()["head"]) == ("3", "7")
    assert "L3H7" in one.main.inner_text() and drawing(one) != before
    one.go("atlas")
    click_head(one, one.main.locator("[class*=st-key-figure-atlas]").first, 2, 1)
    assert one.main.get_by_role("heading", name="L2H1", exact=True).count() == 1
    one.element("atlas-out").get_by_role("button").click()
    one.settle()
    one.element("atlas-open").get_by_role("button").click()
    one.settle()
    assert "/attention" in one.page.url
    assert (one.state()["out"], one.state()["layer"], one.state()["head"]) == ("L2H1", "2", "1")


def test_on_a_phone_the_sidebar_is_folded(visitor):
    one = visitor(size=PHONE)
    one.open("focus")
    assert one.page.get_by_test_id("stSidebar").get_attribute("data-collapsed") == "true"
    assert one.metrics()
    one.page.get_by_test_id("stExpandSidebarButton").click()
    one.settle()
    one.leave_out("L2H1")
    assert one.state()["out"] == "L2H1"
    assert layout.faults(one.page) == []


def shown(one):
    """The numbers and the pictures."""
    return one.metrics(), drawing(one)
