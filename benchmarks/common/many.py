"""Several visitors at the same time, each changing the heads left out every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from playwright.async_api import Browser, Page, async_playwright

from tests.browser.driving import clock
from tests.browser.driving.chromium import options
from tests.browser.driving.guests import Expected, Guest
from tests.browser.driving.visitor import PATIENCE, SETTLED, WIDE

GRADE = "[data-testid=stMain] [data-testid=stMetricValue]"
FIELD = ".st-key-side-out input"


@dataclass(frozen=True)
class Change:
    """What a guest saw after a change: the grade, the page's words, milliseconds until the change."""

    guest: Guest
    heads: str
    grade: str
    words: str
    milliseconds: float


@dataclass(frozen=True)
class Observed:
    """All changes, and (second, MB) of the server's memory."""

    changes: list[Change]
    memory: list[tuple[float, float]]

    def held(self, second: float) -> float:
        """MB held at about this second."""
        return min(self.memory, key=lambda one: abs(one[0] - second))[1]


async def observe(
    url: str,
    guests: Sequence[Guest],
    memory: Callable[[], float],
    *,
    seconds: float,
    every: float,
) -> Observed:
    """Guests at the page for `seconds`, each with a change `every` so many of them, by turns."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options())  # type: ignore[arg-type]
        pages = [await _arrive(browser, url, guest) for guest in guests]
        begun = time.monotonic()
        watching = asyncio.create_task(_watch(memory, begun))
        found = await asyncio.gather(
            *(
                _stay(page, guest, begun + place * every / len(guests), seconds, every)
                for place, (page, guest) in enumerate(zip(pages, guests, strict=True))
            )
        )
        await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))
        watching.cancel()
        await browser.close()
    return Observed([one for some in found for one in some], await watching)


async def _arrive(browser: Browser, url: str, guest: Guest) -> Page:
    size = {"width": WIDE[0], "height": WIDE[1]}
    context = await browser.new_context(viewport=size)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    await context.add_init_script(clock.CLOCK)
    page = await context.new_page()
    link = {"q": guest.query, "t": guest.title, "out": guest.heads[-1]}
    await page.goto(f"{url}/?{urlencode(link)}", wait_until="domcontentloaded")
    await _settle(page)
    return page


async def _stay(
    page: Page, guest: Guest, begun: float, seconds: float, every: float
) -> list[Change]:
    found = []
    for turn in range(int(seconds / every)):
        await asyncio.sleep(max(0.0, begun + turn * every - time.monotonic()))
        heads = guest.heads[turn % len(guest.heads)]
        await page.evaluate(clock.START, GRADE)
        await page.fill(FIELD, heads)
        await page.press(FIELD, "Enter")
        await page.wait_for_function("() => window.__clock.changed")
        await _settle(page)
        times = clock.timed(await page.evaluate(clock.READ))
        grade = await page.locator(GRADE).first.inner_text()
        words = await page.get_by_test_id("stMain").inner_text()
        found.append(Change(guest, heads, grade, words, times.seen))
    return found


async def _settle(page: Page) -> None:
    await page.evaluate("() => { delete window.__settled; }")
    await page.wait_for_function(SETTLED, arg=250)


async def _watch(memory: Callable[[], float], begun: float) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    try:
        while True:
            found.append((time.monotonic() - begun, memory()))
            await asyncio.sleep(1)
    except asyncio.CancelledError:
        return found


def wrong(seen: list[Change], wanted: Expected) -> list[str]:
    """What was shown to a guest and is not theirs; empty is good."""
    return [
        f"{one.guest.query}, {one.guest.title} without {one.heads}: shown {one.grade}, not {grade} "
        f"with {words!r}"
        for one in seen
        for grade, words in [wanted[one.guest, one.heads]]
        if one.grade != grade or words not in one.words
    ]
