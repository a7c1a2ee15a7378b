"""[CLS] focus: where one head's [CLS] looks, with and without other heads, and the grade."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

import numpy as np
import streamlit as st

from qt_bert.ablation.engine import Reduction
from qt_bert.figures import (
    HEAD,
    Bars,
    BarSeries,
    Curve,
    HeatMap,
    Point,
    Series,
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
from qt_bert.page.results import most_focused, named_beside
from qt_bert.page.state import State
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import caption, escaped, info, localised, metric
from qt_bert.probes.focus import CLS_ROW, MATCHED, QUANTITIES, KindMasks, cls_row, kinds_of
from qt_bert.probes.layers_reading import WITHIN, decided_at, scores_by_layer
from qt_bert.probes.texts import COMMON, texts_of
from qt_bert.results.head_sets import reader_of, set_words
from qt_bert.scoring.judge import Outputs
from qt_bert.text import MISSING, Label, Text, counted, in_language, number, sentences, signed

SCORE_DIGITS = 4
Sets = Mapping[str, Sequence[Head]]


class Quantity(NamedTuple):
    """A quantity: its name, unit and digits, and how to get it: `times` the probe's quantity `of`."""

    name: Text
    unit: Label
    digits: int
    of: str = ""
    times: float = 1.0
    about: Text | None = None


OF_ALL = Text("% 的注意力", "% of attention")
FOCUS = Text(
    "共有词的份额减去它们的字数占比；0：不偏不倚",
    "their share less their share of the characters; 0: no preference",
)
SCATTER = Text(
    "字上注意力的归一化熵。1：平均分给每个字；0：只看一个字",
    "normalised entropy of the attention on characters. 1: uniform; 0: all on one",
)
SHARE = Text("占两文本的字（不计标点）所得注意力", "of the weight on characters of both texts")
MEASURED = (
    Quantity(Text("共有词的份额", "share on shared terms"), "%", 1, "share", PERCENT, SHARE),
    Quantity(Text("关注度", "focus"), Text("个百分点", "points"), 1, "focus", PERCENT, FOCUS),
    Quantity(Text("分散程度", "scatter"), "0–1", 3, "entropy", 1.0, SCATTER),
    Quantity(Text("给共有词的权重", "weight on shared terms"), OF_ALL, 1, "matched", PERCENT),
    Quantity(Text("给 [SEP] 的权重", "weight on [SEP]"), OF_ALL, 1, "separator", PERCENT),
)
FOCUS_PLACE = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Focus:
    """One pair, all layers and heads at once: the whole model and, if heads are left out, without them.

    `rows` [ways, layers, heads, tokens] are [CLS]'s weights, `measured` [ways, layers, heads, MEASURED]
    their quantities, `grades` the outputs of each way, `by_layer` [layers + 1] the whole model's score read
    after each layer. `control` [layers, heads, tokens] are the mean
    weights without random heads, `random` [draws, layers, heads, MEASURED] and `random_grades` the
    results of each draw; None where none can be drawn.
    """

    encoded: ReadPair
    tokens: tuple[str, ...]
    matched: np.ndarray
    rows: np.ndarray
    measured: np.ndarray
    grades: tuple[Outputs, ...]
    by_layer: np.ndarray
    control: np.ndarray | None
    random: np.ndarray | None
    random_grades: Outputs | None


class Shift(NamedTuple):
    """A quantity in each way (`after` None: no heads left out), and under each random draw."""

    quantity: Quantity
    before: float | None
    after: float | None
    random: np.ndarray | None

    def shown(self, value: float | None) -> str:
        """`value` in the quantity's digits."""
        return number(value, self.quantity.digits)

    @property
    def change(self) -> str | None:
        """After less before, with its sign."""
        if self.after is None or self.before is None:
            return None
        return signed(self.after - self.before, self.quantity.digits)


def main() -> None:
    """Lay out the page; a click on the layer, at its foot, comes before the rest is drawn."""
    here = visit()
    here.stop_if_empty()
    seen = focus(here.model, here.state, named_beside(here.results, here.state.out))
    top, foot = st.container(), st.container()
    with foot, st.expander(localised("这一层所有的头", "All heads of the layer")):
        _layer(here, seen)
    with top:
        _head(here, seen)


def focus(model: SharedModel, state: State, named: frozenset[Head] = frozenset()) -> Focus:
    """The state's pair with all heads, without the state's, and without random unnamed ones."""
    text = (state.query, state.title)

    def compute() -> Focus:
        encoded = model.encode(*text)
        known_ways = plain_and_without(model, state.out, state.mode)
        drawn = random_heads(model, state.out, state.mode, state.seed, named)
        layers = tuple(range(model.shape.layers))
        rows = Reduction("rows", "attention", layers, lambda v: v.values[:, :, 0], first_row=True)
        places = KindMasks([text], model.segmenter)
        reductions = [rows, cls_row(model.scorer.encoder, layers, places)]
        seen = model.run([text], [*known_ways, *drawn], reductions)
        logits, weights = seen.logits[:, 0], seen.reduced["rows"][:, 0]
        quantities = np.moveaxis(seen.reduced[CLS_ROW][:, 0], -1, 0)
        of = dict(zip(QUANTITIES, quantities, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            of["share"] = of["matched"] / (of["matched"] + of["other"])
        measured = np.stack([row.times * of[row.of] for row in MEASURED], axis=-1)
        ways = len(known_ways)
        sets = [(), state.out][:ways]
        with model.lock:
            by_layer = scores_by_layer(model.scorer, [encoded])[0]
        return Focus(
            encoded=encoded,
            tokens=model.tokens(encoded),
            matched=np.isin(kinds_of(encoded, *text, model.segmenter), MATCHED),
            rows=weights[:ways],
            measured=measured[:ways],
            grades=tuple(model.graded(encoded, heads, state.mode) for heads in sets),
            by_layer=by_layer,
            control=weights[ways:].mean(0) if drawn else None,
            random=measured[ways:] if drawn else None,
            random_grades=model.outputs(logits[ways:]) if drawn else None,
        )

    return model.cache.get(("focus", *text, state.out, state.mode, state.seed, named), compute)


def shifts(seen: Focus, head: Head) -> list[Shift]:
    """The score of the pair, then the quantities `MEASURED` of one head's row."""
    scores = [float(grade.ranking_score[0]) for grade in seen.grades]
    random = None if seen.random_grades is None else seen.random_grades.ranking_score
    labels = seen.grades[0].labels
    score = Quantity(score_name(labels), score_unit(labels), SCORE_DIGITS)
    rows = [Shift(score, scores[0], scores[-1], random)]
    for place, quantity in enumerate(MEASURED):
        before, after = (known(seen.measured[way][*head, place]) for way in (0, -1))
        random = None if seen.random is None else seen.random[:, *head, place]
        rows.append(Shift(quantity, before, after, random))
    return rows if len(seen.rows) > 1 else [row._replace(after=None) for row in rows]


def _head(here: Visit, seen: Focus) -> None:
    """The chosen head: its row, a sentence, the grade; the other numbers folded."""
    head, state = here.state.chosen, here.state
    sets = here.results.sets if here.results else {}
    st.header(
        localised(
            f"第 {head.layer} 层 [CLS] 注意力：{head}", f"Layer {head.layer}'s \\[CLS\\]: {head}"
        )
    )
    example = reader_of(sets) or example_of(seen, sets, state.out)
    studied = here.results is not None and here.results.has("focus")
    caption(about_head(head, sets, example, studied=studied))
    label = localised(f"看 {example}", f"Show {example}")
    if example not in (None, head) and st.button(label, key="focus.example"):
        here.change(layer=example.layer, head=example.head)
    score, share, *others = shifts(seen, head)
    out = heads_name(state.out, sets)
    draw(cls_tokens(seen, head, out), key="focus.tokens")
    st.markdown(escaped(localised(sentence(head, share, others[0], out))))
    for note in notes(seen, state):
        info(note)
    _number(seen, score)
    bars = grade_bars(seen)
    if bars is not None:
        draw(bars, key="focus.grades")
    with st.expander(localised("哪一层定下分数", "Where the score is decided")):
        caption(decided(seen))
        draw(score_curve(seen), key="focus.decided")
    with st.expander(localised("更多数值", "More numbers")):
        caption(intro(seen, state))
        for column, shift in zip(cycle(st.columns(3)), (share, *others), strict=False):
            with column:
                _number(seen, shift)


def example_of(seen: Focus, sets: Sets, out: Sequence[Head]) -> Head | None:
    """A head to show where there is no reader: the one with the largest focus above the heads `out`.

    By the study, else on this pair; None where no focus is defined.
    """
    if (head := most_focused(sets, out)) is not None:
        return head
    above = seen.measured[0, ..., FOCUS_PLACE].copy()
    above[: 1 + max((head.layer for head in out), default=-1)] = np.nan
    if np.isnan(above).all():
        return None
    layer, place = np.unravel_index(np.nanargmax(above), above.shape)
    return Head(int(layer), int(place))


def about_head(head: Head, sets: Sets, example: Head | None, *, studied: bool) -> Text:
    """Whether the model has a reader, and what the shown head is."""
    if (reader := reader_of(sets)) == head:
        return Text(f"{head} 是阅读头。", f"{head} is the reader.")
    if reader is not None:
        return Text(f"阅读头是 {reader}。", f"The reader is {reader}.")
    if not studied:
        text = Text(
            "没有探针 focus 的结果，不知道阅读头。",
            "No results of the probe focus: the reader is not known.",
        )
    else:
        text = Text(
            "文章（2.4.3）：第 10 层有个头的 [CLS] 看共有词，去掉五个匹配头后就散了。这个模型的倒数第二层没有这样的头（阅读头）。",
            "The article (2.4.3): the [CLS] of a layer-10 head looks at shared terms, no longer so without the five "
            "matching heads. This model's last layer but one has no such head (reader).",
        )
    if example is None:
        return text
    studied_pairs = Text("在探针的样本上", " over the probe's pairs")
    where = studied_pairs if sets.get("focused") else Text("在这一对上", " on this pair")
    shown = Text(
        f"{head} 是例子：它{where.zh}对共有词的关注度最大。"
        if head == example
        else f"{where.zh}对共有词关注度最大的是 {example}。",
        f"{head} is an example: it has the largest focus on shared terms{where.en}."
        if head == example
        else f"{example} has the largest focus on shared terms{where.en}.",
    )
    return sentences([text, shown])


def heads_name(out: Sequence[Head], sets: Sets) -> Text:
    """The heads left out, by the name of their set where they are one."""
    count = len(out)
    same = (name for name, heads in sets.items() if set(heads) == set(out))
    if (name := next(same, None)) is None:
        return Text(f"所选的 {count} 个头", f"the {counted(count, 'chosen head')}")
    words = set_words(name).name
    return Text(f" {count} 个{words.zh}", f"the {count} {words.en}")


def sentence(head: Head, share: Shift, focus: Shift, out: Text) -> Text:
    """What happened, in numbers: the share of [CLS]'s attention to characters that is on shared terms."""
    before, after = map(_percent, (share.before, share.after))
    if share.after is None:
        zh = f"{head} 的 [CLS] 给字的注意力有 {before} 落在共有词上"
        en = f"Shared terms get {before} of {head}'s [CLS] attention to characters"
    else:
        zh = f"去掉{out.zh}后，{head} 的 [CLS] 给字的注意力落在共有词上的份额：{before} → {after}"
        en = f"Without {out.en}, shared terms' share of {head}'s [CLS] attention to characters: {before} → {after}"
        if share.random is not None:
            random = _percent(known(share.random.mean()))
            zh, en = f"{zh}；去掉随机头：{random}", f"{en}; without random heads: {random}"
    if share.before is not None and focus.before is not None:
        base = _percent(share.before - focus.before)
        zh, en = f"{zh}。这些词占 {base} 的字", f"{en}. These terms are {base} of the characters"
    return Text(f"{zh}。", f"{en}.")


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{number(share, 0)}%"


def _number(seen: Focus, shift: Shift) -> None:
    """The value without the heads and its change; below, the whole model and random heads."""
    name, unit, about = shift.quantity.name, shift.quantity.unit, shift.quantity.about
    if shift.after is not None:
        name = Text(f"去掉头之后：{name.zh}", f"{name.en} without the heads")
    metric(
        localised(
            f"{name.zh}（{in_language(unit, 'zh')}）", f"{name.en} ({in_language(unit, 'en')})"
        ),
        shift.shown(shift.before if shift.after is None else shift.after),
        shift.change,
        about=None if about is None else localised(about),
    )
    if shift.after is not None:
        before = shift.shown(shift.before)
        zh, en = f"完整模型 {before}", f"whole model {before}"
        if shift.random is not None:
            draws = (shift.random.mean(), shift.random.min(), shift.random.max())
            mean, low, high = (shift.shown(known(value)) for value in draws)
            zh += f"；随机头 {mean}（{low} … {high}）"
            en += f"; random heads {mean} ({low} … {high})"
        caption(zh, en)
    predicted = " → ".join(grade.predicted[0] for grade in seen.grades if grade.predicted)
    if not shift.quantity.of and predicted:
        caption(f"预测：{predicted}", f"predicted: {predicted}")


def intro(seen: Focus, state: State) -> Text:
    """Which heads are left out, how, and the control."""
    if not state.out:
        return Text(
            "现在是完整模型。在左栏选要去掉的头，看它们不在时 [CLS] 改看哪里、档位怎样变。",
            "The whole model. Choose heads to leave out on the left to see where [CLS] looks without "
            "them, and how the grade changes.",
        )
    mode, heads = MODES[state.mode], format_heads(state.out)
    zh = f"去掉的头（{len(state.out)} 个，{mode.zh}）：{heads}。"
    en = f"Heads left out ({len(state.out)}, {mode.en}): {heads}."
    if seen.random is not None:
        draws, seed = len(seen.random), state.seed
        zh += f"对照：每层抽同样多的其他头，{draws} 次，种子 {seed}。"
        en += f" Control: as many other heads of each layer, {counted(draws, 'draw')}, seed {seed}."
    return Text(zh, en)


def notes(seen: Focus, state: State) -> Iterator[Text]:
    """Limits of this picture."""
    yield from cut_notes(seen.encoded)
    yield from layer_notes(state.out, state.layer)
    if seen.encoded.at:
        yield texts_of(COMMON).text("reads.last")
    if np.isnan(seen.measured[0, *state.chosen, FOCUS_PLACE]):
        yield Text(
            "[CLS] 看不到共有的词，或者看到的全是共有的词：关注度和分散程度没有定义。",
            "[CLS] sees no shared term, or shared terms alone: focus and scatter are not defined.",
        )
    if state.out and seen.random is None:
        yield Text(
            f"{format_heads(state.out)} 所在的层里，剩下的头不够抽取同样多的随机头，没有对照。",
            f"No control: the layers of {format_heads(state.out)} have too few other heads to draw from.",
        )


def cls_tokens(seen: Focus, head: Head, out: Text | None = None) -> Tokens:
    """One head's row on the tokens: the whole model, without the heads (called `out`), without random ones."""
    after = AFTER if out is None else Text(f"去掉{out.zh}", f"without {out.en}")
    ways = list(zip((BEFORE, after), seen.rows, strict=False))
    ways += [(RANDOM, seen.control)] if seen.control is not None else []
    lines = []
    for way, rows in ways:
        weights = rows[head].astype(np.float64)
        tokens = tuple(
            Token(text=text, value=float(value), marked=bool(matched))
            for text, value, matched in zip(seen.tokens, weights, seen.matched, strict=True)
        )
        lines.append(TokenLine(name=way, tokens=tokens))
    return Tokens(
        name="cls_tokens",
        title=Text(
            f"{head} 的 [CLS] 看每个字多少", f"How much the [CLS] of {head} looks at each token"
        ),
        unit=ATTENTION,
        lines=tuple(lines),
        low=0.0,
        note=Text("粗框：两文本共有的词", "Outlined: terms shared by both texts"),
    )


def grade_bars(seen: Focus) -> Bars | None:
    """The probabilities of the grades, before, after and random; None for a model of one logit."""
    if seen.grades[0].probabilities is None:
        return None
    labels, random = seen.grades[0].labels, seen.random_grades
    series = [
        BarSeries(name=way, values=tuple((PERCENT * grade.probabilities[0]).tolist()))
        for way, grade in zip((BEFORE, AFTER), seen.grades, strict=False)
        if grade.probabilities is not None
    ]
    if random is not None and random.probabilities is not None:
        draws = PERCENT * random.probabilities.astype(np.float64)
        ends = tuple(zip(draws.min(0).tolist(), draws.max(0).tolist(), strict=True))
        series.append(BarSeries(name=RANDOM, values=tuple(draws.mean(0).tolist()), intervals=ends))
    what = level_name(labels)
    whiskers = Text(
        "线段：各次随机抽取中最小与最大的值，不是置信区间",
        "Whiskers: least and largest of the random draws, not a confidence interval",
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


def decided(seen: Focus) -> Text:
    """From which layer on the score that the model's own head reads stays near the final one."""
    labels, score = seen.grades[0].labels, number(float(seen.by_layer[-1]), 1)
    name, within = score_name(labels), WITHIN * labels.grade_step
    layer = int(decided_at(seen.by_layer[None], within)[0])
    return Text(
        f"完整模型的{name.zh} {score}：从 r{layer} 起，各层读出的与它相差不超过 {within:.3g}。",
        f"The whole model's {name.en} of {score} is reached, within {within:.3g}, from r{layer} on.",
    )


def score_curve(seen: Focus) -> Curve:
    """The score that the model's own head reads after each layer."""
    labels, texts = seen.grades[0].labels, texts_of("layers")
    points = tuple(Point(x=layer, y=float(score)) for layer, score in enumerate(seen.by_layer))
    return Curve(
        name="decided",
        title=texts.text("figures.decided.title"),
        x_label=texts.text("figures.decided.x_label"),
        y_label=score_name(labels),
        unit=score_unit(labels),
        series=(Series(name=score_name(labels), points=points),),
    )


def _layer(here: Visit, seen: Focus) -> None:
    """The rows of all heads of the layer, to choose one from."""
    caption("点一行，看那个头。", "Click a row to look at its head.")
    clicked = draw(layer_map(seen, here.state.chosen), key="focus.layer", click=True)
    if clicked is not None:
        here.change(head=clicked[0])


def layer_map(seen: Focus, chosen: Head) -> HeatMap:
    """The [CLS] rows of all heads of the chosen head's layer; their change where heads are left out."""
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
