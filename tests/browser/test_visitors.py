"""Ten visitors at once, each with a pair and heads of their own, a change every five seconds."""

from __future__ import annotations

import asyncio
import statistics
from concurrent.futures import ThreadPoolExecutor

from tests.browser.driving.guests import PAIRS, expected, guest, wrong
from tests.browser.driving.many import observe

SECONDS, EVERY, FROM = 60.0, 5.0, 10.0
MOST_GROWTH = 50.0
"""MB by which the server may grow from second 10 to 60."""


def test_ten_visitors_see_their_own_numbers_for_a_minute(server, capsys):
    guests = [guest(place) for place in range(len(PAIRS))]
    wanted = expected(guests)
    visit = observe(server.url, guests, server.resident, seconds=SECONDS, every=EVERY)
    # In a thread of its own, as playwright's other interface is at work in this one.
    with ThreadPoolExecutor(1) as thread:
        seen = thread.submit(asyncio.run, visit).result()

    assert wrong(seen.changes, wanted) == []
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
