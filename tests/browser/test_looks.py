"""Every page in light and dark, on a desk and in a hand: nothing too wide, cut off or illegible."""

from __future__ import annotations

import pytest

from tests.browser.driving import layout
from tests.browser.driving.visitor import PAGES, PHONE, WIDE


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_can_be_read(visitor, name, language, size, dark):
    one = visitor(size=size, dark=dark)
    one.open(name, lang=language)
    assert layout.overflow(one.page) <= 0
    assert "\n".join(layout.clipped(one.page)) == ""
    assert "\n".join(layout.wide_charts(one.page)) == ""
    assert "\n".join(layout.faint(one.page)) == ""


def test_a_dark_browser_gets_a_dark_page(visitor):
    colours = []
    for dark in (False, True):
        one = visitor(dark=dark)
        one.open("focus")
        app = one.page.get_by_test_id("stApp")
        colours.append(app.evaluate("one => getComputedStyle(one).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(26, 32, 41)"]


def test_chinese_letters_are_no_boxes(visitor):
    one = visitor()
    one.open("focus")
    assert layout.boxes(one.page, "查询标题去除衣服上的油渍熨斗\U0010fffd") == ["\U0010fffd"]


def test_on_a_phone_the_sidebar_is_folded_away_until_it_is_asked_for(visitor):
    one = visitor(size=PHONE)
    one.open("focus")
    sidebar = one.page.get_by_test_id("stSidebar")
    assert sidebar.get_attribute("data-collapsed") == "true"
    assert one.metrics()
    one.page.get_by_test_id("stExpandSidebarButton").click()
    one.settle()
    one.leave_out("L2H1")
    assert one.state()["out"] == "L2H1"
    assert layout.overflow(one.page) <= 0
