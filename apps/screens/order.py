"""Order: the grade of a pair with a text shuffled, with and without the order heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import streamlit as st

from qt_bert.data.shuffles import shuffle_characters, shuffle_words
from qt_bert.figures import Token, TokenLine, Tokens
from qt_bert.heads import Head, format_heads
from qt_bert.page.figures import draw
from qt_bert.page.maps import cut_notes, random_heads, score_name, score_unit
from qt_bert.page.model import SharedModel
from qt_bert.page.pairs import clean_texts
from qt_bert.page.results import HeadResults, named_beside
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import caption, info, localised, metric, named, table
from qt_bert.probes.order import CASE_QUERY, CASE_SHUFFLED, CASE_TITLE, trained_on_shuffled
from qt_bert.results.probe import set_label
from qt_bert.scoring.judge import ranking_scores
from qt_bert.text import Text, join, number, signed

TEXTS = ("query", "title")
SIDES = {"title": Text("标题", "title"), "query": Text("查询", "query")}
TYPED = "typed"
KINDS = {
    "characters": Text("打乱字", "characters shuffled"),
    "words": Text("打乱词", "words shuffled"),
    TYPED: Text("自己输入", "typed by you"),
}
ORIGINAL, SHUFFLED = Text("原序", "original"), Text("乱序", "shuffled")
NONE_OUT = Text("不去掉头", "no heads out")
NO_ORDER = Text(
    "这段文本没有其他排列：太短，或打乱后不变。",
    "This text has no other order: it is too short, or shuffling does not change it.",
)


class HeadSet(NamedTuple):
    """Heads that are left out together, their name, and the `named` heads that random ones avoid."""

    name: Text
    heads: tuple[Head, ...]
    named: frozenset[Head] = frozenset()


class Shuffled(NamedTuple):
    """A pair (query, title), and the pair with one of its texts in another order."""

    before: tuple[str, str]
    after: tuple[str, str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Way:
    """The scores [draws, 2] of both orders without `heads`, or without as many `random` heads.

    `predicted` are the grades of both orders, for a single draw of a model that grades.
    """

    name: Text
    heads: tuple[Head, ...]
    scores: np.ndarray
    random: bool = False
    predicted: str | None = None

    @property
    def changes(self) -> np.ndarray:
        """Shuffled − original [draws]."""
        return np.asarray(self.scores[:, 1] - self.scores[:, 0])


def main() -> None:
    """Lay out the page."""
    here = visit()
    here.stop_if_empty()
    st.header(localised("语序：打乱之后", "Order: after a shuffle"))
    caption(
        "文章（2.3）：标题打乱后从 4 档降到 2 档；再去掉 7 个语序头，回到 3 档；随机去掉 7 个头，仍是 2 档。",
        "The article (2.3): a shuffled title falls from grade 4 to 2; without 7 order heads it gets 3; "
        "without 7 random heads it stays at 2.",
    )
    model, state = here.model, here.state
    if trained_on_shuffled(model.scorer.checkpoint.folder) == "yes":
        caption(
            "这个模型训练时见过打乱的标题，它对语序的反应有一部分是训练出来的。",
            "This model saw shuffled titles in training, so part of its response to order was trained.",
        )
    side, pair = _requested(here)
    if pair is None:
        info(NO_ORDER)
        return
    draw(text_figure(pair, side), key="order.text")
    sets = head_sets(here.results, state.out)
    _grades(model, pair, ways(model, pair, sets, state.mode, state.seed))


def _requested(here: Visit) -> tuple[int, Shuffled | None]:
    """The side that the visitor shuffles, and the shuffled pair, if there is one."""
    article = localised("文章的例子", "The article's case")
    if st.button(article, icon=":material/article:", key="order.article"):
        typed = {"order.side": "title", "order.kind": TYPED, "order.typed": CASE_SHUFFLED}
        st.session_state.update(typed)
        here.change(query=CASE_QUERY, title=CASE_TITLE)
    state, pair = here.state, (here.state.query, here.state.title)
    left, right = st.columns(2)
    name = left.radio(
        localised("打乱哪段文本", "Which text"),
        list(SIDES),
        format_func=named(SIDES),
        horizontal=True,
        key="order.side",
    )
    side = TEXTS.index(name)
    kind = right.selectbox(
        localised("打乱方式", "How"), list(KINDS), format_func=named(KINDS), key="order.kind"
    )
    if kind == TYPED:
        label = localised("另一种顺序的文本", "The text in another order")
        text = st.text_input(label, key="order.typed", max_chars=1000)
        return side, typed_order(pair, side, text)
    return side, shuffled(here.model, pair, side, kind, state.seed)


def typed_order(pair: tuple[str, str], side: int, text: str) -> Shuffled | None:
    """The pair with a typed text, cleaned like a link's; None where it is blank or unchanged."""
    typed = (pair[0], text) if side else (text, pair[1])
    after = clean_texts(*typed)[:2]
    return Shuffled(pair, after) if after[side].strip() and after[side] != pair[side] else None


def shuffled(
    model: SharedModel, pair: tuple[str, str], side: int, kind: str, seed: int
) -> Shuffled | None:
    """The pair with one text shuffled at random; None where the text has no other order of this kind."""
    rng = np.random.default_rng([seed, *f"{TEXTS[side]}:{kind}".encode()])
    if kind == "words":
        text = shuffle_words(pair[side], model.segmenter, rng)
    else:
        text = shuffle_characters(pair[side], rng)
    if text is None:
        return None
    return Shuffled(pair, (pair[0], text) if side else (text, pair[1]))


def head_sets(results: HeadResults | None, out: tuple[Head, ...]) -> list[HeadSet]:
    """The order and the matching heads of the study, and the heads that the visitor left out.

    The same heads under two names come once, under both names.
    """
    sets: dict[tuple[Head, ...], list[Text]] = {}
    for name in ("order", "matching"):
        if results is not None and (heads := results.sets.get(name)):
            sets.setdefault(tuple(sorted(heads)), []).append(set_label(name, results.stability))
    if out:
        sets.setdefault(tuple(sorted(out)), []).append(Text("左栏所选", "your choice"))
    return [
        HeadSet(join(names, " = ", " = "), heads, named_beside(results, heads))
        for heads, names in sets.items()
    ]


def ways(
    model: SharedModel, pair: Shuffled, sets: Sequence[HeadSet], mode: str, seed: int
) -> list[Way]:
    """Both orders by the whole model, without each set, and without layer-matched random heads of each.

    Without a set, computed as `qt-bert explain --heads-out` does.
    """

    def computed() -> list[Way]:
        ways = []
        for name, heads, beside in (HeadSet(NONE_OUT, ()), *sets):
            graded = [model.graded(model.encode(*text), heads, mode) for text in pair]
            ways.append(
                Way(
                    name=name,
                    heads=heads,
                    scores=np.array([[outputs.ranking_score[0] for outputs in graded]]),
                    predicted=" → ".join(
                        outputs.predicted[0] for outputs in graded if outputs.predicted
                    )
                    or None,
                )
            )
            if variants := random_heads(model, heads, mode, seed, beside):
                n = len(variants)
                label = Text(
                    f"随机头，个数同{name.zh} × {n}", f"random, as many as {name.en} × {n}"
                )
                scores = ranking_scores(model.run(pair, variants).logits, model.labels)
                ways.append(Way(name=label, heads=heads, scores=scores, random=True))
        return ways

    return model.cache.get(("order", pair, tuple(sets), mode, seed), computed)


def _grades(model: SharedModel, pair: Shuffled, ways: Sequence[Way]) -> None:
    """Scores and changes of the whole model, without each set, and without random heads."""
    name, unit = score_name(model.labels), score_unit(model.labels)
    caption(
        f"{name.zh}（{unit.zh}）；箭头：去掉同样的头，乱序比原序高多少或低多少",
        f"{name.en} ({unit.en}); arrows: shuffled − original, with the same heads left out",
    )
    single = [way for way in ways if not way.random]
    first, *columns = st.columns(1 + len(single))
    with first:
        metric(localised(ORIGINAL), number(float(single[0].scores[0, 0])))
    for column, way in zip(columns, single, strict=True):
        without = Text(f"{SHUFFLED.zh}，去掉{way.name.zh}", f"{SHUFFLED.en}, {way.name.en} out")
        with column:
            change = signed(float(way.changes[0]))
            after = number(float(way.scores[0, 1]))
            metric(localised(without if way.heads else SHUFFLED), after, change)
    rows = [
        {
            "name": way.name,
            "heads": len(way.heads),
            "before": float(way.scores[:, 0].mean()),
            "after": float(way.scores[:, 1].mean()),
            "change": float(way.changes.mean()),
            "least": float(way.changes.min()) if way.random else None,
            "most": float(way.changes.max()) if way.random else None,
            "predicted": way.predicted,
        }
        for way in ways
    ]
    names = {
        "name": Text("去掉的头", "heads left out"),
        "heads": Text("头数", "heads"),
        "before": ORIGINAL,
        "after": SHUFFLED,
        "change": Text("变化", "change"),
        "least": Text("最小", "least"),
        "most": Text("最大", "most"),
        "predicted": Text("预测", "predicted"),
    }
    table(rows, names, key="order.table", signed=("change", "least", "most"))
    notes = [
        Text(
            f"{way.name.zh}：{format_heads(way.heads)}", f"{way.name.en}: {format_heads(way.heads)}"
        )
        for way in single[1:]
    ]
    encoded = [model.encode(*text) for text in pair]
    for note in dict.fromkeys([*notes, *(note for text in encoded for note in cut_notes(text))]):
        caption(note)


def text_figure(pair: Shuffled, side: int) -> Tokens:
    """Both orders of the text of `side`, character by character; outlined where they differ."""
    old, new, name = pair.before[side], pair.after[side], SIDES[TEXTS[side]]
    tokens = tuple(Token(text=char, marked=old[at : at + 1] != char) for at, char in enumerate(new))
    return Tokens(
        name="order_text",
        title=Text(f"{name.zh}的两种顺序", f"The {name.en} in both orders"),
        unit="",
        lines=(
            TokenLine(name=ORIGINAL, tokens=tuple(Token(text=char) for char in old)),
            TokenLine(name=SHUFFLED, tokens=tokens),
        ),
        note=Text("加框：这个位置的字变了", "Outlined: places whose character changed"),
    )


if __name__ == "__main__":
    main()
