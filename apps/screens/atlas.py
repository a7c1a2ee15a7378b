"""Head atlas: which heads matter, what each does, and pairs that show it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import streamlit as st

from qt_bert.ablation.effects import OutputReader
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.splits import spread_over_queries
from qt_bert.heads import Head
from qt_bert.page.figures import draw
from qt_bert.page.maps import attention, score_name
from qt_bert.page.model import SharedModel
from qt_bert.page.pairs import shipped_rows
from qt_bert.page.results import HeadResults
from qt_bert.page.state import State
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import caption, escaped, info, localised, named
from qt_bert.results.head_sets import set_words
from qt_bert.results.heads import atlas_figure, base_of, marked, offered, values_of
from qt_bert.results.probe import set_label
from qt_bert.text import Text, in_language, interval, join, number, sentences, shortest

# Pairs of the shipped dev split that are compared, and how many of them are shown.
LOOKED_AT, SHOWN = 32, 3


class Evidence(NamedTuple):
    """One quantity of a head in words: name, value, meaning, and other figures; `outlined` on the map."""

    title: Text
    measured: Text
    means: Text
    more: Text
    outlined: bool


class Example(NamedTuple):
    """A pair with its score by the whole model and without one head; `moved` is the KL divergence in nats.

    For a model of one logit `moved` is the absolute change of the score.
    """

    query: str
    title: str
    before: float
    after: float
    moved: float


def main() -> None:
    """Lay out the page."""
    here = visit()
    st.header(localised("注意力头图谱", "Head atlas"))
    results, head = here.results, here.state.chosen
    if results is None:
        whole = "qt-bert report --model FOLDER --save-heads FOLDER/heads.json"
        info(
            f"这个模型还没有探针结果，可用命令生成：{whole}",
            f"There are no probe results on this model yet; this command computes them: {whole}",
        )
        return
    click = Text("点一格，看这个头做什么。", "Click a cell to see what its head does.")
    caption(sentences([click, results.origin]))
    grid, side = st.columns([3, 2], gap="medium")
    with grid:
        _grid(here, results)
    with side.container(border=True):
        _card(here, results)
    st.subheader(
        f"{head} · {localised('证据（▣：图中加框）', 'evidence (▣: outlined on the map)')}"
    )
    items = evidence(results, head)
    columns = st.columns(2, gap="medium")
    for place, item in enumerate(items):
        with columns[2 * place // len(items)]:
            mark = "▣ " if item.outlined else ""
            st.markdown(
                f"{mark}{escaped(localised(item.title))}  \n**{escaped(localised(item.measured))}**",
                help=escaped(localised(item.means)),
            )
            caption(item.more)
    _examples(here)


def _grid(here: Visit, results: HeadResults) -> None:
    """The map of the chosen quantity; a click chooses a head."""
    quantities = {quantity.name: (quantity, table) for quantity, table in offered(results.tables)}
    titles = {name: quantity.title for name, (quantity, _) in quantities.items()}
    label = localised("着色依据", "Coloured by")
    name = st.selectbox(label, list(quantities), format_func=named(titles), key="atlas.colour")
    clicked = draw(atlas_figure(*quantities[name]), key=f"atlas.{name}", click=True)
    if clicked is not None:
        here.change(layer=clicked[0], head=clicked[1])


def _card(here: Visit, results: HeadResults) -> None:
    """The head's sets and function, and buttons to leave it out or open it."""
    head, out = here.state.chosen, here.state.out
    st.subheader(str(head))
    sets = [name for name, heads in results.sets.items() if head in heads]
    if sets:
        names = " · ".join(localised(set_label(name, results.stability)) for name in sets)
        st.markdown(f"**{escaped(localised('属于', 'In the sets'))}** {escaped(names)}")
    st.write(escaped(localised(what_it_does(sets))))
    toggle = (
        Text("放回这个头", "Put it back") if head in out else Text("去掉这个头", "Leave it out")
    )
    if st.button(localised(toggle), key="atlas.out"):
        here.change(out=tuple(sorted({*out} ^ {head})))
    label = Text("在“注意力图”页打开", "Open in Attention")
    if st.button(localised(label), key="atlas.open", icon=":material/grid_on:"):
        here.open("attention")


def what_it_does(sets: list[str]) -> Text:
    """What a head does, from the sets it belongs to."""
    does = sentences(dict.fromkeys(set_words(name).does for name in sets))
    if does.zh:
        return does
    return Text(
        "没有探针把它列入任何一组；它像哪一类、影响多大，见下面的数值。",
        "No probe named it; the numbers below show what it resembles and how much it matters.",
    )


def evidence(results: HeadResults, head: Head) -> list[Evidence]:
    """Every quantity of the head: value, interval, q, and its place among all heads."""
    items = []
    for quantity, table in offered(results.tables):
        scores = table.rows().get(str(head), {})
        value = quantity.value(scores)
        if value is None:
            continue
        values = values_of(quantity, table)
        if quantity.scale == "diverging":
            values = {place: abs(value) for place, value in values.items()}
        rank = 1 + sum(other > values[head] for other in values.values())
        ends, q = quantity.interval(scores), quantity.q(scores)
        shown = number(value, quantity.digits)
        unit, within = quantity.unit, f" {interval(*ends, quantity.digits)}" if ends else ""
        q_text = ("", "") if q is None else (f"，q = {shortest(q)}", f", q = {shortest(q)}")
        measured = Text(
            f"{shown} {in_language(unit, 'zh')}{within}{q_text[0]}；第 {rank} / {len(values)}",
            f"{shown} {in_language(unit, 'en')}{within}{q_text[1]}; place {rank} of {len(values)}",
        )
        beside = [
            Text(f"{label.zh} {shortest(score)}", f"{label.en} {shortest(score)}")
            for name, label in quantity.beside.items()
            if (score := scores.get(name)) is not None
        ]
        more = join([*beside, base_of(table)], "；", "; ")
        outlined = head in marked(quantity, table)
        items.append(Evidence(quantity.title, measured, quantity.means, more, outlined))
    return items


def _examples(here: Visit) -> None:
    """The pairs for which the head matters most."""
    st.subheader(localised("去掉它影响最大的文本对", "Pairs where it matters most"))
    caption(
        f"自带开发集 {LOOKED_AT} 对中，单独去掉这个头后输出变化最大的 {SHOWN} 对。",
        f"Of {LOOKED_AT} pairs of the shipped dev split, the {SHOWN} whose outputs change most without "
        "this head alone.",
    )
    with st.spinner(localised("正在找例子…", "Looking for examples…")):
        examples = strongest(here.model, here.state)
    labels, name = here.model.labels, localised(score_name(here.model.labels))
    for place, (column, pair) in enumerate(zip(st.columns(SHOWN), examples, strict=False)):
        with column:
            st.text(f"{pair.query}\n{pair.title}")
            moved = "" if labels.logits == 1 else f", KL {shortest(pair.moved)} nat"
            st.caption(escaped(f"{name} {number(pair.before, 2)} → {number(pair.after, 2)}{moved}"))
            state = replace(here.state, query=pair.query, title=pair.title, out=())
            for figure in attention(here.model, state).figures:
                draw(figure, key=f"atlas.example.{place}", bare=True)


def strongest(model: SharedModel, state: State) -> tuple[Example, ...]:
    """The shipped pairs whose outputs change most without the state's head alone, most first."""
    pairs = spread_over_queries(shipped_rows("dev"), LOOKED_AT)
    texts = [(pair.query, pair.title) for pair in pairs]
    reader = OutputReader([replace(pair, grades=None, label=None) for pair in pairs], model.labels)

    def computed() -> tuple[Example, ...]:
        intervention = model.intervention([state.chosen], state.mode)
        assert intervention is not None
        clean = model.cache.get("atlas.plain", lambda: model.run(texts, [NONE]).logits[0])
        without = model.run(texts, [Variant("head", (intervention,))]).logits[0]
        before, after = reader.read(clean), reader.read(without)
        moved = after.quantity("kl", before)
        if moved is None:  # one logit
            moved = np.abs(after.score - before.score)
        scores = np.stack([before.score, after.score, moved], axis=1)
        most = np.argsort(-moved, kind="stable")[:SHOWN]
        return tuple(Example(*texts[row], *scores[row].tolist()) for row in most)

    return model.cache.get(("strongest", state.chosen, state.mode), computed)


if __name__ == "__main__":
    main()
