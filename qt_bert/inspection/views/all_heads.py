"""All heads of one pair at a glance, and one head at work on shipped pairs."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, get_args

import numpy as np

from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.figures import HeatMap
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inputs import shipped_rows
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.state import State
from qt_bert.inspection.views.attention import PARTS, WHOLE, Maps, Overview, attention, overview
from qt_bert.inspection.views.phrases import AFTER, BEFORE, CHANGE, score_name
from qt_bert.inspection.views.shared import PERCENT, head_map
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head
from qt_bert.results.palette import LIGHT
from qt_bert.scoring.judge import Outputs
from qt_bert.text import Text, number, shortest

# The maps of all heads as one picture, layers by heads, for light and dark pages alike.


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


# All heads of one pair at a glance: a picture of their maps, and a grid to choose one from.


Way = Literal["before", "after", "change"]
WAYS: dict[Way, Text] = dict(zip(get_args(Way), (BEFORE, AFTER, CHANGE), strict=True))
CROSS = ("query_title", "title_query")
"""What the grid shows of whole maps, all rows of which add up to 1: what one text gives the other."""


@dataclass(frozen=True)
class AllHeads:
    """The maps as a PNG file, and the grid; `note` says what a cell of a small map is."""

    picture: bytes
    grid: HeatMap
    note: Text


def all_heads(
    inspected: Inspected, state: State, part: str = WHOLE, way: Way = "before"
) -> AllHeads:
    """All heads on the state's pair; `after` and `change` want heads left out, else `before` is shown."""
    seen, chosen = overview(inspected, state), state.chosen
    if len(seen.small) == 1:
        way = "before"
    return AllHeads(
        png(picture(_of(seen.small.astype(np.float32), way), chosen, changes=way == "change")),
        _grid(seen, part, way, chosen),
        _note(inspected, state, seen),
    )


def _grid(seen: Overview, part: str, way: Way, chosen: Head) -> HeatMap:
    """What each head's tokens that look give to those looked at, the chosen head outlined."""
    names = list(PARTS)
    if part == WHOLE:
        given = np.mean([seen.given[..., names.index(one)] for one in CROSS], axis=0)
        what = Text(
            "一个文本给另一个文本，两个方向的平均", "from one text to the other, mean of both ways"
        )
    else:
        given, what = seen.given[..., names.index(part)], PARTS[part].name
    change = way == "change"
    return head_map(
        "all_heads",
        Text(
            f"每个头的注意力：{what.zh}（{WAYS[way].zh}）",
            f"Attention of every head: {what.en} ({WAYS[way].en})",
        ),
        Text("个百分点", "points") if change else Text("% 的注意力", "% of attention"),
        PERCENT * _of(given.astype(np.float64), way),
        marked=[chosen],
        scale="diverging" if change else "sequential",
        low=None if change else 0.0,
        digits=0,
        note=Text(
            "点一格选这个头；粗框：正在看的头",
            "Click a cell to choose its head; outlined: the present one",
        ),
    )


def _of(ways: np.ndarray, way: Way) -> np.ndarray:
    """One way of what holds the whole model and, beside it, the model without heads."""
    if way == "change":
        return np.asarray(ways[1] - ways[0])
    return np.asarray(ways[0 if way == "before" else 1])


def _note(inspected: Inspected, state: State, seen: Overview) -> Text:
    tokens, size = len(inspected.encode(state.query, state.title)), seen.small.shape[-1]
    root = Text(
        "行：谁在看；列：看谁。颜色的深浅是权重的平方根，小的权重也看得见。",
        "Rows look at columns. The shade is the root of the weight, so that small ones are seen.",
    )
    if size == tokens:
        return root
    return Text(
        f"{root.zh}{tokens} 个词元合成 {size} × {size} 格，每格取最大值。",
        f"{root.en} {tokens} tokens are drawn as {size} × {size} cells, each the largest within.",
    )


# One head at work: the pairs of the shipped dev whose grade moves most without it.


LOOKED_AT = 32
"""Pairs of the shipped dev among which the strongest are sought."""
SHOWN = 3

_BASE = Text(
    f"从自带 dev 的 {LOOKED_AT} 对里，挑出只去掉这个头时输出变化最大的 {SHOWN} 对。",
    f"Of {LOOKED_AT} pairs of the dev that ships, the {SHOWN} whose outputs change most without this "
    "head alone.",
)
_NONE = Text(
    "微调前的模型没有学过分档，没有例子。",
    "A model before fine-tuning gives no grades: there are no examples.",
)


@dataclass(frozen=True)
class Example:
    """A pair and its expected grade, or score, with the head and without it.

    `moved` is the KL divergence of the grades in nats; for one logit the change of the score.
    """

    query: str
    title: str
    before: float
    after: float
    moved: float
    labels: ModelLabels

    @property
    def said(self) -> Text:
        """Grade with it and without it, and how far the outputs move."""
        name = score_name(self.labels)
        ends = f"{number(self.before, 2)} → {number(self.after, 2)}"
        if self.labels.logits == 1:
            return Text(f"{name.zh} {ends}", f"{name.en} {ends}")
        moved = shortest(self.moved)
        return Text(f"{name.zh} {ends}，KL {moved} nat", f"{name.en} {ends}, KL {moved} nats")

    def maps(self, inspected: Inspected, state: State) -> Maps:
        """The head's attention on this pair, with nothing left out."""
        return attention(inspected, replace(state, query=self.query, title=self.title, out=()))


def about(inspected: Inspected) -> Text:
    """How they are sought, or why there are none."""
    return _BASE if inspected.classifies else _NONE


def strongest(inspected: Inspected, state: State) -> tuple[Example, ...]:
    """The pairs whose outputs move most without the state's head, most first.

    Replaced as the state says, and with no other heads left out. Nothing for a model before
    fine-tuning, whose outputs mean nothing.
    """
    if not inspected.classifies:
        return ()
    head = state.chosen
    key = (inspected.key, head, state.mode)
    return _kept.get(key, lambda: _strongest(inspected, head, state.mode))


def _strongest(inspected: Inspected, head: Head, mode: str) -> tuple[Example, ...]:
    texts = [(pair.query, pair.title) for pair in _pairs()]

    def run(head: Head | None) -> Outputs:
        part = None if head is None else inspected.part([head], mode)
        variant = NONE if part is None else Variant("head", (part,))
        return inspected.outputs(inspected.run(texts, [variant]).logits[0])

    plain, without = _kept.get((inspected.key, None), lambda: run(None)), run(head)
    moved = _moved(plain, without)
    return tuple(
        Example(
            query=texts[row][0],
            title=texts[row][1],
            before=float(plain.ranking_score[row]),
            after=float(without.ranking_score[row]),
            moved=float(moved[row]),
            labels=inspected.labels,
        )
        for row in np.argsort(-moved, kind="stable")[:SHOWN]
    )


def _moved(plain: Outputs, without: Outputs) -> np.ndarray:
    if plain.probabilities is None or without.probabilities is None:
        return np.abs(without.ranking_score - plain.ranking_score)
    p, q = (np.asarray(one.probabilities, np.float64) for one in (plain, without))
    return np.asarray((p * (np.log(p.clip(1e-300)) - np.log(q.clip(1e-300)))).sum(axis=-1))


@cache
def _pairs() -> list[Pair]:
    return spread_over_queries(shipped_rows("dev"), LOOKED_AT)


_kept = Kept()
