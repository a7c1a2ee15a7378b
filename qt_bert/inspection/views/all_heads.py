"""All heads of one pair at a glance: a picture of their maps, and a grid to choose one from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.state import State
from qt_bert.inspection.views.head_maps import Overview, overview
from qt_bert.inspection.views.map_parts import PARTS, WHOLE
from qt_bert.inspection.views.phrases import AFTER, BEFORE, CHANGE
from qt_bert.inspection.views.quantities import PERCENT
from qt_bert.inspection.views.thumbnails import picture, png
from qt_bert.probes.common.maps import head_map
from qt_bert.results import HeatMap, Text

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
