"""Concurrent visitors of the page, each changing the heads left out every few seconds."""

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
    """What a guest saw after a change: grade, text of the page, milliseconds until the grade changed."""

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
        """MB at about this second."""
        return min(self.memory, key=lambda sample: abs(sample[0] - second))[1]


async def observe(
    url: str, guests: Sequence[Guest], memory: Callable[[], float], *, seconds: float, every: float
) -> Observed:
    """Guests on the page for `seconds`, each changing heads `every` so many seconds, in turn."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options())  # type: ignore[arg-type]
        pages = [await _arrive(browser, url, guest) for guest in guests]
        begun = time.monotonic()
        watching = asyncio.create_task(_watch(memory, begun))
        changes = await asyncio.gather(
            *(
                _stay(page, guest, begun + place * every / len(guests), seconds, every)
                for place, (page, guest) in enumerate(zip(pages, guests, strict=True))
            )
        )
        await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))
        watching.cancel()
        await browser.close()
    return Observed([change for of_guest in changes for change in of_guest], await watching)


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
    changes = []
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
        changes.append(Change(guest, heads, grade, words, times.seen))
    return changes


async def _settle(page: Page) -> None:
    await page.evaluate("() => { delete window.__settled; }")
    await page.wait_for_function(SETTLED, arg=250)


async def _watch(memory: Callable[[], float], begun: float) -> list[tuple[float, float]]:
    samples: list[tuple[float, float]] = []
    try:
        while True:
            samples.append((time.monotonic() - begun, memory()))
            await asyncio.sleep(1)
    except asyncio.CancelledError:
        return samples


def wrong(changes: list[Change], expected: Expected) -> list[str]:
    """The changes that showed a guest a wrong grade or text."""
    return [
        f"{c.guest.query}, {c.guest.title} without {c.heads}: shown {c.grade}, not {grade} with {words!r}"
        for c in changes
        for grade, words in [expected[c.guest, c.heads]]
        if c.grade != grade or words not in c.words
    ]
