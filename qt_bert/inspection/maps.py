"""Attention maps of one pair: a head's, whole, without heads and before fine-tuning; all heads in small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.figures import HeatMap, known
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.shared import (
    AFTER,
    BEFORE,
    CHANGE,
    PERCENT,
    cut_notes,
    layer_notes,
    plain_and_without,
    token_map,
)
from qt_bert.inspection.state import State
from qt_bert.models.heads import Head
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

BOTH, ALL = (QUERY, TITLE), (QUERY, TITLE, SPECIAL)
WHOLE = "all"
"""The part in which every row adds up to 1."""
PARTS: Mapping[str, tuple[Text, tuple[int, ...], tuple[int, ...]]] = {
    WHOLE: (Text("全部", "all"), ALL, ALL),
    "query_title": (Text("查询看标题", "query → title"), (QUERY,), (TITLE,)),
    "title_query": (Text("标题看查询", "title → query"), (TITLE,), (QUERY,)),
    "query": (Text("查询之内", "within query"), (QUERY,), (QUERY,)),
    "title": (Text("标题之内", "within title"), (TITLE,), (TITLE,)),
    "texts": (Text("不含 [CLS]、[SEP]", "without [CLS], [SEP]"), BOTH, BOTH),
}
"""Part of a map → its name, the sides that look, the sides that are looked at."""

MOST_TOKENS = 48
"""Rows and columns of a map that are drawn: 128 of each are slow to draw and too small to read."""
SMALL = 32
"""Rows and columns of a small map; of a longer pair each cell is the largest of several."""


@dataclass(frozen=True, eq=False)
class Overview:
    """All heads of one pair, whole and (if there are heads left out) without these.

    `small` [ways, layers, heads, ≤ SMALL, ≤ SMALL] are maps, float16; `given` [ways, layers, heads,
    PARTS] is the mean over the tokens that look of what they give to those looked at, NaN where a
    part has no tokens.
    """

    small: np.ndarray
    given: np.ndarray


@dataclass(frozen=True)
class Maps:
    """One head's maps within a part, what a reader must know, and what is given within the part, in %."""

    head: Head
    notes: tuple[Text, ...]
    given: tuple[tuple[Text, float | None], ...]
    figures: tuple[HeatMap, ...]


def layer_maps(model: Inspected, state: State) -> np.ndarray:
    """The maps of the state's layer [ways, heads, tokens, tokens]: whole, and without the heads."""
    key = ("maps", state.query, state.title, state.out, state.mode, state.layer)
    reduction = Reduction("maps", "attention", (state.layer,), lambda view: view.values)
    return model.kept.get(key, lambda: _run(model, state, [reduction])["maps"][:, 0])


def overview(model: Inspected, state: State) -> Overview:
    """All heads of the state's pair in small."""
    layers = tuple(range(model.shape.layers))
    side = np.array(model.encode(state.query, state.title).side)
    rows, columns = (
        torch.tensor(np.stack([np.isin(side, ids) for ids in sides]), dtype=torch.float)
        for sides in zip(*((one[1], one[2]) for one in PARTS.values()), strict=True)
    )

    def small(view: View) -> torch.Tensor:
        size = min(SMALL, view.values.shape[-1])
        return torch.nn.functional.adaptive_max_pool2d(view.values.float(), size)

    def given(view: View) -> torch.Tensor:
        sums = torch.einsum("bhij,pi,pj->bhp", view.values.float(), rows, columns)
        return torch.where(columns.sum(1) > 0, sums / rows.sum(1), torch.nan)

    def made() -> Overview:
        reductions = [
            Reduction("small", "attention", layers, small),
            Reduction("given", "attention", layers, given),
        ]
        found = _run(model, state, reductions)
        return Overview(found["small"].astype(np.float16), found["given"])

    key = ("overview", state.query, state.title, state.out, state.mode)
    return model.kept.get(key, made)


def last_start(model: Inspected, state: State, part: str = WHOLE) -> int:
    """The last token that a stretch can start with; 0 where the pair is drawn as a whole."""
    looking, looked_at = _sides(model.encode(state.query, state.title), part)
    return max(len(looking) - MOST_TOKENS, len(looked_at) - MOST_TOKENS, 0)


def attention(
    model: Inspected,
    state: State,
    part: str = WHOLE,
    start: int = 0,
    *,
    base: Inspected | None = None,
) -> Maps:
    """The state's head on its pair: one map; before, after and the change where heads are left out.

    With `base` instead the two models as they are, before and after fine-tuning, and what tuning
    strengthened and weakened (heads_of_query_title_bert, 2.4.1). `part` is one of `PARTS`, `start`
    the first token of a stretch.
    """
    encoded, head = model.encode(state.query, state.title), state.chosen
    looking, looked_at = _sides(encoded, part)
    notes = [*_drawn_notes(looking, looked_at), *cut_notes(encoded)]
    if base is None:
        ways = layer_maps(model, state)[:, head.head].astype(np.float64)
        below = any(one.layer < head.layer for one in state.out)
        named = list(zip((BEFORE, AFTER), ways if below else ways[:1], strict=False))
        notes += layer_notes(state.out, head.layer)
    else:
        plain = replace(state, out=())
        if state.out:
            notes.append(
                Text(
                    "这里比较的是完整的两个模型：去掉的头在此不起作用。",
                    "Both models are whole here: the heads left out play no part.",
                )
            )
        if base.encode(state.query, state.title).input_ids != encoded.input_ids:
            notes.append(
                Text(
                    "两个模型把这一对文本切成不同的词元，不能逐格比较。",
                    "The two models read this pair as different tokens: no map can be compared.",
                )
            )
            return Maps(head, tuple(notes), (), ())
        words = (Text("微调前", "before fine-tuning"), Text("微调后", "after fine-tuning"))
        maps = [layer_maps(one, plain)[0, head.head].astype(np.float64) for one in (base, model)]
        named = list(zip(words, maps, strict=True))
    tokens = model.tokens(encoded)
    rows, columns = _stretch(looking, start), _stretch(looked_at, start)
    cut = [values[np.ix_(rows, columns)] for _, values in named]

    def drawn(name: str, way: Text, values: FloatArray, high: float | None = None) -> HeatMap:
        return token_map(
            f"map_{name}",
            Text(f"{head}，{way.zh}", f"{head}, {way.en}"),
            [tokens[place] for place in rows],
            [tokens[place] for place in columns],
            values,
            scale="sequential" if name != "change" else "diverging",
            low=0.0 if name != "change" else None,
            high=high,
        )

    figures: list[HeatMap] = []
    if rows and columns:
        top = float(np.max(cut))
        for name, (way, _), values in zip(("before", "after"), named, cut, strict=False):
            figures.append(drawn(name, way, values, top))
        if len(cut) > 1 and base is None:
            figures.append(drawn("change", CHANGE, cut[1] - cut[0]))
        elif base is not None:
            grew, shrank = np.maximum(cut[1] - cut[0], 0), np.maximum(cut[0] - cut[1], 0)
            top = float(max(grew.max(), shrank.max()))
            grown = drawn("strengthened", Text("微调后增强", "strengthened"), grew, top)
            # The article prints this formula as “before − after > 0”, with the sign reversed.
            figures.append(replace(grown, note=Text("max(后 − 前, 0)", "max(after − before, 0)")))
            shrunk = drawn("weakened", Text("微调后减弱", "weakened"), shrank, top)
            figures.append(replace(shrunk, note=Text("max(前 − 后, 0)", "max(before − after, 0)")))
    shares = [
        known(PERCENT * float(values[np.ix_(looking, looked_at)].sum(axis=1).mean()))
        if looking and looked_at
        else None
        for _, values in named
    ]
    names = [way for way, _ in named]
    return Maps(head, tuple(notes), tuple(zip(names, shares, strict=True)), tuple(figures))


def _run(model: Inspected, state: State, reductions: Sequence[Reduction]) -> dict[str, np.ndarray]:
    """The reductions of the pair, each [ways, layers, …]."""
    variants = plain_and_without(model, state.out, state.mode)
    found = model.run([(state.query, state.title)], variants, reductions)
    return {name: values[:, 0] for name, values in found.reduced.items()}


def _sides(encoded: EncodedPair, part: str) -> tuple[list[int], list[int]]:
    """The places of the tokens that look, and of those looked at."""
    _, looking, looked_at = PARTS[part]
    rows, columns = (
        np.flatnonzero(np.isin(encoded.side, np.array(one))) for one in (looking, looked_at)
    )
    return rows.tolist(), columns.tolist()


def _stretch(places: list[int], start: int) -> list[int]:
    start = min(start, max(len(places) - MOST_TOKENS, 0))
    return places[start : start + MOST_TOKENS]


def _drawn_notes(looking: list[int], looked_at: list[int]) -> list[Text]:
    longest = max(len(looking), len(looked_at))
    if not (looking and looked_at):
        return [Text("这一对文本没有这样的词元。", "This pair has no such tokens.")]
    if longest <= MOST_TOKENS:
        return []
    return [
        Text(
            f"每边最多画 {MOST_TOKENS} 个词元（这里长的一边有 {longest} 个）：画的是一段，数字按全部计算。",
            f"At most {MOST_TOKENS} tokens a side are drawn (the longer side has {longest}): this is a "
            "stretch; numbers are of all.",
        )
    ]
