"""What another order of the words does to a grade, with and without the heads that carry order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from qt_bert.ablation.families import DRAWS
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.segmenters import Segmenter
from qt_bert.data.shuffles import (
    reverse_characters,
    shuffle_characters,
    shuffle_words,
    swap_adjacent_characters,
)
from qt_bert.errors import ArgumentError
from qt_bert.figures import Bars, BarSeries, HeatMap, Token, TokenLine, Tokens
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inputs import clean_texts
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.views.phrases import cut_notes, score_name, score_unit
from qt_bert.inspection.views.shared import cells, mask_of, random_heads
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, spell
from qt_bert.probes.order import (
    CASE_QUERY,
    CASE_SHUFFLED,
    CASE_TITLE,
    Trained,
    trained_on_shuffled,
)
from qt_bert.results.head_sets import set_words
from qt_bert.results.probe import Stability, set_label
from qt_bert.scoring.judge import ranking_scores, read_outputs
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text, number, signed

# Which heads the page of word order leaves out together.


ORDER, MATCHING, OWN = "order", "matching", "own"
NAMES: Mapping[str, Text] = {
    ORDER: set_words(ORDER).name,
    MATCHING: set_words(MATCHING).name,
    OWN: Text("左栏所选", "your choice"),
}


class HeadSet(NamedTuple):
    """Heads that are left out together, and what they are called."""

    name: Text
    heads: tuple[Head, ...]


def head_sets(
    named: Mapping[str, tuple[Head, ...]],
    out: tuple[Head, ...],
    stability: Mapping[str, Stability] | None = None,
) -> list[HeadSet]:
    """The order and the matching heads that a study found, and those the visitor left out.

    The same heads under two names come once, under both. `stability` says which sets are not stable.
    """
    labels = {name: set_label(name, stability or {}) for name in (ORDER, MATCHING)}
    found: dict[tuple[Head, ...], list[Text]] = {}
    for key, heads in ((ORDER, named.get(ORDER)), (MATCHING, named.get(MATCHING)), (OWN, out)):
        if heads:
            found.setdefault(tuple(sorted(heads)), []).append(labels.get(key, NAMES[key]))
    return [
        HeadSet(Text(" = ".join(n.zh for n in names), " = ".join(n.en for n in names)), heads)
        for heads, names in found.items()
    ]


# A pair with one of its texts in another order: drawn by kind and seed, or typed.


Side = Literal["title", "query"]
SIDES: Mapping[str, Text] = {"title": Text("标题", "title"), "query": Text("查询", "query")}
KINDS: Mapping[str, Text] = {
    "characters": Text("打乱字", "characters shuffled"),
    "words": Text("打乱词", "words shuffled"),
    "reversal": Text("倒写", "reversed"),
    "swap": Text("换一对邻字", "two neighbours swapped"),
}
TYPED = "typed"
"""Beside `KINDS`: the order that the visitor typed."""

Disturb = Callable[[str, np.random.Generator], str | None]
"""A text in another order; None for a text that has no other."""


def disturbances(words: Segmenter) -> dict[str, Disturb]:
    """How each of `KINDS` is drawn."""
    return {
        "characters": shuffle_characters,
        "words": lambda text, rng: shuffle_words(text, words, rng),
        "reversal": lambda text, rng: reverse_characters(text),
        "swap": swap_adjacent_characters,
    }


CASE = (CASE_QUERY, CASE_TITLE, CASE_SHUFFLED)
"""The article's pair and its own shuffled title (2.3)."""


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """A pair as it was and with the text of `side` in another order."""

    query: str
    title: str
    side: Side
    text: str

    @property
    def original(self) -> str:
        """The text of `side` as it was."""
        return self.title if self.side == "title" else self.query

    @property
    def before(self) -> tuple[str, str]:
        """The pair as it was."""
        return self.query, self.title

    @property
    def after(self) -> tuple[str, str]:
        """The pair in the other order."""
        return (self.query, self.text) if self.side == "title" else (self.text, self.title)

    @classmethod
    def typed(cls, query: str, title: str, side: Side, text: str) -> Shuffled | None:
        """With a text as somebody typed it, cleaned like a link's; None for nothing, or no change."""
        on_title = side == "title"
        new_query, new_title, _ = clean_texts(*((query, text) if on_title else (text, title)))
        cleaned = new_title if on_title else new_query
        one = cls(query=query, title=title, side=side, text=cleaned)
        return one if cleaned.strip() and cleaned != one.original else None

    @property
    def difference(self) -> Text | None:
        """The characters that one of the texts has and the other lacks; None for a mere order."""
        old, new = Counter(self.original), Counter(self.text)
        if old == new:
            return None
        added, dropped = ("".join((a - b).elements()) or "–" for a, b in ((new, old), (old, new)))
        return Text(
            f"不只是换了顺序：多了 {added}，少了 {dropped}",
            f"More than the order differs: added {added}, missing {dropped}",
        )


def shuffled(
    inspected: Inspected, query: str, title: str, *, side: Side, kind: str, seed: int
) -> Shuffled | None:
    """One draw of a kind (of `KINDS`); None where the text has no other order of this kind.

    The same seed gives the same text. Raises ArgumentError where the segmenter's words overlap.
    """
    rng = np.random.default_rng([seed, *f"{side}:{kind}".encode()])
    text = disturbances(inspected.segmenter)[kind](title if side == "title" else query, rng)
    return None if text is None else Shuffled(query=query, title=title, side=side, text=text)


def draws(
    inspected: Inspected,
    query: str,
    title: str,
    *,
    side: Side,
    kind: str,
    seed: int,
    number: int = DRAWS,
) -> list[Shuffled]:
    """`number` draws, of the seeds from `seed` on, one after the other; texts may come again.

    There is one reversal only. Empty where the text has no other order.
    """
    seeds = range(seed, seed + (1 if kind == "reversal" else number))
    found = (shuffled(inspected, query, title, side=side, kind=kind, seed=one) for one in seeds)
    return [one for one in found if one is not None]


def text_figure(pair: Shuffled) -> Tokens:
    """Both orders, character by character; outlined where they differ."""
    width = max(len(pair.original), len(pair.text))
    other = [pair.text[at : at + 1] != pair.original[at : at + 1] for at in range(width)]
    lines = {
        Text("原样", "as it was"): pair.original,
        Text("乱序", "in another order"): pair.text,
    }
    side = SIDES[pair.side]
    return Tokens(
        name="order_text",
        title=Text(f"{side.zh}的两种顺序", f"The {side.en} in both orders"),
        unit="",
        lines=tuple(
            TokenLine(
                name=name,
                tokens=tuple(
                    Token(text=one, marked=other[at] and number > 0) for at, one in enumerate(text)
                ),
            )
            for number, (name, text) in enumerate(lines.items())
        ),
        note=Text("框出的位置上字变了", "Outlined: places where another character stands now"),
    )


# What another order of the words does to a grade, with and without the heads that carry order.


class Range(NamedTuple):
    """A mean over draws, their least and their largest; all three the same for a single value."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray) -> Range:
        """Over all of `values`."""
        return cls(float(values.mean()), float(values.min()), float(values.max()))


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to run the model on both orders: the heads left out, `size` of them, and what it gives.

    `heads` are empty where they are random, in `draws` sets. `before` and `after` are expected grades (or levels, or scores), `change` their difference;
    `shares_…` the probability of each output (the score of a model of one logit).
    `grades` are the predicted grades, None for a model of one logit and for random sets.
    """

    name: Text
    heads: tuple[Head, ...] = ()
    size: int = 0
    draws: int = 1
    before: Range
    after: Range
    change: Range
    shares_before: tuple[Range, ...]
    shares_after: tuple[Range, ...]
    grades: tuple[str, str] | None = None

    @property
    def random(self) -> bool:
        """Whether random heads are left out."""
        return self.size > len(self.heads)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A pair in both orders under the plain model (first), each set of heads and random sets.

    `without_random` are the sets with too few other heads in their layers for a random one;
    `notes` say what of the texts the model does not read.
    """

    labels: ModelLabels
    pair: Shuffled
    ways: tuple[Way, ...]
    without_random: tuple[Text, ...]
    notes: tuple[Text, ...]


def order(
    inspected: Inspected, pair: Shuffled, sets: Sequence[HeadSet], *, mode: str, seed: int
) -> Order:
    """Grade both orders plainly, without each set, and without layer-matched random sets of each.

    Kept for the next click. Raises ArgumentError for heads that the model lacks.
    """
    key = (inspected.key, pair, tuple(sets), mode, seed)
    return _kept.get(key, lambda: _order(inspected, pair, sets, mode, seed))


_kept = Kept()


def _order(
    inspected: Inspected, pair: Shuffled, sets: Sequence[HeadSet], mode: str, seed: int
) -> Order:
    ways = [_graded(inspected, pair, HeadSet(Text("不去掉头", "no heads out"), ()), mode)]
    without: list[Text] = []
    for one in sets:
        ways.append(_graded(inspected, pair, one, mode))
        random = _random(inspected, pair, one, mode, seed)
        if random is None:
            without.append(one.name)
        else:
            ways.append(random)
    encoded = [inspected.encode(*texts) for texts in (pair.before, pair.after)]
    return Order(
        labels=inspected.labels,
        pair=pair,
        ways=tuple(ways),
        without_random=tuple(without),
        notes=tuple(dict.fromkeys(note for one in encoded for note in cut_notes(one))),
    )


def _graded(inspected: Inspected, pair: Shuffled, one: HeadSet, mode: str) -> Way:
    """By the very computation of `qt-bert explain --heads-out`."""
    encoded = [inspected.encode(*texts) for texts in (pair.before, pair.after)]
    found = [inspected.graded(texts, one.heads, mode) for texts in encoded]
    before, after = (Range.of(outputs.ranking_score) for outputs in found)
    change = after.mean - before.mean
    both = [
        outputs.ranking_score[:, None] if outputs.probabilities is None else outputs.probabilities
        for outputs in found
    ]
    grades = [outputs.predicted[0] for outputs in found if outputs.predicted]
    return Way(
        name=one.name,
        heads=one.heads,
        size=len(one.heads),
        before=before,
        after=after,
        change=Range(change, change, change),
        shares_before=_ranges(both[0]),
        shares_after=_ranges(both[1]),
        grades=(grades[0], grades[1]) if grades else None,
    )


def _random(
    inspected: Inspected, pair: Shuffled, like: HeadSet, mode: str, seed: int
) -> Way | None:
    """As many heads in each layer, outside the set; None where a layer has too few others."""
    variants = random_heads(inspected, like.heads, mode, seed)
    if not variants:
        return None
    logits = inspected.run([pair.before, pair.after], variants).logits
    grades = ranking_scores(logits, inspected.labels)
    before, after = (_shares(logits[:, at], inspected.labels) for at in (0, 1))
    return Way(
        name=Text(
            f"随机头（各层与{like.name.zh}同数）",
            f"random heads (as many a layer as {like.name.en})",
        ),
        size=len(like.heads),
        draws=len(variants),
        before=Range.of(grades[:, 0]),
        after=Range.of(grades[:, 1]),
        change=Range.of(grades[:, 1] - grades[:, 0]),
        shares_before=_ranges(before),
        shares_after=_ranges(after),
    )


def _shares(logits: np.ndarray, labels: ModelLabels) -> FloatArray:
    """Probabilities of logits [n, K], or the scores [n, 1] of a one-logit model."""
    outputs = read_outputs(logits, labels)
    found = (
        outputs.ranking_score[:, None] if outputs.probabilities is None else outputs.probabilities
    )
    return np.asarray(found, np.float64)


def _ranges(values: FloatArray) -> tuple[Range, ...]:
    return tuple(Range.of(column) for column in np.asarray(values, np.float64).T)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread:
    """The change of the expected grade over several draws of the other order.

    `names` are the ways to run the model, the plain one first; `changes` [names, draws]; `different`
    counts the different texts among the draws.
    """

    names: tuple[Text, ...]
    changes: FloatArray
    different: int


def spread(
    inspected: Inspected, drawn: Sequence[Shuffled], sets: Sequence[HeadSet], *, mode: str
) -> Spread:
    """What each of `drawn`, all of one pair, changes under the plain model and without each set.

    Kept for the next click. Raises ArgumentError for no draws.
    """
    if not drawn:
        raise ArgumentError("the text has no other order, so there is nothing to draw")
    key = (inspected.key, tuple(drawn), tuple(sets), mode)
    return _kept.get(key, lambda: _spread(inspected, drawn, sets, mode))


def _spread(
    inspected: Inspected, drawn: Sequence[Shuffled], sets: Sequence[HeadSet], mode: str
) -> Spread:
    after = [one.after for one in drawn]
    texts = list(dict.fromkeys([drawn[0].before, *after]))
    mask = mask_of(inspected, mode)
    masks = [Variant(str(n), (mask(one.heads),)) for n, one in enumerate(sets)]
    grades = ranking_scores(inspected.run(texts, [NONE, *masks]).logits, inspected.labels)
    rows = [texts.index(one) for one in after]
    return Spread(
        names=(Text("不去掉头", "no heads out"), *(one.name for one in sets)),
        changes=grades[:, rows] - grades[:, :1],
        different=len(set(after)),
    )


# What the page of word order says.


TITLE = Text("语序：打乱之后", "Order: after a shuffle")
INTRO = Text(
    "文章（2.3）：把标题打乱，档位从 4 降到 2；再去掉 7 个语序头，模型较难察觉乱序，回到 3；随机去掉 7 个头"
    "则仍是 2。",
    "The article (2.3): a shuffled title falls from grade 4 to 2; without 7 order heads the model "
    "notices less, and gives 3; without 7 random heads it stays at 2.",
)
ARTICLE = Text("看文章的例子", "The article's case")
SIDE, KIND = Text("打乱哪一个", "Which text"), Text("怎样打乱", "How")
SIDE_NAMES = SIDES
KIND_NAMES: Mapping[str, Text] = {
    **KINDS,
    TYPED: Text("自己写的顺序", "an order of your own"),
}
OWN_TEXT = Text("另一种顺序的文本", "The text in another order")
AGAIN = Text("换一次", "Another draw")
AGAIN_HELP = Text("种子加 1", "The next seed")
NO_ORDER = Text(
    "这段文本没有别的排列：它太短，或怎样打乱都是同一段文本。",
    "This text has no other arrangement: it is too short, or every one of them is the same text.",
)
NO_STUDY = Text(
    "这个模型还没有研究结果，不知道哪些是语序头和匹配头；可在“头图谱”页计算。",
    "There are no results on this model yet, so its order and matching heads are unknown; the page "
    "Head atlas computes them.",
)
DELTA = Text(
    "箭头：乱序减去原样，两者去掉同样的头",
    "Arrow: reordered less as it was, with the same heads left out",
)
SEVERAL = Text("不只一次：同样打乱多次", "Not one draw alone: the same shuffle several times")
EVERY = Text("每次打乱的数", "Every draw in numbers")
COLUMNS: Mapping[str, Text] = {
    "name": Text("去掉的头", "heads out"),
    "heads": Text("头数", "heads"),
    "before": Text("原样", "as it was"),
    "after": Text("乱序", "reordered"),
    "change": Text("变化", "change"),
    "range": Text("变化的范围", "range of the change"),
    "predicted": Text("预测", "predicted"),
}

_TRAINED: Mapping[Trained, Text] = {
    "yes": Text(
        "这个检查点训练时见过打乱的标题，因此它的反应里也有学来的部分。",
        "This checkpoint saw shuffled titles in training, so part of what it does was taught.",
    ),
    "unknown": Text(
        "检查点的文件没有说明训练时是否见过打乱的标题。",
        "The checkpoint's files do not say whether it saw shuffled titles in training.",
    ),
}


def trained(inspected: Inspected) -> Text:
    """Whether this checkpoint saw shuffled titles in training, as far as its folder says."""
    return _TRAINED[trained_on_shuffled(inspected.scorer.checkpoint.folder)]


def score_line(found: Order) -> Text:
    """What the numbers above the pictures are, with their unit."""
    name, unit = score_name(found.labels), score_unit(found.labels)
    return Text(f"{name.zh}（{unit.zh}）", f"{name.en} ({unit.en})")


def notes(found: Order) -> Iterator[Text]:
    """Which heads the sets are, what was not read, and which sets have nothing random beside them."""
    for way in found.ways:
        if way.heads:
            listed = spell(way.heads)
            yield Text(f"{way.name.zh}：{listed}", f"{way.name.en}: {listed}")
    yield from found.notes
    for name in found.without_random:
        yield Text(
            f"{name.zh}：同层剩下的头不够，没有随机头可比。",
            f"{name.en}: too few other heads in these layers, so there are no random ones beside.",
        )


# The pictures and the table of what another order of the words does to a grade.


AS_IT_WAS, SHUFFLED = Text("原样", "as it was"), Text("乱序", "reordered")
PROBABILITY, SCORE = Text("概率", "probability"), Text("分数", "score")


def distributions(found: Order) -> Bars:
    """What the model gives: as it was, in the other order, and that without each set of heads.

    Of random sets the mean, with the range over the draws as its interval.
    """
    first = found.ways[0]
    series = [BarSeries(name=AS_IT_WAS, values=_means(first.shares_before))]
    for way in found.ways:
        name = SHUFFLED if way is first else _joined(SHUFFLED, way.name)
        series.append(
            BarSeries(
                name=name,
                values=_means(way.shares_after),
                intervals=tuple((one.low, one.high) for one in way.shares_after)
                if way.random
                else None,
            )
        )
    draws = max((way.draws for way in found.ways if way.random), default=0)
    several = found.labels.logits > 1
    return Bars(
        name="order_grades",
        title=Text("原样与乱序", "As it was, and reordered"),
        x_label=Text("模型的档位", "model's grade"),
        y_label=PROBABILITY if several else SCORE,
        unit="",
        categories=tuple(found.labels.names) if several else (SCORE,),
        series=tuple(series),
        note=Text(
            f"随机头：至多 {draws} 组的平均，线为最小到最大"
            if draws
            else "一对，一次乱序；没有区间",
            f"Random heads: the mean of up to {draws} sets; lines from the least to the largest"
            if draws
            else "One pair in one other order; no intervals",
        ),
    )


def rows(found: Order) -> list[dict[str, str | int | float | Text | None]]:
    """A row a way: what is left out, scores of both orders, their difference; keys as in COLUMNS."""
    return [
        {
            "name": Text(f"{way.name.zh} × {way.draws}", f"{way.name.en} × {way.draws}")
            if way.random
            else way.name,
            "heads": way.size,
            "before": way.before.mean,
            "after": way.after.mean,
            "change": way.change.mean,
            "range": f"{signed(way.change.low)} … {signed(way.change.high)}"
            if way.random
            else None,
            "predicted": " → ".join(way.grades) if way.grades else None,
        }
        for way in found.ways
    ]


def spread_bars(found: Spread, labels: ModelLabels) -> Bars:
    """The mean change over the draws, plainly and without each set; lines from least to largest."""
    ranges, change = [Range.of(row) for row in found.changes], _change(labels)
    draws = found.changes.shape[1]
    return Bars(
        name="order_draws",
        title=Text(
            f"{draws} 次乱序（{found.different} 种不同的文本）：{change.zh}",
            f"{draws} draws ({found.different} different texts): {change.en}",
        ),
        x_label=Text("去掉的头", "heads left out"),
        y_label=change,
        unit=score_unit(labels),
        categories=found.names,
        series=(
            BarSeries(
                name=Text("平均（线：最小到最大）", "mean (line: least to largest)"),
                values=tuple(one.mean for one in ranges),
                intervals=tuple((one.low, one.high) for one in ranges),
            ),
        ),
        note=Text(
            "每次都与同样去掉头的原文本相比",
            "Each against the text as it was, with the same heads left out",
        ),
    )


def draws_map(found: Spread, labels: ModelLabels, first_seed: int) -> HeatMap:
    """Every draw's change, by its seed."""
    change = _change(labels)
    return HeatMap(
        name="order_each_draw",
        title=Text(f"每次乱序：{change.zh}", f"Every draw: {change.en}"),
        x_label=Text("种子", "seed"),
        y_label=Text("去掉的头", "heads left out"),
        unit=score_unit(labels),
        columns=tuple(str(first_seed + at) for at in range(found.changes.shape[1])),
        rows=found.names,
        values=cells(found.changes),
        scale="diverging",
    )


class Number(NamedTuple):
    """One number above the pictures: what it is, the value, and its change where it has one."""

    name: Text
    value: str
    change: str | None = None


def headline(found: Order) -> list[Number]:
    """The score as it was, in the other order, and that without each set of heads."""
    first = found.ways[0]
    said = [Number(AS_IT_WAS, number(first.before.mean))]
    for way in found.ways:
        if not way.random:
            name = SHUFFLED if way is first else _joined(SHUFFLED, way.name)
            said.append(Number(name, number(way.after.mean), signed(way.change.mean)))
    return said


def _means(ranges: tuple[Range, ...]) -> tuple[float, ...]:
    return tuple(one.mean for one in ranges)


def _change(labels: ModelLabels) -> Text:
    name = score_name(labels)
    return Text(f"{name.zh}的变化", f"change of the {name.en}")


def _joined(one: Text, other: Text) -> Text:
    return Text(f"{one.zh}，去掉{other.zh}", f"{one.en}, {other.en} out")
