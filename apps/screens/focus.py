"""CLS focus: where one head's [CLS] looks, with and without other heads, and what becomes of the grade."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

import numpy as np
import streamlit as st
import torch

from qt_bert.ablation.engine import Reduction
from qt_bert.figures import (
    HEAD,
    Bars,
    BarSeries,
    HeatMap,
    Token,
    TokenLine,
    Tokens,
    cells_of,
    known,
)
from qt_bert.heads import Head, format_heads
from qt_bert.page.figures import draw
from qt_bert.page.maps import (
    AFTER,
    ATTENTION,
    BEFORE,
    CHANGE,
    MODES,
    PERCENT,
    RANDOM,
    cut_notes,
    layer_notes,
    level_name,
    plain_and_without,
    random_heads,
    score_name,
    score_unit,
)
from qt_bert.page.model import ReadPair, SharedModel
from qt_bert.page.state import State
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import caption, info, localised, metric
from qt_bert.probes.focus import MATCHED, QUANTITIES, Kind, kinds_of, row_quantities
from qt_bert.scoring.judge import Outputs
from qt_bert.text import Label, Text, in_language, number, signed

SCORE_DIGITS = 4


class Quantity(NamedTuple):
    """A quantity: its name and unit, and how often what the probe measures under `of` it is."""

    name: Text
    unit: Label
    digits: int
    of: str = ""
    times: float = 1.0
    about: Text | None = None


OF_ALL = Text("% 的注意力", "% of attention")
FOCUS = Text(
    "共有词的份额减去它们的字数占比；0：一视同仁",
    "their share less their share of the characters; 0 is even-handed",
)
SCATTER = Text(
    "字上注意力的归一化的熵。1：平均分给每个字；0：只看一个字",
    "normalised entropy of the attention on characters. 1: even over them; 0: all on one",
)
SHARE = Text("在给两文本的字（不计标点）的注意力里", "of the weight on characters of both texts")
MEASURED = (
    Quantity(Text("共有词的份额", "share on shared terms"), "%", 1, "share", PERCENT, SHARE),
    Quantity(Text("关注度", "focus"), Text("个百分点", "points"), 1, "focus", PERCENT, FOCUS),
    Quantity(Text("分散程度", "scatter"), "0–1", 3, "entropy", 1.0, SCATTER),
    Quantity(Text("给共有词的权重", "weight on shared terms"), OF_ALL, 1, "matched", PERCENT),
    Quantity(Text("给 [SEP] 的权重", "weight on [SEP]"), OF_ALL, 1, "separator", PERCENT),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Focus:
    """One pair, all layers and heads at once, whole and (if there are heads left out) without these.

    `rows` [ways, layers, heads, tokens] are [CLS]'s weights, `measured` [ways, layers, heads, MEASURED]
    what is read of them, `grades` the outputs of each way.
    `control` [layers, heads, tokens] are the mean weights without random heads, `random` [draws,
    layers, heads, MEASURED] and `random_grades` what each draw gives; None where none can be drawn.
    """

    encoded: ReadPair
    tokens: tuple[str, ...]
    matched: np.ndarray
    rows: np.ndarray
    measured: np.ndarray
    grades: tuple[Outputs, ...]
    control: np.ndarray | None
    random: np.ndarray | None
    random_grades: Outputs | None


class Shift(NamedTuple):
    """A quantity in each way (`after` None: no heads left out), and under each random draw."""

    what: Quantity
    before: float | None
    after: float | None
    random: np.ndarray | None

    def said(self, value: float | None) -> str:
        """`value` in the quantity's digits."""
        return number(value, self.what.digits)

    @property
    def change(self) -> str | None:
        """After less before, with its sign."""
        if self.after is None or self.before is None:
            return None
        return signed(self.after - self.before, self.what.digits)


def main() -> None:
    """Lay out the page; a click on the layer, at its foot, is looked at before the rest is drawn."""
    here = visit()
    here.stop_if_empty()
    seen = focus(here.model, here.state)
    top, foot = st.container(), st.container()
    with foot:
        _layer(here, seen)
    with top:
        _row(here, seen)


def focus(model: SharedModel, state: State) -> Focus:
    """The state's pair, whole, without the state's heads, and without as many random ones."""
    text = (state.query, state.title)

    def made() -> Focus:
        encoded = model.encode(*text)
        known_ways = plain_and_without(model, state.out, state.mode)
        drawn = random_heads(model, state.out, state.mode, state.seed)
        layers = tuple(range(model.shape.layers))
        rows = Reduction("rows", "attention", layers, lambda v: v.values[:, :, 0], first_row=True)
        seen = model.run([text], [*known_ways, *drawn], [rows])
        logits, weights = seen.logits[:, 0], seen.reduced["rows"][:, 0]
        kinds = kinds_of(encoded, *text, model.segmenter)
        masks = torch.from_numpy(np.eye(len(Kind), dtype=np.float32)[kinds])[None]
        flat = torch.from_numpy(weights).flatten(0, 2)[None]
        found = row_quantities(flat, masks)[0].unflatten(0, weights.shape[:3]).numpy()
        of = dict(zip(QUANTITIES, np.moveaxis(found, -1, 0), strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            of["share"] = of["matched"] / (of["matched"] + of["other"])
        measured = np.stack([one.times * of[one.of] for one in MEASURED], axis=-1)
        ways = len(known_ways)
        sets = [(), state.out][:ways]
        return Focus(
            encoded=encoded,
            tokens=model.tokens(encoded),
            matched=np.isin(kinds, MATCHED),
            rows=weights[:ways],
            measured=measured[:ways],
            grades=tuple(model.graded(encoded, heads, state.mode) for heads in sets),
            control=weights[ways:].mean(0) if drawn else None,
            random=measured[ways:] if drawn else None,
            random_grades=model.outputs(logits[ways:]) if drawn else None,
        )

    return model.cache.get(("focus", *text, state.out, state.mode, state.seed), made)


def shifts(seen: Focus, head: Head) -> list[Shift]:
    """The score of the pair, then what is measured of one head's row."""
    scores = [float(one.ranking_score[0]) for one in seen.grades]
    random = None if seen.random_grades is None else seen.random_grades.ranking_score
    labels = seen.grades[0].labels
    score = Quantity(score_name(labels), score_unit(labels), SCORE_DIGITS)
    found = [Shift(score, scores[0], scores[-1], random)]
    for place, one in enumerate(MEASURED):
        before, after = (known(seen.measured[way][*head, place]) for way in (0, -1))
        random = None if seen.random is None else seen.random[:, *head, place]
        found.append(Shift(one, before, after, random))
    return found if len(seen.rows) > 1 else [one._replace(after=None) for one in found]


def _row(here: Visit, seen: Focus) -> None:
    """The chosen head: what is left out, its row, the numbers, the grade."""
    head, state = here.state.chosen, here.state
    zh, en = f"第 {head.layer} 层 [CLS] 注意力：{head}", f"Layer {head.layer}'s \\[CLS\\]: {head}"
    st.header(localised(zh, en))
    caption(intro(seen, state))
    for note in notes(seen, state):
        info(note)
    found = shifts(seen, head)
    for column, one in zip(cycle(st.columns(3)), found, strict=False):
        with column:
            _number(seen, one)
    draw(cls_tokens(seen, head), key="focus.tokens")
    bars = grade_bars(seen)
    if bars is not None:
        draw(bars, key="focus.grades")


def _number(seen: Focus, one: Shift) -> None:
    """Without the heads, what that changes, and beside it the whole model and random heads."""
    name, unit, about = one.what.name, one.what.unit, one.what.about
    metric(
        localised(
            f"{name.zh}（{in_language(unit, 'zh')}）", f"{name.en} ({in_language(unit, 'en')})"
        ),
        one.said(one.before if one.after is None else one.after),
        one.change,
        about=None if about is None else localised(about),
    )
    if one.after is not None:
        zh, en = f"完整模型 {one.said(one.before)}", f"whole model {one.said(one.before)}"
        if one.random is not None:
            draws = (one.random.mean(), one.random.min(), one.random.max())
            mean, low, high = (one.said(known(value)) for value in draws)
            zh += f"；随机头 {mean}（{low} … {high}）"
            en += f"; random heads {mean} ({low} … {high})"
        caption(zh, en)
    predicted = " → ".join(way.predicted[0] for way in seen.grades if way.predicted)
    if not one.what.of and predicted:
        caption(f"预测：{predicted}", f"predicted: {predicted}")


def intro(seen: Focus, state: State) -> Text:
    """Which heads are left out, how, and what stands beside."""
    if not state.out:
        return Text(
            "现在是完整模型。在左栏选要去掉的头，看它们不在时 [CLS] 改看哪里、档位怎样变。",
            "The whole model. Choose heads to leave out on the left, and see where [CLS] looks "
            "instead, and what becomes of the grade.",
        )
    mode, heads = MODES[state.mode], format_heads(state.out)
    zh = f"去掉的头（{len(state.out)} 个，{mode.zh}）：{heads}。"
    en = f"Heads left out ({len(state.out)}, {mode.en}): {heads}."
    if seen.random is not None:
        draws, seed = len(seen.random), state.seed
        zh += f"对照：每层抽同样多的其他头，{draws} 次，种子 {seed}。"
        en += f" Beside it: as many other heads of each layer, {draws} draws, seed {seed}."
    return Text(zh, en)


def notes(seen: Focus, state: State) -> Iterator[Text]:
    """What a reader must know of this picture before reading it."""
    yield from cut_notes(seen.encoded)
    yield from layer_notes(state.out, state.layer)
    if not seen.matched.any():
        yield Text(
            "两文本没有共有的词，所以共有词的份额为 0，关注度和分散程度没有定义。",
            "The texts share no term: its share is 0, and focus and scatter are not defined.",
        )
    if state.out and seen.random is None:
        yield Text(
            f"{format_heads(state.out)} 所在的层里，剩下的头不够抽取同样多的随机头，没有对照。",
            f"No control: beside {format_heads(state.out)} their layers hold too few heads to draw from.",
        )


def cls_tokens(seen: Focus, head: Head) -> Tokens:
    """One head's row on the tokens: the whole model, without the heads, without random ones."""
    ways = list(zip((BEFORE, AFTER), seen.rows, strict=False))
    ways += [(RANDOM, seen.control)] if seen.control is not None else []
    lines = []
    for way, rows in ways:
        weights = rows[head].astype(np.float64)
        share = float(weights[seen.matched].sum())
        tokens = tuple(
            Token(text=text, value=float(value), marked=bool(one))
            for text, value, one in zip(seen.tokens, weights, seen.matched, strict=True)
        )
        name = Text(
            f"{way.zh}：共有的词占全部注意力的 {share:.0%}",
            f"{way.en}: {share:.0%} of all attention on shared terms",
        )
        lines.append(TokenLine(name=name, tokens=tokens))
    return Tokens(
        name="cls_tokens",
        title=Text(
            f"{head} 的 [CLS] 看每个字多少", f"How much the [CLS] of {head} looks at each token"
        ),
        unit=ATTENTION,
        lines=tuple(lines),
        low=0.0,
        note=Text("粗框：两文本共有的词", "Outlined: terms that stand in both texts"),
    )


def grade_bars(seen: Focus) -> Bars | None:
    """The probabilities of the grades, before, after and random; None for a model of one logit."""
    if seen.grades[0].probabilities is None:
        return None
    labels, random = seen.grades[0].labels, seen.random_grades
    series = [
        BarSeries(name=way, values=tuple((PERCENT * one.probabilities[0]).tolist()))
        for way, one in zip((BEFORE, AFTER), seen.grades, strict=False)
        if one.probabilities is not None
    ]
    if random is not None and random.probabilities is not None:
        draws = PERCENT * random.probabilities.astype(np.float64)
        ends = tuple(zip(draws.min(0).tolist(), draws.max(0).tolist(), strict=True))
        series.append(BarSeries(name=RANDOM, values=tuple(draws.mean(0).tolist()), intervals=ends))
    what = level_name(labels)
    whiskers = Text(
        "线段：各次随机抽取中最小与最大的值，不是置信区间",
        "Whiskers: least and largest over the random draws, no confidence interval",
    )
    return Bars(
        name="grades",
        title=Text(f"各{what.zh}的概率", f"Probability of each {what.en}"),
        x_label=what,
        y_label=Text("概率", "probability"),
        unit="%",
        categories=tuple(
            Text(f"{name} 档" if labels.exact else f"{what.zh} {name}", f"{what.en} {name}")
            for name in labels.names
        ),
        series=tuple(series),
        digits=1,
        note=None if random is None else whiskers,
    )


def _layer(here: Visit, seen: Focus) -> None:
    """The rows of all heads of the layer, to choose one from."""
    st.subheader(localised("这一层所有的头", "All heads of the layer"))
    caption("点一行，看那个头。", "Click a row to look at its head.")
    clicked = draw(layer_map(seen, here.state.chosen), key="focus.layer", click=True)
    if clicked is not None:
        here.change(head=clicked[0])


def layer_map(seen: Focus, chosen: Head) -> HeatMap:
    """The [CLS] rows of the chosen head's layer, one a head; their change where heads are left out."""
    rows = seen.rows[:, chosen.layer].astype(np.float64)
    changes = len(rows) > 1
    values, what = (rows[1] - rows[0], CHANGE) if changes else (rows[0], BEFORE)
    heads = [Head(chosen.layer, head) for head in range(len(values))]
    return HeatMap(
        name="cls_layer",
        title=Text(
            f"第 {chosen.layer} 层每个头的 [CLS] 看哪里：{what.zh}",
            f"Where the [CLS] of layer {chosen.layer}'s heads looks: {what.en}",
        ),
        x_label=Text("字", "token"),
        y_label=HEAD,
        unit=ATTENTION,
        columns=seen.tokens,
        rows=tuple(f"▶ {head}" if head == chosen else str(head) for head in heads),
        values=cells_of(values),
        scale="diverging" if changes else "sequential",
        low=None if changes else 0.0,
    )


if __name__ == "__main__":
    main()
