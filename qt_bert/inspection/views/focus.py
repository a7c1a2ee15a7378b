"""The front page: how [CLS] of one head spreads its attention, with and without other heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.tokenise import EncodedPair
from qt_bert.figures import Bars, BarSeries, HeatMap, Token, TokenLine, Tokens, known
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inspected import Inspected, ReadPair
from qt_bert.inspection.state import State
from qt_bert.inspection.views.phrases import (
    AFTER,
    BEFORE,
    CHANGE,
    MODES,
    RANDOM,
    cut_notes,
    layer_notes,
    level_name,
    score_name,
    score_unit,
)
from qt_bert.inspection.views.shared import (
    ATTENTION,
    HEAD,
    MEASURED,
    PERCENT,
    cells,
    derived,
    random_heads,
)
from qt_bert.models.heads import Head, spell
from qt_bert.probes.focus import MATCHED, Kind, kinds_of, row_quantities
from qt_bert.scoring.judge import Outputs
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Label, Text, in_language, number, signed

# [CLS]'s rows of one pair in every head: the whole model, without heads, without random others.


KEPT_BYTES = 8 << 20
ROWS = "rows"


@dataclass(frozen=True, eq=False)
class Spread:
    """Random draws of [...] each: their mean, least and largest."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> Spread:
        """That of draws [draws, ...]."""
        return cls(draws.mean(0), draws.min(0), draws.max(0))


@dataclass(frozen=True, eq=False)
class Grades:
    """Outputs of the whole model and without the heads; `random`, of each draw."""

    before: Outputs
    after: Outputs | None
    random: Outputs | None


@dataclass(frozen=True, eq=False)
class ClsRows:
    """What is known of one pair, layers × heads at once.

    `before`, `after` [layers, heads, tokens] are [CLS]'s weights, `measured_…` [layers, heads,
    MEASURED] what is measured of them; None after where no heads are left out. `control` holds the
    mean weights without random heads, `random` the spread of what is measured of these; both are
    None where nothing can be drawn, and `draws` is 0. `grades` is None for a model that does not
    classify.
    """

    encoded: EncodedPair
    tokens: tuple[str, ...]
    matched: tuple[bool, ...]
    before: np.ndarray
    after: np.ndarray | None
    control: np.ndarray | None
    measured_before: np.ndarray
    measured_after: np.ndarray | None
    random: Spread | None
    draws: int
    grades: Grades | None


def cls_rows(inspected: Inspected, state: State) -> ClsRows:
    """The rows of the state's pair with its heads left out, kept for the next look."""
    key = (inspected.key, state.query, state.title, state.out, state.mode, state.seed)
    return _kept.get(key, lambda: _made(inspected, state))


def _made(inspected: Inspected, state: State) -> ClsRows:
    text = (state.query, state.title)
    encoded = inspected.encode(*text)
    part = inspected.part(state.out, state.mode)
    drawn = random_heads(inspected, state.out, state.mode, state.seed)
    variants = [NONE, *([Variant("heads out", (part,))] if part else []), *drawn]
    layers = tuple(range(inspected.shape.layers))
    rows = Reduction(ROWS, "attention", layers, _first_row, first_row=True)
    seen = inspected.run([text], variants, [rows])
    logits, weights = seen.logits[:, 0], seen.reduced[ROWS][:, 0]
    kinds = kinds_of(encoded, *text, inspected.segmenter)
    measured = _measured(weights, kinds)
    without = 1 if part else None
    first_draw = len(variants) - len(drawn)
    return ClsRows(
        encoded=encoded,
        tokens=inspected.tokens(encoded),
        matched=tuple(np.isin(kinds, MATCHED).tolist()),
        before=weights[0],
        after=None if without is None else weights[without],
        control=weights[first_draw:].mean(0) if drawn else None,
        measured_before=measured[0],
        measured_after=None if without is None else measured[without],
        random=Spread.of(measured[first_draw:]) if drawn else None,
        draws=len(drawn),
        grades=_grades(inspected, encoded, state, logits[first_draw:]),
    )


def _grades(
    inspected: Inspected, encoded: ReadPair, state: State, drawn: np.ndarray
) -> Grades | None:
    """Grades by the way of `qt-bert explain --heads-out`; of the draws, by their logits."""
    if not inspected.classifies:
        return None
    return Grades(
        inspected.graded(encoded, (), state.mode),
        inspected.graded(encoded, state.out, state.mode) if state.out else None,
        inspected.outputs(drawn) if len(drawn) else None,
    )


def _first_row(view: View) -> torch.Tensor:
    return view.values[:, :, 0]


def _measured(weights: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """MEASURED of rows [variants, layers, heads, tokens]: [variants, layers, heads, MEASURED]."""
    masks = torch.from_numpy(np.eye(len(Kind), dtype=np.float32)[kinds])[None]
    flat = torch.from_numpy(weights).flatten(0, 2)[None]
    return derived(row_quantities(flat, masks)[0].unflatten(0, weights.shape[:3]).numpy())


_kept = Kept(most_bytes=KEPT_BYTES)


# What leaving heads out moves, in numbers: before, after, and with random heads instead.


SCORE_DIGITS = 4


@dataclass(frozen=True)
class Range:
    """The mean over random draws, their least and largest."""

    mean: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, spread: Spread, *at: int) -> Range:
        """The spread at one place."""
        return cls(known(spread.mean[at]), known(spread.low[at]), known(spread.high[at]))


@dataclass(frozen=True)
class Shift:
    """One quantity in `unit`: `before`, `after`, and with random heads left out; None: no number."""

    name: Text
    unit: Label
    before: float | None
    after: float | None
    random: Range | None
    digits: int = 1
    about: Text | None = None

    @property
    def change(self) -> float | None:
        """After less before."""
        return _less(self.after, self.before)

    @property
    def random_change(self) -> float | None:
        """The mean without random heads less before."""
        return _less(self.random.mean if self.random else None, self.before)


def shifts(rows: ClsRows, head: Head) -> tuple[Shift, ...]:
    """What is measured of one head's row, in the order of `MEASURED`."""
    return tuple(
        Shift(
            one.name,
            one.unit,
            known(rows.measured_before[*head, place]),
            None if rows.measured_after is None else known(rows.measured_after[*head, place]),
            None if rows.random is None else Range.of(rows.random, *head, place),
            one.digits,
            one.about,
        )
        for place, one in enumerate(MEASURED)
    )


def score_shift(grades: Grades) -> Shift:
    """The expected grade (or level), or the one logit of a model that has one."""
    before, after, random = grades.before, grades.after, grades.random
    return Shift(
        score_name(before.labels),
        score_unit(before.labels),
        float(before.ranking_score[0]),
        None if after is None else float(after.ranking_score[0]),
        None if random is None else Range.of(Spread.of(random.ranking_score)),
        SCORE_DIGITS,
    )


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


# The pictures of the page on [CLS]: one head's row, all rows of a layer, the grades.


TOKEN = Text("字", "token")
MOST_BARS = 40
"""Tokens that the bars show at most; of more, those that are looked at most."""


def cls_tokens(rows: ClsRows, head: Head) -> Tokens:
    """One head's row on the tokens: the whole model, without the heads, without random ones."""
    title = Text(
        f"{head} 的 [CLS] 看每个字多少", f"How much the [CLS] of {head} looks at each token"
    )
    return Tokens(
        name="cls_tokens",
        title=title,
        unit=ATTENTION,
        lines=tuple(
            TokenLine(
                name=_with_share(way, weights, rows.matched), tokens=_token_line(rows, weights)
            )
            for way, weights in _lines(rows, head)
        ),
        low=0.0,
        note=Text("粗框：两文本共有的词", "Outlined: terms that stand in both texts"),
    )


def cls_change(rows: ClsRows, head: Head) -> Tokens | None:
    """After less before on the tokens; None without heads left out."""
    if rows.after is None:
        return None
    title = Text(
        f"去掉所选的头之后，{head} 的 [CLS] 多看（正）少看（负）哪些字",
        f"What the [CLS] of {head} looks at more (above 0) and less without the chosen heads",
    )
    change = (rows.after - rows.before)[head].astype(np.float64)
    return Tokens(
        name="cls_change",
        title=title,
        unit=ATTENTION,
        lines=(TokenLine(name=CHANGE, tokens=_token_line(rows, change)),),
        scale="diverging",
    )


def cls_bars(rows: ClsRows, head: Head) -> Bars:
    """One head's row as bars, a token each: before and after, and the random mean."""
    lines = _lines(rows, head)
    shown = _looked_at_most([weights for _, weights in lines[:2]], MOST_BARS)
    cut = len(shown) < len(rows.tokens)
    return Bars(
        name="cls_bars",
        title=Text(f"{head} 的 [CLS] 的注意力", f"Attention of the [CLS] of {head}"),
        x_label=TOKEN,
        y_label=ATTENTION,
        unit="",
        categories=tuple(rows.tokens[place] for place in shown),
        series=tuple(
            BarSeries(name=name, values=tuple(float(weights[place]) for place in shown))
            for name, weights in lines
        ),
        digits=3,
        note=_cut_note(len(shown), len(rows.tokens)) if cut else None,
    )


def layer_maps(rows: ClsRows, chosen: Head) -> dict[str, HeatMap]:
    """The [CLS] rows of the chosen head's layer: `before`, and with heads left out `after`, `change`."""
    before = rows.before[chosen.layer]
    if rows.after is None:
        return {"before": _layer_map(rows, chosen, "before", BEFORE, before, high=_top(before))}
    after = rows.after[chosen.layer]
    top = _top(before, after)
    return {
        "before": _layer_map(rows, chosen, "before", BEFORE, before, high=top),
        "after": _layer_map(rows, chosen, "after", AFTER, after, high=top),
        "change": _layer_map(rows, chosen, "change", CHANGE, after - before),
    }


def grade_bars(grades: Grades) -> Bars | None:
    """The probabilities of the grades, before, after and random; None for a model of one logit."""
    before, after, random = grades.before, grades.after, grades.random
    if before.probabilities is None:
        return None
    series = [_grade_series(BEFORE, before)]
    if after is not None:
        series.append(_grade_series(AFTER, after))
    if random is not None and random.probabilities is not None:
        spread = Spread.of(PERCENT * random.probabilities.astype(np.float64))
        ends = zip(spread.low.tolist(), spread.high.tolist(), strict=True)
        series.append(
            BarSeries(name=RANDOM, values=tuple(spread.mean.tolist()), intervals=tuple(ends))
        )
    what = level_name(before.labels)
    return Bars(
        name="grades",
        title=Text(f"各{what.zh}的概率", f"Probability of each {what.en}"),
        x_label=what,
        y_label=Text("概率", "probability"),
        unit="%",
        categories=tuple(
            Text(f"{name} 档" if before.labels.exact else f"{what.zh} {name}", f"{what.en} {name}")
            for name in before.labels.names
        ),
        series=tuple(series),
        digits=1,
        note=None
        if random is None
        else Text(
            "线段：各次随机抽取中最小与最大的值，不是置信区间",
            "Whiskers: least and largest over the random draws, no confidence interval",
        ),
    )


def _lines(rows: ClsRows, head: Head) -> list[tuple[Text, FloatArray]]:
    ways = ((BEFORE, rows.before), (AFTER, rows.after), (RANDOM, rows.control))
    return [(way, found[head].astype(np.float64)) for way, found in ways if found is not None]


def _with_share(way: Text, weights: FloatArray, matched: Sequence[bool]) -> Text:
    share = float(weights[list(matched)].sum())
    return Text(
        f"{way.zh}：共有的词占全部注意力的 {share:.0%}",
        f"{way.en}: {share:.0%} of all attention on shared terms",
    )


def _token_line(rows: ClsRows, values: FloatArray) -> tuple[Token, ...]:
    return tuple(
        Token(text=text, value=float(value), marked=bool(one))
        for text, value, one in zip(rows.tokens, values, rows.matched, strict=True)
    )


def _grade_series(name: Text, outputs: Outputs) -> BarSeries:
    assert outputs.probabilities is not None
    return BarSeries(name=name, values=tuple((PERCENT * outputs.probabilities[0]).tolist()))


def _layer_map(
    rows: ClsRows,
    chosen: Head,
    name: str,
    what: Text,
    values: np.ndarray,
    high: float | None = None,
) -> HeatMap:
    """One row a head, the chosen one pointed at; changes where there is no `high`."""
    heads = [Head(chosen.layer, head) for head in range(len(values))]
    return HeatMap(
        name=f"cls_layer_{name}",
        title=Text(
            f"第 {chosen.layer} 层每个头的 [CLS] 看哪里：{what.zh}",
            f"Where the [CLS] of layer {chosen.layer}'s heads looks: {what.en}",
        ),
        x_label=TOKEN,
        y_label=HEAD,
        unit=ATTENTION,
        columns=rows.tokens,
        rows=tuple(f"▶ {head}" if head == chosen else str(head) for head in heads),
        values=cells(values.astype(np.float64)),
        scale="sequential" if high is not None else "diverging",
        low=None if high is None else 0.0,
        high=high,
    )


def _top(*maps: np.ndarray) -> float:
    return max(float(one.max()) for one in maps)


def _looked_at_most(lines: Sequence[FloatArray], most: int) -> list[int]:
    """The places of the largest weights in any of the lines, in text order."""
    largest = np.max(lines, axis=0)
    return sorted(np.argsort(-largest, kind="stable")[:most].tolist())


def _cut_note(shown: int, total: int) -> Text:
    return Text(
        f"共 {total} 个词元，只画权重最大的 {shown} 个，仍按原来的次序",
        f"The {shown} of {total} tokens that are looked at most, in text order",
    )


# The front page: how [CLS] of one head spreads its attention, with and without other heads (2.4.3).


@dataclass(frozen=True)
class Focus:
    """What the page shows.

    `score` is the grade's shift (None for a model that does not classify), `predicted` the likeliest
    grade before and after; `shifts` those of the row; `layer` holds the rows of all heads of the
    layer: `before`, `after`, `change`. Without heads left out there is no after; `draws` random sets
    stand beside it, maybe none.
    """

    head: Head
    out: tuple[Head, ...]
    draws: int
    notes: tuple[Text, ...]
    score: Shift | None
    predicted: tuple[str | None, str | None]
    shifts: tuple[Shift, ...]
    tokens: Tokens
    change: Tokens | None
    bars: Bars
    grades: Bars | None
    layer: dict[str, HeatMap]


def focus(inspected: Inspected, state: State) -> Focus:
    """The state's pair under the state's head, whole and with the state's heads left out."""
    rows, head = cls_rows(inspected, state), state.chosen
    return Focus(
        head=head,
        out=state.out,
        draws=rows.draws,
        notes=tuple(_notes(rows, head, state)),
        score=score_shift(rows.grades) if rows.grades else None,
        predicted=_predicted(rows),
        shifts=shifts(rows, head),
        tokens=cls_tokens(rows, head),
        change=cls_change(rows, head),
        bars=cls_bars(rows, head),
        grades=grade_bars(rows.grades) if rows.grades else None,
        layer=layer_maps(rows, head),
    )


def _predicted(rows: ClsRows) -> tuple[str | None, str | None]:
    def first(names: list[str] | None) -> str | None:
        return names[0] if names else None

    if rows.grades is None:
        return None, None
    before, after = rows.grades.before, rows.grades.after
    return first(before.predicted), first(after.predicted) if after else None


def _notes(rows: ClsRows, head: Head, state: State) -> Iterator[Text]:
    """What a reader must know of this picture before reading it."""
    yield from cut_notes(rows.encoded)
    yield from layer_notes(state.out, head.layer)
    if rows.grades is None:
        yield Text(
            "这个模型还没有微调过，没有档位；注意力照样可看。",
            "This model was not fine-tuned: it has no grades. Its attention can be seen all the same.",
        )
    if not any(rows.matched):
        yield Text(
            "两文本没有共有的词，所以共有词的份额为 0，关注度和分散程度没有定义。",
            "The texts share no term: its share is 0, and focus and scatter are not defined.",
        )
    if state.out and not rows.draws:
        yield Text(
            f"{spell(state.out)} 所在的层里，剩下的头不够抽取同样多的随机头，没有对照。",
            f"No control: beside {spell(state.out)} their layers hold too few heads to draw from.",
        )


# What the page on [CLS] says.


WAYS: Mapping[str, Text] = {
    "before": BEFORE,
    "after": Text("去掉之后", "without the heads"),
    "change": Text("变化", "change"),
}
NUMBERS = Text("全部数字", "All numbers")
ALL_HEADS = Text("这一层所有的头", "All heads of the layer")
WAY = Text("画什么", "What is drawn")
CHOOSE = Text("点一行，看那个头。", "Click a row to look at its head.")
COLUMNS: Mapping[str, Text] = {
    "name": Text("量", "quantity"),
    "unit": Text("单位", "unit"),
    "before": WAYS["before"],
    "after": WAYS["after"],
    "change": WAYS["change"],
    "random": Text("随机头：平均（最小–最大）", "random heads: mean (least–largest)"),
    "random_change": Text("随机头的变化", "change, random heads"),
}


def title(seen: Focus) -> Text:
    """The page's heading."""
    layer = seen.head.layer
    return Text(f"第 {layer} 层 [CLS] 注意力：{seen.head}", f"Layer {layer}'s [CLS]: {seen.head}")


def intro(seen: Focus, mode: str, seed: int) -> Text:
    """Which heads are left out, how, and what stands beside."""
    if not seen.out:
        return Text(
            "现在是完整模型。在左栏选要去掉的头，看它们不在时 [CLS] 改看哪里、档位怎样变。",
            "The whole model. Choose heads to leave out on the left, and see where [CLS] looks "
            "instead, and what becomes of the grade.",
        )
    zh = f"去掉的头（{len(seen.out)} 个，{MODES[mode].zh}）：{spell(seen.out)}。"
    en = f"Heads left out ({len(seen.out)}, {MODES[mode].en}): {spell(seen.out)}. "
    if seen.draws:
        zh += f"对照：每层抽同样多的其他头，{seen.draws} 次，种子 {seed}。"
        en += f"Beside it: as many other heads of each layer, {seen.draws} draws, seed {seed}."
    return Text(zh, en.strip())


def predicted(seen: Focus) -> Text | None:
    """The likeliest grade before and after; None for a model without."""
    before, after = seen.predicted
    if before is None:
        return None
    if after is None:
        return Text(f"预测：{before}", f"predicted: {before}")
    return Text(f"预测：{before} → {after}", f"predicted: {before} → {after}")


def named(shift: Shift) -> Text:
    """A quantity's name with its unit."""
    zh, en = (in_language(shift.unit, language) for language in ("zh", "en"))
    if not en:
        return shift.name
    return Text(f"{shift.name.zh}（{zh}）", f"{shift.name.en} ({en})")


def value(shift: Shift) -> str:
    """Without the heads left out; where none are, of the whole model."""
    return number(shift.before if shift.after is None else shift.after, shift.digits)


def beside(shift: Shift) -> Text:
    """The value of the whole model, and that without random heads."""
    before = number(shift.before, shift.digits)
    zh, en = [f"完整模型 {before}"], [f"whole model {before}"]
    if shift.random is not None:
        zh.append(f"随机头 {spread(shift)}")
        en.append(f"random heads {spread(shift)}")
    return Text("；".join(zh), "; ".join(en))


def spread(shift: Shift) -> str | None:
    """`3.91 (3.52 … 4.20)`: the mean over random draws, their least and largest."""
    if shift.random is None:
        return None
    mean, low, high = (
        number(value, shift.digits)
        for value in (shift.random.mean, shift.random.low, shift.random.high)
    )
    return f"{mean} ({low} … {high})"


def delta(shift: Shift) -> str | None:
    """The change with its sign; None where there is none to tell."""
    return None if shift.change is None else signed(shift.change, shift.digits)


def meaning(shift: Shift) -> Text | None:
    """A quantity's name and what it is; None for one that needs no word."""
    if shift.about is None:
        return None
    return Text(f"{shift.name.zh}：{shift.about.zh}", f"{shift.name.en}: {shift.about.en}")


def row(shift: Shift) -> dict[str, str | Text | None]:
    """A line of the table, by the keys of COLUMNS."""
    without = shift.after is not None
    return {
        "name": shift.name,
        "unit": shift.unit or None,
        "before": number(shift.before, shift.digits),
        "after": number(shift.after, shift.digits) if without else None,
        "change": delta(shift),
        "random": spread(shift),
        "random_change": None
        if shift.random_change is None
        else signed(shift.random_change, shift.digits),
    }
