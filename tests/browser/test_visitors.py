"""Ten visitors at once, each with a pair and heads of their own; one beside a long evaluation."""

import statistics
import time

from tests.browser.driving.guests import PAIRS, expected, guest
from tests.browser.driving.hostile import MANY

GRADE = "[data-testid=stMain] [data-testid=stMetricValue]"
MOST_SLOWER = 1_000.0
"""Milliseconds by which a visitor may slow another one."""
MOST_GROWTH = 50.0
"""MB by which the server may grow in thirty changes that it has seen before."""


def test_ten_visitors_at_once_see_their_own_numbers(visitor, server):
    guests = [guest(place) for place in range(len(PAIRS))]
    known = expected(guests)
    there = [(visitor(), one) for one in guests]
    for page, one in there:
        page.open("focus", q=one.query, t=one.title, out=one.heads[-1])
    held = 0.0
    for again in (False, True):  # the first time caches fill
        for turn in range(len(guests[0].heads)):
            for page, one in there:  # nobody waits for anybody
                page.field("side-out").fill(one.heads[turn])
                page.field("side-out").press("Enter")
            for page, one in there:
                page.settle()
                grade, words = known[one, one.heads[turn]]
                assert page.metrics()[0] == grade and words in page.main.inner_text(), one
        assert not again or server.resident() - held <= MOST_GROWTH
        held = server.resident()


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
    assert min(max(changes(other)) for _ in range(2)) < alone + MOST_SLOWER
    assert stop.count() == 1
    stop.get_by_role("button").click()
    stop.wait_for(state="detached")


def changes(one):
    """Milliseconds until the grade changed, for each of some changes of the heads left out."""
    found = []
    for heads in ("L2H1", "L3H7", "L4H0 L4H1"):
        found.append(one.timed(GRADE, lambda heads=heads: one.leave_out(heads)).seen)
        time.sleep(0.1)
    return found
