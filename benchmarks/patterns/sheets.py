"""Contact sheets: maps to be labelled by looking, with nothing on them of where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from qt_bert.probes.map_patterns.kinds import CLS, QUERY, SEP, TITLE
from qt_bert.probes.map_patterns.stored import DrawnMap

ACROSS, DOWN = 6, 4
SIDE, LEFT, TOP = 195, 22, 34
GAMMA = 0.8
BORDER, TICK, INK = (90, 160, 255), (220, 40, 40), (0, 0, 0)


def draw_sheets(maps: Sequence[DrawnMap], folder: Path) -> list[Path]:
    """Write `sheet-01.png` and so on, ACROSS × DOWN maps each; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    size = ACROSS * DOWN
    written = []
    for number, start in enumerate(range(0, len(maps), size), 1):
        path = folder / f"sheet-{number:02d}.png"
        _sheet(maps[start : start + size]).save(path)
        written.append(path)
    return written


def _sheet(maps: Sequence[DrawnMap]) -> Image.Image:
    sheet = Image.new("RGB", (ACROSS * (SIDE + LEFT) + 10, DOWN * (SIDE + TOP) + 10), "white")
    for place, one in enumerate(maps):
        down, across = divmod(place, ACROSS)
        sheet.paste(_picture(one), (across * (SIDE + LEFT), down * (SIDE + TOP)))
    return sheet


def _picture(one: DrawnMap) -> Image.Image:
    """A map with its number; darker is more, black is what half of the rows give at least once."""
    picture = Image.new("RGB", (SIDE + LEFT, SIDE + TOP), "white")
    pen = ImageDraw.Draw(picture)
    black = float(np.median(one.weights.max(axis=1)))
    edges = np.linspace(0, SIDE, len(one.kinds) + 1).round().astype(int).tolist()
    shades = (255 * (1 - np.minimum(one.weights / black, 1) ** GAMMA)).astype(int)
    for row, column in np.ndindex(shades.shape):
        corner = (LEFT + edges[column], TOP + edges[row])
        far = (LEFT + edges[column + 1] - 1, TOP + edges[row + 1] - 1)
        shade = int(shades[row, column])
        pen.rectangle((corner, far), fill=(shade, shade, shade))
    _marks(pen, one.kinds, edges)
    font = ImageFont.load_default(15)
    pen.text((LEFT, 2), f"{one.id}", fill=INK, font=font)
    note = f"{len(one.kinds)} tokens, black = {black:.2f}"
    pen.text((LEFT + 60, 5), note, fill=(110, 110, 110), font=ImageFont.load_default(11))
    return picture


def _marks(pen: ImageDraw.ImageDraw, kinds: np.ndarray, edges: list[int]) -> None:
    """Borders of the segments as lines, [CLS] and [SEP] as ticks outside the map."""
    pen.rectangle((LEFT - 1, TOP - 1, LEFT + SIDE, TOP + SIDE), outline=BORDER)
    for place in _borders(kinds):
        at = edges[place]
        pen.line((LEFT + at, TOP, LEFT + at, TOP + SIDE), fill=BORDER)
        pen.line((LEFT, TOP + at, LEFT + SIDE, TOP + at), fill=BORDER)
    for token in np.flatnonzero((kinds == CLS) | (kinds == SEP)):
        low, high = edges[token], edges[token + 1] - 1
        pen.rectangle((LEFT + low, TOP - 8, LEFT + high, TOP - 3), fill=TICK)
        pen.rectangle((LEFT - 8, TOP + low, LEFT - 3, TOP + high), fill=TICK)


def _borders(kinds: np.ndarray) -> Iterator[int]:
    """Where the title begins: the second segment, after the query's separator."""
    starts = np.flatnonzero((kinds[1:] == TITLE) & (kinds[:-1] != TITLE)) + 1
    if (kinds == QUERY).any() and len(starts):
        yield int(starts[0])
