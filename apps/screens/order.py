"""Order: shuffle a text, and see what its grade loses, with and without the heads that carry order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import streamlit as st

from qt_bert.ablation.families import DRAWS
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import caption, info, metric, named, say, table
from qt_bert.data.shuffles import (
    reverse_characters,
    shuffle_characters,
    shuffle_words,
    swap_adjacent_characters,
)
from qt_bert.figures import Bars, BarSeries, Token, TokenLine, Tokens
from qt_bert.inspection.inputs import clean_texts
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.shared import (
    NO_GRADES,
    cut_notes,
    mask_of,
    random_heads,
    score_name,
    score_unit,
)
from qt_bert.inspection.study import Studied
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, spell
from qt_bert.probes.order import CASE_QUERY, CASE_SHUFFLED, CASE_TITLE, trained_on_shuffled
from qt_bert.results.probe import set_label
from qt_bert.scoring.judge import Outputs, ranking_scores
from qt_bert.text import Text, number, signed

SIDES = {"title": Text("标题", "title"), "query": Text("查询", "query")}
TYPED = "typed"
KINDS = {
    "characters": Text("打乱字", "characters shuffled"),
    "words": Text("打乱词", "words shuffled"),
    "reversal": Text("倒写", "reversed"),
    "swap": Text("换一对邻字", "two neighbours swapped"),
    TYPED: Text("自己写的顺序", "an order of your own"),
}
AS_IT_WAS, SHUFFLED = Text("原样", "as it was"), Text("乱序", "reordered")
NONE_OUT = Text("不去掉头", "no heads out")
NO_ORDER = Text(
    "这段文本没有别的排列：它太短，或怎样打乱都是同一段文本。",
    "This text has no other arrangement: it is too short, or every one of them is the same text.",
)


class HeadSet(NamedTuple):
    """Heads that are left out together, and what they are called."""

    name: Text
    heads: tuple[Head, ...]


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """A pair as it was and with the text of `side` in another order."""

    query: str
    title: str
    side: str
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Way:
    """The grades of both orders under one way to run the model: the heads left out, or random sets.

    `scores` [draws, 2] are expected grades (levels, or the score) before and after, `shares` [draws,
    2, outputs] the probabilities (or the score); `predicted` the grades of both, where there is one
    draw of a model that grades.
    """

    name: Text
    heads: tuple[Head, ...]
    size: int
    scores: np.ndarray
    shares: np.ndarray
    predicted: tuple[str, str] | None = None

    @property
    def random(self) -> bool:
        """Whether random heads are left out."""
        return self.size > len(self.heads)

    @property
    def changes(self) -> np.ndarray:
        """After less before [draws]."""
        return np.asarray(self.scores[:, 1] - self.scores[:, 0])


def main() -> None:
    """Lay out the page."""
    here = visit()
    here.stop_if_empty()
    st.header(say("语序：打乱之后", "Order: after a shuffle"))
    caption(
        "文章（2.3）：把标题打乱，档位从 4 降到 2；再去掉 7 个语序头，模型较难察觉乱序，回到 3；随机去掉"
        "7 个头则仍是 2。",
        "The article (2.3): a shuffled title falls from grade 4 to 2; without 7 order heads the "
        "model notices less, and gives 3; without 7 random heads it stays at 2.",
    )
    model, state = here.model, here.state
    caption(trained(model))
    if not model.classifies:
        info(NO_GRADES)
        return
    kind, pair = _asked(here)
    if pair is None:
        info(NO_ORDER)
        return
    draw(text_figure(pair), key="order.text")
    if here.studied is None:
        caption(
            "这个模型还没有研究结果，不知道哪些是语序头和匹配头；可在“头图谱”页计算。",
            "There are no results on this model yet, so its order and matching heads are unknown; "
            "the page Head atlas computes them.",
        )
    sets = head_sets(here.studied, state.out)
    _grades(model, pair, ways(model, pair, sets, state.mode, state.seed))
    st.subheader(
        say("不只一次：同样打乱多次", "Not one draw alone: the same shuffle several times")
    )
    drawn = draws(model, pair, "characters" if kind == TYPED else kind, state.seed)
    if drawn:
        draw(draws_bars(model, drawn, sets, state.mode), key="order.draws")
    else:
        info(NO_ORDER)


def trained(model: Inspected) -> Text:
    """Whether this checkpoint saw shuffled titles in training, as far as its folder says."""
    if trained_on_shuffled(model.scorer.checkpoint.folder) == "yes":
        return Text(
            "这个检查点训练时见过打乱的标题，因此它的反应里也有学来的部分。",
            "This checkpoint saw shuffled titles in training, so part of what it does was taught.",
        )
    return Text(
        "检查点的文件没有说明训练时是否见过打乱的标题。",
        "The checkpoint's files do not say whether it saw shuffled titles in training.",
    )


def _asked(here: Here) -> tuple[str, Shuffled | None]:
    """The kind of order that the visitor asks for, and the pair in it, if there is one."""
    article = say("看文章的例子", "The article's case")
    if st.button(article, icon=":material/article:", key="order.article"):
        typed = {"order.side": "title", "order.kind": TYPED, "order.typed": CASE_SHUFFLED}
        st.session_state.update(typed)
        here.change(query=CASE_QUERY, title=CASE_TITLE)
    state = here.state
    left, right = st.columns(2)
    side = left.radio(
        say("打乱哪一个", "Which text"),
        list(SIDES),
        format_func=named(SIDES),
        horizontal=True,
        key="order.side",
    )
    kind = right.selectbox(
        say("怎样打乱", "How"),
        list(KINDS),
        format_func=named(KINDS),
        key="order.kind",
    )
    if kind == TYPED:
        label = say("另一种顺序的文本", "The text in another order")
        text = st.text_input(label, key="order.typed", max_chars=1000)
        return kind, typed_order(state.query, state.title, side, text)
    again, tip = Text("换一次", "Another draw"), Text("种子加 1", "The next seed")
    if st.button(say(again), key="order.again", help=say(tip)):
        here.change(seed=state.seed + 1)
    return kind, shuffled(here.model, state.query, state.title, side, kind, state.seed)


def typed_order(query: str, title: str, side: str, text: str) -> Shuffled | None:
    """A text as somebody typed it, cleaned like a link's; None for nothing, or no change."""
    on_title = side == "title"
    new_query, new_title, _ = clean_texts(*((query, text) if on_title else (text, title)))
    pair = Shuffled(query=query, title=title, side=side, text=new_title if on_title else new_query)
    return pair if pair.text.strip() and pair.text != pair.original else None


def shuffled(
    model: Inspected, query: str, title: str, side: str, kind: str, seed: int
) -> Shuffled | None:
    """One draw of a kind; None where the text has no other order of this kind."""
    kinds: Mapping[str, Callable[[str, np.random.Generator], str | None]] = {
        "characters": shuffle_characters,
        "words": lambda text, rng: shuffle_words(text, model.segmenter, rng),
        "reversal": lambda text, rng: reverse_characters(text),
        "swap": swap_adjacent_characters,
    }
    rng = np.random.default_rng([seed, *f"{side}:{kind}".encode()])
    text = kinds[kind](title if side == "title" else query, rng)
    return None if text is None else Shuffled(query=query, title=title, side=side, text=text)


def draws(model: Inspected, pair: Shuffled, kind: str, seed: int) -> list[Shuffled]:
    """Draws of the seeds from `seed` on (of a reversal one alone); texts may come again."""
    seeds = range(seed, seed + (1 if kind == "reversal" else DRAWS))
    found = (shuffled(model, pair.query, pair.title, pair.side, kind, one) for one in seeds)
    return [one for one in found if one is not None]


def head_sets(studied: Studied | None, out: tuple[Head, ...]) -> list[HeadSet]:
    """The order and the matching heads that a study found, and those the visitor left out.

    The same heads under two names come once, under both.
    """
    found: dict[tuple[Head, ...], list[Text]] = {}
    for name in ("order", "matching"):
        if studied is not None and (heads := studied.sets.get(name)):
            found.setdefault(tuple(sorted(heads)), []).append(set_label(name, studied.stability))
    if out:
        found.setdefault(tuple(sorted(out)), []).append(Text("左栏所选", "your choice"))
    return [
        HeadSet(Text(" = ".join(n.zh for n in names), " = ".join(n.en for n in names)), heads)
        for heads, names in found.items()
    ]


def ways(
    model: Inspected, pair: Shuffled, sets: Sequence[HeadSet], mode: str, seed: int
) -> list[Way]:
    """Both orders plainly, without each set, and without layer-matched random sets of each."""

    def made() -> list[Way]:
        found = []
        for one in (HeadSet(NONE_OUT, ()), *sets):
            found.append(_without(model, pair, one, mode))
            variants = random_heads(model, one.heads, mode, seed)
            if variants:
                name = Text(
                    f"随机头（各层与{one.name.zh}同数）",
                    f"random heads (as many a layer as {one.name.en})",
                )
                logits = model.run([pair.before, pair.after], variants).logits
                scores = ranking_scores(logits, model.labels)
                shares = np.stack([_shares(model.outputs(one)) for one in logits])
                size = len(one.heads)
                found.append(Way(name=name, heads=(), size=size, scores=scores, shares=shares))
        return found

    return model.kept.get(("order", pair, tuple(sets), mode, seed), made)


def _without(model: Inspected, pair: Shuffled, one: HeadSet, mode: str) -> Way:
    """By the very computation of `qt-bert explain --heads-out`."""
    found = [
        model.graded(model.encode(*text), one.heads, mode) for text in (pair.before, pair.after)
    ]
    predicted = [outputs.predicted[0] for outputs in found if outputs.predicted]
    return Way(
        name=one.name,
        heads=one.heads,
        size=len(one.heads),
        scores=np.concatenate([outputs.ranking_score for outputs in found])[None],
        shares=np.concatenate([_shares(outputs) for outputs in found])[None],
        predicted=(predicted[0], predicted[1]) if predicted else None,
    )


def _shares(outputs: Outputs) -> np.ndarray:
    """Probabilities [n, outputs], or the scores [n, 1] of a model of one logit."""
    if outputs.probabilities is None:
        return np.asarray(outputs.ranking_score[:, None], np.float64)
    return np.asarray(outputs.probabilities, np.float64)


def _grades(model: Inspected, pair: Shuffled, found: Sequence[Way]) -> None:
    """Expected grades and changes of the plain model and of each set, then the distributions."""
    name, unit = score_name(model.labels), score_unit(model.labels)
    caption(f"{name.zh}（{unit.zh}）", f"{name.en} ({unit.en})")
    single = [way for way in found if not way.random]
    columns = st.columns(1 + len(single))
    with columns[0]:
        metric(say(AS_IT_WAS), number(float(single[0].scores[0, 0])))
    about = Text(
        "箭头：乱序减去原样，两者去掉同样的头",
        "Arrow: reordered less as it was, with the same heads left out",
    )
    for column, way in zip(columns[1:], single, strict=True):
        with column:
            change = signed(float(way.changes[0]))
            metric(say(_reordered(way)), number(float(way.scores[0, 1])), change, about=say(about))
    draw(distributions(found, model.labels), key="order.grades")
    rows = [
        {
            "name": Text(f"{way.name.zh} × {len(way.scores)}", f"{way.name.en} × {len(way.scores)}")
            if way.random
            else way.name,
            "heads": way.size,
            "before": float(way.scores[:, 0].mean()),
            "after": float(way.scores[:, 1].mean()),
            "change": float(way.changes.mean()),
            "range": f"{signed(way.changes.min())} … {signed(way.changes.max())}"
            if way.random
            else None,
            "predicted": " → ".join(way.predicted) if way.predicted else None,
        }
        for way in found
    ]
    names = {
        "name": Text("去掉的头", "heads out"),
        "heads": Text("头数", "heads"),
        "before": AS_IT_WAS,
        "after": SHUFFLED,
        "change": Text("变化", "change"),
        "range": Text("变化的范围", "range of the change"),
        "predicted": Text("预测", "predicted"),
    }
    table(rows, names, key="order.table", signed=("change",))
    notes = [
        Text(f"{w.name.zh}：{spell(w.heads)}", f"{w.name.en}: {spell(w.heads)}") for w in single[1:]
    ]
    encoded = [model.encode(*text) for text in (pair.before, pair.after)]
    for note in dict.fromkeys([*notes, *(note for one in encoded for note in cut_notes(one))]):
        caption(note)


def _reordered(way: Way) -> Text:
    if not way.size:
        return SHUFFLED
    zh, en = way.name.zh, way.name.en
    return Text(f"{SHUFFLED.zh}，去掉{zh}", f"{SHUFFLED.en}, {en} out")


def distributions(found: Sequence[Way], labels: ModelLabels) -> Bars:
    """What the model gives: as it was, in the other order, and that without each set of heads."""
    series = [BarSeries(name=AS_IT_WAS, values=tuple(found[0].shares[0, 0].tolist()))]
    for way in found:
        after = way.shares[:, 1]
        ends = zip(after.min(0).tolist(), after.max(0).tolist(), strict=True)
        series.append(
            BarSeries(
                name=_reordered(way),
                values=tuple(after.mean(0).tolist()),
                intervals=tuple(ends) if way.random else None,
            )
        )
    several, score = labels.logits > 1, Text("分数", "score")
    return Bars(
        name="order_grades",
        title=Text("原样与乱序", "As it was, and reordered"),
        x_label=Text("模型的档位", "model's grade"),
        y_label=Text("概率", "probability") if several else score,
        unit="",
        categories=tuple(labels.names) if several else (score,),
        series=tuple(series),
        note=Text(
            f"一对，一次乱序，没有区间；随机头：至多 {DRAWS} 组的平均，线为最小到最大",
            f"One pair in one other order: no intervals. Random heads: the mean of up to {DRAWS} sets, "
            "lines from the least to the largest",
        ),
    )


def draws_bars(
    model: Inspected, drawn: Sequence[Shuffled], sets: Sequence[HeadSet], mode: str
) -> Bars:
    """The mean change over draws of one pair, plainly and without each set; lines: least to largest."""
    mask = mask_of(model, mode)
    variants = [NONE, *(Variant(str(n), (mask(one.heads),)) for n, one in enumerate(sets))]
    after = [one.after for one in drawn]
    texts = list(dict.fromkeys([drawn[0].before, *after]))
    key = ("order.draws", tuple(texts), tuple(sets), mode)
    logits = model.kept.get(key, lambda: model.run(texts, variants).logits)
    scores = ranking_scores(logits, model.labels)
    changes = scores[:, [texts.index(one) for one in after]] - scores[:, :1]
    name = score_name(model.labels)
    change = Text(f"{name.zh}的变化", f"change of the {name.en}")
    n, different = len(drawn), len(set(after))
    ends = zip(changes.min(1).tolist(), changes.max(1).tolist(), strict=True)
    return Bars(
        name="order_draws",
        title=Text(
            f"{n} 次乱序（{different} 种不同的文本）：{change.zh}",
            f"{n} draws ({different} different texts): {change.en}",
        ),
        x_label=Text("去掉的头", "heads left out"),
        y_label=change,
        unit=score_unit(model.labels),
        categories=(NONE_OUT, *(one.name for one in sets)),
        series=(
            BarSeries(
                name=Text("平均（线：最小到最大）", "mean (line: least to largest)"),
                values=tuple(changes.mean(1).tolist()),
                intervals=tuple(ends),
            ),
        ),
        note=Text(
            "每次都与同样去掉头的原文本相比",
            "Each against the text as it was, with the same heads left out",
        ),
    )


def text_figure(pair: Shuffled) -> Tokens:
    """Both orders, character by character; outlined where they differ."""
    old, new, side = pair.original, pair.text, SIDES[pair.side]
    other = tuple(Token(text=one, marked=old[at : at + 1] != one) for at, one in enumerate(new))
    return Tokens(
        name="order_text",
        title=Text(f"{side.zh}的两种顺序", f"The {side.en} in both orders"),
        unit="",
        lines=(
            TokenLine(name=AS_IT_WAS, tokens=tuple(Token(text=one) for one in old)),
            TokenLine(name=SHUFFLED, tokens=other),
        ),
        note=Text("框出的位置上字变了", "Outlined: places where another character stands now"),
    )


if __name__ == "__main__":
    main()
