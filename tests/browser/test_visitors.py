"""Ten visitors at once, each with a pair and heads of their own, a change every five seconds."""

from __future__ import annotations

import asyncio
import statistics
from concurrent.futures import ThreadPoolExecutor

from tests.browser.driving.explained import explained, grade
from tests.browser.driving.many import Guest, observe

SECONDS, EVERY, FROM = 60.0, 5.0, 10.0
MOST_GROWTH = 50.0
"""MB by which the server may grow from second 10 to 60."""

PAIRS = (
    ("紫熨斗", "紫熨斗好用吗"),
    ("京东小哥", "京东小哥最近在干嘛"),
    ("怎么去除衣服上的油渍", "衣服沾了油怎么洗掉"),
    ("怎么去除衣服上的油渍", "红烧排骨的家常做法"),
    ("北京到上海高铁票价", "北京到上海高铁时刻表查询"),
    ("北京到上海高铁票价", "上海到北京高铁票价"),
    ("苹果多少钱一斤", "苹果手机多少钱"),
    ("苹果多少钱一斤", "今天苹果的价格是多少"),
    ("狗追猫", "猫追狗"),
    ("伊朗长假", "长假期去看电影"),
)


def guest(place: int) -> Guest:
    """The visitor of this number: nobody else has this pair, or leaves these heads out."""
    heads = (f"L{turn}H{place} L{turn + 3}H{(place + turn) % 10}" for turn in range(3))
    return Guest(*PAIRS[place], tuple(heads))


def test_ten_visitors_see_their_own_numbers_for_a_minute(server, capsys):
    guests = [guest(place) for place in range(len(PAIRS))]
    expected = {
        (one, heads): (grade(one.query, one.title, heads), predicted(one, heads))
        for one in guests
        for heads in one.heads
    }
    visit = observe(server.url, guests, server.resident, seconds=SECONDS, every=EVERY)
    # In a thread of its own, as playwright's other interface is at work in this one.
    with ThreadPoolExecutor(1) as thread:
        seen = thread.submit(asyncio.run, visit).result()

    assert len(seen.changes) == len(guests) * SECONDS / EVERY
    for one in seen.changes:
        shown, words = expected[one.guest, one.heads]
        assert one.grade == shown, (one.guest, one.heads)
        assert words in one.words, (one.guest, one.heads)
    growth = seen.held(SECONDS) - seen.held(FROM)
    times = [one.milliseconds for one in seen.changes]
    with capsys.disabled():
        print(
            f"\nten visitors, {len(times)} changes in {SECONDS:.0f} s: median "
            f"{statistics.median(times):.0f} ms, worst {max(times):.0f} ms until the number changed; "
            f"the server holds {seen.held(FROM):.0f} MB at second {FROM:.0f}, {growth:+.0f} MB at "
            f"second {SECONDS:.0f}"
        )
    assert growth <= MOST_GROWTH


def predicted(one: Guest, heads: str) -> str:
    """The page's words on the likeliest grade, before and after."""
    before = explained(one.query, one.title)["predicted_grade"]
    return f"预测：{before} → {explained(one.query, one.title, heads)['predicted_grade']}"
