"""A small SVG canvas over ElementTree, so that every text is escaped by the library.

Colours, fonts and line styles come from the page's style sheet through class names, so that a
chart follows light and dark. A bilingual text is drawn twice; the style sheet shows one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from xml.etree import ElementTree

from qt_bert.results.numbers import printable
from qt_bert.results.text import Label, Text, in_language

FONT_SIZE = 13
SMALL = 12
LEADING = 14
_SCROLLS_FROM = 720
# What a line may end after: a run of letters with the space behind it, or any other character with
# the punctuation that must not begin a line.
_BREAKABLE = re.compile(r"[!-~\u00a0-\u036f]+\s*|.[）」』”’》〉，。；：、！？…]*", re.DOTALL)

Place = tuple[float, float]


class Canvas:
    """An SVG picture of a given size in pixels, with a title for screen readers.

    `height` may be set while it is drawn, once it is known how much there is to draw.
    """

    def __init__(self, width: float, height: float, title: Text) -> None:
        # A wide picture scrolls in its box; a narrow one may shrink to fit a phone.
        least = width if width > _SCROLLS_FROM else 0.8 * width
        spoken = printable(f"{title.zh} / {title.en}")
        self.width = width
        self.height = height
        self.root = ElementTree.Element(
            "svg",
            {
                "role": "img",
                "aria-label": spoken,
                "style": f"max-width:{width:g}px;min-width:{least:g}px",
            },
        )
        ElementTree.SubElement(self.root, "title").text = spoken

    def rect(
        self,
        place: Place,
        size: Place,
        style: str,
        *,
        opacity: float | None = None,
        tip: Label | None = None,
    ) -> None:
        """A rectangle with its upper left corner at `place`; `tip` shows when pointed at."""
        shape = self._add("rect", style, x=place[0], y=place[1], width=size[0], height=size[1])
        if opacity is not None:
            shape.set("fill-opacity", f"{opacity:.3f}")
        self._tip(shape, tip)

    def line(self, start: Place, end: Place, style: str, *, width: float | None = None) -> None:
        """A straight line."""
        shape = self._add("line", style, x1=start[0], y1=start[1], x2=end[0], y2=end[1])
        if width is not None:
            shape.set("stroke-width", f"{width:.2f}")

    def path(
        self,
        points: Iterable[Place],
        style: str,
        *,
        closed: bool = False,
        tip: Label | None = None,
    ) -> None:
        """A line through `points`, or the area that they enclose."""
        steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        shape = self._add("path", style)
        shape.set("d", f"M{steps}{' Z' if closed else ''}")
        self._tip(shape, tip)

    def circle(self, centre: Place, radius: float, style: str, *, tip: Label | None = None) -> None:
        """A disc."""
        shape = self._add("circle", style, cx=centre[0], cy=centre[1], r=radius)
        self._tip(shape, tip)

    def text(
        self,
        place: Place,
        label: Label,
        style: str = "",
        *,
        anchor: str = "start",
        upright: bool = False,
    ) -> None:
        """A line of text on the baseline `place`; `anchor` is start, middle or end.

        An `upright` one runs from `place` to the top.
        """
        for language in _languages(label):
            shape = self._text(place, in_language(label, language), f"{style} {language}", anchor)
            if upright:
                shape.set("transform", f"rotate(-90 {place[0]:.1f} {place[1]:.1f})")

    def paragraph(
        self,
        place: Place,
        label: Label,
        width: float,
        style: str = "small",
        *,
        anchor: str = "start",
        most: int = 2,
        middle: bool = False,
    ) -> float:
        """Small text in up to `most` lines of `width` pixels, from the baseline `place` down.

        With `middle` the lines stand around it instead. Returns the height of all lines, in the
        language that takes more.
        """
        tallest = 0.0
        for language in _languages(label):
            lines = wrap(in_language(label, language), width, most)
            x, y = place
            if middle:
                y -= LEADING * (len(lines) - 1) / 2
            for line in lines:
                self._text((x, y), line, f"{style} {language}", anchor)
                y += LEADING
            tallest = max(tallest, LEADING * len(lines))
        return tallest

    def svg(self) -> str:
        """The picture as markup to stand inside an HTML page."""
        self.root.set("viewBox", f"0 0 {self.width:g} {self.height:g}")
        return ElementTree.tostring(self.root, encoding="unicode")

    def _text(self, place: Place, words: str, style: str, anchor: str) -> ElementTree.Element:
        shape = self._add("text", style.strip(), x=place[0], y=place[1])
        shape.set("text-anchor", anchor)
        shape.text = printable(words)
        return shape

    def _add(self, name: str, style: str, **numbers: float) -> ElementTree.Element:
        attributes = {key: f"{value:.1f}".removesuffix(".0") for key, value in numbers.items()}
        if style:
            attributes["class"] = style
        return ElementTree.SubElement(self.root, name, attributes)

    def _tip(self, shape: ElementTree.Element, tip: Label | None) -> None:
        if tip is not None:
            words = tip if isinstance(tip, str) else f"{tip.zh} / {tip.en}"
            ElementTree.SubElement(shape, "title").text = printable(words)


def wrap(words: str, width: float, most: int, size: float = SMALL) -> list[str]:
    """`words` in at most `most` lines of `width` pixels; what is too long loses its end."""
    lines = [""]
    for piece in _BREAKABLE.findall(words):
        if lines[-1] and text_width((lines[-1] + piece).rstrip(), size) > width:
            lines.append("")
        lines[-1] += piece
    kept = [*lines[: most - 1], "".join(lines[most - 1 :])]
    return [_fit(line.strip(), width, size) for line in kept if line]


def _languages(label: Label) -> tuple[str, ...]:
    return ("zh", "en") if isinstance(label, Text) else ("",)


def text_width(label: Label, size: float = FONT_SIZE) -> float:
    """About how many pixels the label takes, in its longer language."""
    words = {in_language(label, language) for language in ("zh", "en")}
    return max(sum(map(_em, text)) for text in words) * size


def fit(label: Label, width: float, size: float = FONT_SIZE) -> Label:
    """The label, its end cut off where it would not fit into `width` pixels."""
    if isinstance(label, Text):
        return Text(_fit(label.zh, width, size), _fit(label.en, width, size))
    return _fit(label, width, size)


def _fit(text: str, width: float, size: float) -> str:
    if text_width(text, size) <= width:
        return text
    room = width - size
    kept = 0
    while kept < len(text) and room >= _em(text[kept]) * size:
        room -= _em(text[kept]) * size
        kept += 1
    return f"{text[:kept]}…"


def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.58
