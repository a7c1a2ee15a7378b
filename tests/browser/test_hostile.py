"""Unkind input stays text, never shows a trace, and slows nobody else."""

from __future__ import annotations

import statistics
import time

import pytest

from tests.browser.driving.hostile import FILES, IMAGE, MANY, TEXTS, TOO_LARGE
from tests.browser.driving.visitor import PAGES

GRADE = "[data-testid=stMain] [data-testid=stMetricValue]"
HEADS = ("L2H1", "L3H7", "L4H0 L4H1")
LINKED = 3_000
"""Characters of a text in a link: more than the page takes, less than the server reads of a line."""
MOST_SLOWER = 1_000.0
"""Milliseconds by which an unkind visitor may slow another one."""


@pytest.mark.parametrize("text", TEXTS)
def test_typed_text_stays_text_on_every_page(visitor, text):
    one = visitor()
    one.open("focus")
    one.pair(TEXTS[text], TEXTS[text])
    for name in (*PAGES[1:], PAGES[0]):
        one.go(name)
        assert one.faults() == [], name
        assert nothing_ran(one), name


@pytest.mark.parametrize("text", TEXTS)
def test_text_of_a_link_stays_text(visitor, text):
    one = visitor()
    one.open(q=TEXTS[text][:LINKED], t=TEXTS[text][:LINKED], out=IMAGE)
    assert nothing_ran(one)
    assert len(one.state()["q"] + one.state()["t"]) <= 2_000


def test_an_image_as_a_query_is_read_as_its_letters(visitor):
    one = visitor()
    one.open("focus", q=IMAGE, t="紫熨斗好用吗", out="none")
    assert one.field("side-query").input_value() == IMAGE
    assert one.metrics()
    assert nothing_ran(one)


@pytest.mark.parametrize("name", ["focus", "order"])
def test_an_empty_text_is_said_and_not_run(visitor, name):
    one = visitor()
    one.open(name)
    one.type("side-query", "   ")
    assert one.metrics() == []
    assert "不能为空" in one.main.inner_text()


def test_unkind_input_slows_another_visitor_by_less_than_a_second(visitor):
    unkind, other = visitor(), visitor()
    unkind.open("focus", out="none")
    other.open("focus", q="京东小哥", t="京东小哥最近在干嘛", out="none")
    alone = statistics.median(changes(other))
    for text in TEXTS.values():
        unkind.field("side-query").fill(text)
        unkind.field("side-query").press("Enter")
        assert max(changes(other, 2)) < alone + MOST_SLOWER
    unkind.open("evaluate", out="L2H1")
    unkind.source("evaluate-source", "上传文件", then="evaluate-file")
    for name, content in {**FILES, "large.tsv": TOO_LARGE}.items():
        file = {"name": name, "mimeType": "text/plain", "buffer": content}
        unkind.element("evaluate-file").locator("input[type=file]").set_input_files(file)
        assert max(changes(other, 2)) < alone + MOST_SLOWER, name


def test_an_evaluation_lets_another_visitor_go_first(visitor):
    busy, other = visitor(), visitor()
    other.open("focus", q="京东小哥", t="京东小哥最近在干嘛", out="none")
    alone = statistics.median(changes(other))
    busy.open("evaluate", out="L2H1")
    busy.source("evaluate-source", "上传文件", then="evaluate-file")
    busy.upload("evaluate-file", "many.tsv", MANY.encode())
    busy.element("evaluate-go").get_by_role("button").click()
    stop = busy.element("evaluate-stop")
    stop.wait_for()
    # Twice, for the machine may pause; a queue lasts as long as the evaluation.
    assert min(max(changes(other, 3)) for _ in range(2)) < alone + MOST_SLOWER
    assert stop.count() == 1
    stop.get_by_role("button").click()
    stop.wait_for(state="detached")


def changes(one, count=3):
    """Milliseconds until the grade changed, for each of some changes of the heads left out."""
    found = []
    for turn in range(count):
        now = one.state()["out"]
        heads = next(h for h in (*HEADS[turn % len(HEADS) :], *HEADS) if h != now)
        found.append(one.timed(GRADE, lambda heads=heads: one.leave_out(heads)).seen)
        time.sleep(0.1)
    return found


def nothing_ran(one):
    """No image, script or link of the visitor's text became an element."""
    made = "img[src='x'], a[href^='javascript'], [onerror], b:has-text('粗')"
    return one.page.locator(made).count() == 0 and one.watch.dialogs == []
