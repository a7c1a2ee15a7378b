"""Attention: any head's map, with heads left out, before and after fine-tuning; all heads in small."""

from __future__ import annotations

import io

import numpy as np
import streamlit as st

from qt_bert.figures import HeatMap, Links, head_map
from qt_bert.heads import Head
from qt_bert.page.figures import draw
from qt_bert.page.maps import (
    AFTER,
    BEFORE,
    CHANGE,
    PARTS,
    PERCENT,
    SMALL,
    WHOLE,
    Overview,
    attention,
    last_start,
    overview,
)
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import caption, choose, info, localised, metric
from qt_bert.results.palette import LIGHT
from qt_bert.text import Text, number

# Columns of a map that can be read in half the page.
NARROW = 20
WAYS = {"before": BEFORE, "after": AFTER, "change": CHANGE}
# Pixels of a small map, between maps, and of the labels on the left and above.
TILE, GAP, MARGIN = 40, 6, 34
# Tones visible on a light and on a dark page.
WEIGHT, MORE, LESS, INK = LIGHT.series[4], LIGHT.positive, LIGHT.series[4], "#808080"


def main() -> None:
    """Lay out the page; a click on the grid, at its foot, is looked at before the rest is drawn."""
    here = visit()
    here.stop_if_empty()
    st.header(localised("注意力图", "Attention map"))
    parts = {name: part[0] for name, part in PARTS.items()}
    part = choose(Text("看哪一部分", "Part"), parts, "attention.part")
    comparisons = {
        "out": Text("去掉头前后", "heads left out"),
        "tuning": Text("微调前后", "fine-tuning"),
    }
    comparison = choose(Text("比较", "Compare"), comparisons, "attention.compare")
    maps, foot = st.container(), st.container()
    with foot:
        _all_heads(here, part)
    with maps:
        _maps(here, part, comparison)


def _maps(here: Visit, part: str, comparison: str) -> None:
    """The chosen head's maps, two beside each other where there is room."""
    last = last_start(here.model, here.state, part)
    label = localised("从第几个词元画起", "First token drawn")
    start = st.slider(label, 0, last, key=f"attention.start.{last}") if last else 0
    base = here.base if comparison == "tuning" else None
    if comparison == "tuning" and base is None:
        caption(
            "没有这个模型微调之前的权重，不能比较微调前后。",
            "The weights before fine-tuning are not known for this model.",
        )
    seen = attention(here.model, here.state, part, start, base=base)
    caption(
        f"{seen.head}（{here.model.name}）。每行是一个在看的词元，整行（全部列）之和为 1；"
        "指着一格可见两个字和权重。",
        f"{seen.head} of {here.model.name}. A row is a token that looks; over all columns it "
        "adds up to 1. Point at a cell to see both tokens and the weight.",
    )
    for note in seen.notes:
        info(note)
    if part != WHOLE:
        for column, (way, value) in zip(st.columns(2), seen.mean_weights, strict=False):
            with column:
                name = Text(
                    f"{way.zh}：平均给所看部分的注意力（%）",
                    f"{way.en}: mean attention given within the part (%)",
                )
                metric(localised(name), number(value, 1))
    abreast = 2 if all(len(figure.columns) <= NARROW for figure in seen.figures) else 1
    whole = len(seen.lines)
    figures: list[HeatMap | Links] = [*seen.figures[:whole], *seen.lines, *seen.figures[whole:]]
    for place in range(0, len(figures), abreast):
        row = figures[place : place + abreast]
        for column, figure in zip(st.columns(len(row)), row, strict=True):
            with column:
                draw(figure, key=f"attention.{figure.name}")


def _all_heads(here: Visit, part: str) -> None:
    """All heads in small, and a grid to choose one from."""
    st.subheader(localised("所有的头", "All heads"))
    seen, way = overview(here.model, here.state), "before"
    if len(seen.small) > 1:
        way = choose(Text("画什么", "What is drawn"), WAYS, "attention.way")
    picture = png(of_way(seen.small.astype(np.float32), way), here.state.chosen, way == "change")
    grid, beside = st.columns(2, gap="large")
    with grid:
        grid_map = grid_of(seen, part, way, here.state.chosen)
        clicked = draw(grid_map, key="attention.grid", click=True)
    with beside:
        st.image(picture, width="stretch")
        caption(
            f"行：谁在看；列：看谁，至多合成 {SMALL} × {SMALL} 格，每格取最大值。颜色的深浅是权重的平方根。",
            f"Rows look at columns, drawn as {SMALL} × {SMALL} cells at most, each the largest within. "
            "The shade is the root of the weight.",
        )
    if clicked is not None:
        here.change(layer=clicked[0], head=clicked[1])


def of_way(ways: np.ndarray, way: str) -> np.ndarray:
    """One way of what holds the whole model and, beside it, the model without heads."""
    return np.asarray(ways[1] - ways[0] if way == "change" else ways[0 if way == "before" else 1])


def grid_of(seen: Overview, part: str, way: str, chosen: Head) -> HeatMap:
    """What each head's tokens that look give to those looked at, the chosen head outlined.

    Rows of whole maps all add up to 1; there the grid shows what one text gives the other.
    """
    names = list(PARTS)
    if part == WHOLE:
        cross = [names.index("query_title"), names.index("title_query")]
        weights = seen.mean_weights[..., cross].mean(axis=-1)
        what = Text(
            "一个文本给另一个文本，两个方向的平均", "from one text to the other, mean of both ways"
        )
    else:
        weights, what = seen.mean_weights[..., names.index(part)], PARTS[part][0]
    change, name = way == "change", WAYS[way]
    return head_map(
        "all_heads",
        PERCENT * of_way(weights.astype(np.float64), way),
        title=Text(
            f"每个头的注意力：{what.zh}（{name.zh}）",
            f"Attention of every head: {what.en} ({name.en})",
        ),
        unit=Text("个百分点", "points") if change else Text("% 的注意力", "% of attention"),
        marked=[chosen],
        scale="diverging" if change else "sequential",
        low=None if change else 0.0,
        digits=0,
        note=Text("点一格选这个头", "Click a cell to choose its head"),
    )


def png(maps: np.ndarray, chosen: Head, changes: bool = False) -> bytes:
    """Small maps [layers, heads, size, size] as a PNG file, `L3` left of a row, `H7` above a column.

    The page shows through: the root of a weight is how much of it the colour covers. Of `changes`,
    more and less have colours of their own. `chosen` is framed.
    """
    from PIL import Image, ImageDraw, ImageFont

    layers, heads, size, _ = maps.shape
    step, places = TILE + GAP, np.arange(TILE) * size // TILE
    pixels = np.zeros((MARGIN + layers * step, MARGIN + heads * step, 4), np.uint8)
    more, less, ink = (list(bytes.fromhex(c[1:])) for c in (MORE if changes else WEIGHT, LESS, INK))
    for layer in range(layers):
        for head in range(heads):
            tile = maps[layer, head][places][:, places]
            top, left = MARGIN + layer * step, MARGIN + head * step
            edge, opacity = (3, 255) if (layer, head) == chosen else (1, 90)
            down, across = (slice(at - edge, at + TILE + edge) for at in (top, left))
            pixels[down, across] = (*ink, opacity)
            colours = np.where((tile < 0)[..., None], less, more)
            cover = 255 * np.sqrt(np.abs(tile).clip(0, 1))[..., None]
            drawn = np.concatenate([colours, cover], axis=-1).round()
            pixels[top : top + TILE, left : left + TILE] = drawn
    image = Image.fromarray(pixels, "RGBA")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=13)
    near, middle = MARGIN - 6, MARGIN + TILE // 2
    for layer in range(layers):
        pen.text((near, middle + layer * step), f"L{layer}", INK, font, anchor="rm")
    for head in range(heads):
        pen.text((middle + head * step, near), f"H{head}", INK, font, anchor="ms")
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


if __name__ == "__main__":
    main()
