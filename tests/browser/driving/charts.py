"""Pointing into charts, which are pixels: the tooltip says which cell lies below the mouse."""

import re
from dataclasses import dataclass
from functools import partial

from playwright.sync_api import Locator
from playwright.sync_api import TimeoutError as NotInTime

from tests.browser.driving.visitor import Visitor

TRIES, CELLS = 12, 16
TOLD_WITHIN, LOOKS = 2_000.0, 10
NUDGE = 1.0
"""A mouse that rests where a chart was drawn anew is told nothing: it must move."""
NAMED = re.compile(r"\bL(\d+)\D*?H(\d+)")
"""`L3H7`, or row and column in a tooltip's table."""
PICTURE = "svg.marks, canvas.marks"


@dataclass(frozen=True)
class Below:
    """The head below a point (x, y) of a layers × heads map, and all that the tooltip says."""

    x: float
    y: float
    layer: int
    head: int
    words: str


def click_head(one: Visitor, chart: Locator, layer: int, head: int) -> None:
    """Click a cell of a layers × heads map, found by its tooltip, as a person would.

    Raises LookupError where it is not found.
    """
    canvas = chart.locator(PICTURE).first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    # Pixels from cell to cell, at first as if the map filled the picture; each move tells better.
    across, down = box["width"] / CELLS, box["height"] / CELLS
    found = _below(one, canvas, box["width"] * 0.6, box["height"] * 0.45)
    if found is None:
        raise LookupError("nothing is told in the middle of this map")
    share = 1.0
    for _ in range(TRIES):
        if (found.layer, found.head) == (layer, head):
            one.answered(partial(canvas.click, position={"x": found.x, "y": found.y}))
            return
        x = found.x + share * (head - found.head) * across
        there = _below(one, canvas, x, found.y + share * (layer - found.layer) * down)
        if there is None:
            share /= 2
            continue
        if there.head != found.head:
            across = (there.x - found.x) / (there.head - found.head)
        if there.layer != found.layer:
            down = (there.y - found.y) / (there.layer - found.layer)
        found, share = there, 1.0
    raise LookupError(f"L{layer}H{head} is not on this map; there is {found.words!r}")


def _below(one: Visitor, canvas: Locator, x: float, y: float) -> Below | None:
    """What the tooltip says; None where it says nothing of a layer and head."""
    words = ""
    for look in range(LOOKS):
        if words := _noted(one, canvas, x + look % 2 * NUDGE, y):
            break
    named = NAMED.search(words)
    return None if named is None else Below(x, y, int(named[1]), int(named[2]), words)


def _noted(one: Visitor, canvas: Locator, x: float, y: float) -> str:
    """The tooltip of a point; empty where none comes, or the chart is drawn anew and takes it away."""
    canvas.hover(position={"x": x, "y": y})
    tip = one.page.locator("#vg-tooltip-element.visible")
    try:
        return tip.inner_text(timeout=TOLD_WITHIN)
    except NotInTime:
        return ""


def drawing(one: Visitor) -> list[str]:
    """What every chart and every row of tokens on the page shows."""
    drawn = one.main.locator("svg.marks, .tokens")
    return drawn.evaluate_all("all => all.map(one => one.innerHTML)")
