"""How fast the inspection page answers: a server and a real Chromium on this machine, one visitor.

    python -m benchmarks.page [--changes 20]

Starts `qt-bert app` on what ships, once while every core is busy, and waits for its answer, the
frame and the first page; then clicks to another head and another layer, types other heads to leave
out and other pairs. *Server* is the time from the request to the last byte of the answer, taken
between browser and server; *seen*, taken in the browser, that from the click or key to the changed
number. The table goes to standard output and between two comments of benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from benchmarks.common.command import parser_of
from benchmarks.common.machine import processor
from benchmarks.common.readme import markdown_table, rewrite_section
from benchmarks.common.wire import Wire, wired
from qt_bert.cli.terminal import table
from tests.browser.driving.charts import click_head
from tests.browser.driving.chromium import launched
from tests.browser.driving.server import serving
from tests.browser.driving.visitor import Visitor, visiting

README = Path(__file__).with_name("README.md")
HEAD = ("what", "aim, median of server / seen", "server: median (worst)", "seen: median (worst)")
AIM = "300 / 800 ms"
ANSWERS, FRAME, FRAME_BUSY, DRAWN = 5.0, 3.0, 6.0, 7.0
"""Aims in seconds."""
NUMBERS = "[data-testid=stMain] [data-testid=stHorizontalBlock]"
"""The row of figures at the top of the front page."""
MAP = "[data-testid=stMain]"
"""All of a page, with the numbers in its maps."""

LAYERS, HEADS = 12, 12
"""Of the model that ships."""

OUT = ("L2H1", "L3H7 L4H0", "L0H0 L1H1 L2H2", "")
TITLES = ("紫熨斗哪里买", "紫熨斗好用吗", "挂烫机和熨斗的区别")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write."""
    options = parse(arguments)
    with sync_playwright() as playwright, launched(playwright.chromium) as browser:
        with (
            busy(),
            TemporaryDirectory() as folder,
            serving(Path(folder)) as server,
            visiting(browser, server.url) as visitor,
        ):
            busy_frame, _ = first_page(visitor)
        with (
            TemporaryDirectory() as folder,
            serving(Path(folder)) as server,
            wired(urlsplit(server.url).port or 0) as wire,
            visiting(browser, wire.url) as visitor,
        ):
            frame, drawn = first_page(visitor)
            times = {way: measured(visitor, wire, way, options.changes) for way in WAYS}
    rows = [HEAD, *(row(way, one) for way, one in times.items())]
    start = Start(server.seconds, frame, busy_frame, drawn)
    notes = [start.sentence(), f"{processor()}; medians of {options.changes}."]
    print("\n\n".join([table(rows, left=2), *notes]))
    rewrite_section(options.readme, "page", "\n\n".join([markdown_table(rows), *notes]))


@dataclass(frozen=True)
class Start:
    """Seconds from the server's start to its answer; from the browser's request to the frame, to the frame
    while every core is busy, and to the first page."""

    answers: float
    frame: float
    frame_busy: float
    drawn: float

    def sentence(self) -> str:
        """The four figures and their aims."""
        return (
            f"The server answers {self.answers:.1f} s after its start (aim {ANSWERS:.0f} s). The frame is "
            f"there {self.frame:.1f} s after the browser's request (aim {FRAME:.0f} s), "
            f"{self.frame_busy:.1f} s while every core is busy (aim {FRAME_BUSY:.0f} s); the first page is "
            f"whole after {self.drawn:.1f} s (aim {DRAWN:.0f} s)."
        )


@contextmanager
def busy() -> Iterator[None]:
    """A process that computes on every core."""
    loop = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(loop) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
            process.wait()


def first_page(visitor: Visitor) -> tuple[float, float]:
    """Seconds from the browser's request until the frame's title, and the first page's numbers, are there."""
    start = time.perf_counter()
    visitor.page.goto(visitor.url, wait_until="commit")
    visitor.main.get_by_role("heading").first.wait_for()
    frame = time.perf_counter() - start
    visitor.main.get_by_test_id("stMetricValue").first.wait_for()
    drawn = time.perf_counter() - start
    visitor.settle()
    return frame, drawn


@dataclass(frozen=True)
class Way:
    """A kind of change: `act(visitor, turn)` does it on a page, and what is `watched` changes."""

    what: str
    page: str
    watched: str
    aim: str
    act: Callable[[Visitor, int], None]


def clicked(key: str) -> Callable[[Visitor, int], None]:
    """A click on another head in a grid of layers × heads."""

    def act(visitor: Visitor, turn: int) -> None:
        click_head(visitor, visitor.element(key), turn % LAYERS, (5 * turn) % HEADS)

    return act


def typed(key: str, texts: Sequence[object]) -> Callable[[Visitor, int], None]:
    """Another text in a field, and Enter."""

    def act(visitor: Visitor, turn: int) -> None:
        visitor.field(key).fill(str(texts[turn % len(texts)]))
        visitor.field(key).press("Enter")

    return act


@dataclass(frozen=True)
class Measured:
    """Milliseconds of each change: of the server, and until the number was seen to change."""

    server: list[float]
    seen: list[float]


WAYS = (
    Way("CLS focus: another head", "focus", NUMBERS, AIM, typed("side-head", range(HEADS))),
    Way("CLS focus: another layer", "focus", NUMBERS, AIM, typed("side-layer", range(LAYERS))),
    Way("Attention: another head", "attention", MAP, AIM, typed("side-head", range(HEADS))),
    Way("Attention: another layer", "attention", MAP, AIM, typed("side-layer", range(LAYERS))),
    Way("Attention: a click on the grid", "attention", MAP, AIM, clicked("figure-attention-grid")),
    Way("CLS focus: other heads left out", "focus", NUMBERS, "–", typed("side-out", OUT)),
    Way("CLS focus: another title", "focus", NUMBERS, "–", typed("side-title", TITLES)),
)


def measured(visitor: Visitor, wire: Wire, way: Way, changes: int) -> Measured:
    """So many changes in this way, after one that is not counted."""
    visitor.open(way.page, layer=5, head=5)
    way.act(visitor, 0)
    visitor.settle()
    found = Measured([], [])
    for turn in range(1, changes + 1):
        wire.start()
        times = visitor.timed(way.watched, partial(way.act, visitor, turn))
        found.server.append(wire.milliseconds())
        found.seen.append(times.seen)
    return found


def row(way: Way, found: Measured) -> tuple[str, ...]:
    """A line of the table."""
    return way.what, way.aim, *map(spread, (found.server, found.seen))


def spread(times: list[float]) -> str:
    return f"{statistics.median(times):.0f} ms ({max(times):.0f})"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--changes", type=int, default=20, help="changes of each kind")
    parser.add_argument("--readme", type=Path, default=README, help="page to write the table into")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
