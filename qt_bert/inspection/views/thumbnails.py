"""The maps of all heads as one picture, layers by heads, for light and dark pages alike."""

from __future__ import annotations

import io

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.results.palette import LIGHT

TILE, GAP = 40, 6
MARGIN = 34
"""Pixels of a map, between maps, and of the labels on the left and above."""

WEIGHT, MORE, LESS = LIGHT.series[4], LIGHT.positive, LIGHT.series[4]
INK = "#808080"
"""Tones that are seen on a light page and on a dark one."""


def picture(maps: np.ndarray, chosen: Head, *, changes: bool = False) -> np.ndarray:
    """Small maps [layers, heads, size, size] as pixels [height, width, RGBA].

    The page shows through: the root of a weight is how much of it the colour covers, so that small
    weights are seen too. Of `changes`, more and less have colours of their own. `chosen` is framed.
    """
    positive = MORE if changes else WEIGHT
    layers, heads, size, _ = maps.shape
    step = TILE + GAP
    pixels = np.zeros((MARGIN + layers * step, MARGIN + heads * step, 4), np.uint8)
    places = np.arange(TILE) * size // TILE
    for layer in range(layers):
        for head in range(heads):
            tile = maps[layer, head][places][:, places].astype(np.float32)
            top, left = MARGIN + layer * step, MARGIN + head * step
            _frame(pixels, top, left, strong=(layer, head) == chosen)
            pixels[top : top + TILE, left : left + TILE] = _coloured(tile, positive)
    return pixels


def png(pixels: np.ndarray) -> bytes:
    """The picture with its labels (`L3` left of a row, `H7` above a column) as a PNG file."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(pixels, "RGBA")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=13)
    step = TILE + GAP
    for layer in range((pixels.shape[0] - MARGIN) // step):
        middle = MARGIN + layer * step + TILE // 2
        draw.text((MARGIN - 6, middle), f"L{layer}", INK, font, anchor="rm")
    for head in range((pixels.shape[1] - MARGIN) // step):
        middle = MARGIN + head * step + TILE // 2
        draw.text((middle, MARGIN - 6), f"H{head}", INK, font, anchor="ms")
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=3)
    return file.getvalue()


def _frame(pixels: np.ndarray, top: int, left: int, *, strong: bool) -> None:
    """A line around a map: faint, or strong for the chosen one."""
    width, opacity = (3, 255) if strong else (1, 90)
    area = pixels[top - width : top + TILE + width, left - width : left + TILE + width]
    area[...] = (*_rgb(INK), opacity)


def _coloured(tile: np.ndarray, positive: str) -> np.ndarray:
    colours = np.where((tile < 0)[..., None], np.array(_rgb(LESS)), np.array(_rgb(positive)))
    opacity = 255 * np.sqrt(np.abs(tile).clip(0, 1))
    return np.concatenate([colours, opacity[..., None]], axis=-1).round().astype(np.uint8)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour.removeprefix("#")))
