"""Head atlas: which heads matter, what each does, and where it shows."""

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
from qt_bert.page.state import State
from qt_bert.page.study import Study
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import caption, escaped, info, localised, named
from qt_bert.results.head_sets import set_words
from qt_bert.results.heads import atlas_figure, base_of, marked, offered, values_of
from qt_bert.results.probe import set_label
from qt_bert.text import Text, in_language, interval, join, number, shortest

# Pairs of the shipped dev among which the strongest are sought, and how many are shown.
LOOKED_AT, SHOWN = 32, 3


class Evidence(NamedTuple):
    """One quantity of a head in words: its name, value, meaning, and what else is known."""

    title: Text
    measured: Text
    means: Text
    more: Text
    outlined: bool


class Example(NamedTuple):
    """A pair with its score as it is and without one head; `moved` is the KL divergence in nats.

    For a model of one logit it is the change of the score.
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
    study, head = here.study, here.state.chosen
    if study is None:
        whole = "qt-bert report --model FOLDER --save-heads FOLDER/heads.json"
        info(
            f"这个模型还没有研究结果；用命令 {whole} 得到。",
            f"There are no results on this model yet; the command {whole} makes them.",
        )
        return
    click = localised("点一格，看那个头做什么。", "Click a cell to see what its head does.")
    st.caption(escaped(f"{click} {localised(study.origin)}"))
    grid, side = st.columns([3, 2], gap="medium")
    with grid:
        _grid(here, study)
    with side.container(border=True):
        _card(here, study)
    st.subheader(f"{head} · {localised('证据（▣：有粗框）', 'evidence (▣: outlined)')}")
    found = evidence(study, head)
    columns = st.columns(2, gap="medium")
    for place, one in enumerate(found):
        with columns[2 * place // len(found)]:
            mark = "▣ " if one.outlined else ""
            st.markdown(
                f"{mark}{escaped(localised(one.title))}  \n**{escaped(localised(one.measured))}**",
                help=escaped(localised(one.means)),
            )
            caption(one.more)
    _at_work(here)


def _grid(here: Visit, study: Study) -> None:
    """The map of the quantity chosen; a click chooses its head."""
    found = {quantity.name: (quantity, table) for quantity, table in offered(study.tables)}
    titles = {name: one[0].title for name, one in found.items()}
    label = localised("按什么着色", "Coloured by")
    name = st.selectbox(label, list(found), format_func=named(titles), key="atlas.colour")
    clicked = draw(atlas_figure(*found[name]), key=f"atlas.{name}", click=True)
    if clicked is not None:
        here.change(layer=clicked[0], head=clicked[1])


def _card(here: Visit, study: Study) -> None:
    """What the head is, and what can be done with it."""
    head, out = here.state.chosen, here.state.out
    st.subheader(str(head))
    sets = [name for name, heads in study.sets.items() if head in heads]
    if sets:
        names = " · ".join(localised(set_label(name, study.stability)) for name in sets)
        st.markdown(f"**{escaped(localised('属于：', 'In the sets:'))}** {escaped(names)}")
    st.write(escaped(localised(what_it_does(sets))))
    take = Text("不再去掉", "Take it back") if head in out else Text("加入去掉的头", "Leave it out")
    if st.button(localised(take), key="atlas.out"):
        here.change(out=tuple(sorted({*out} ^ {head})))
    label = Text("在“注意力”页打开", "Open in Attention")
    if st.button(localised(label), key="atlas.open", icon=":material/grid_on:"):
        here.open("attention")


def what_it_does(sets: list[str]) -> Text:
    """A head in words, from the sets it belongs to."""
    said = {words.does.zh: words.does for words in map(set_words, sets) if words.does.zh}.values()
    if not said:
        return Text(
            "没有一个探针选出它：下面的数值说明它像什么、要不要紧。",
            "No probe named it: the numbers below say what it resembles, and whether it matters.",
        )
    return Text("".join(one.zh for one in said), " ".join(one.en for one in said))


def evidence(study: Study, head: Head) -> list[Evidence]:
    """Every quantity of the head: value, interval, q, and its place among all heads."""
    found = []
    for quantity, table in offered(study.tables):
        scores = table.rows().get(str(head), {})
        value = quantity.value(scores)
        if value is None:
            continue
        every = values_of(quantity, table)
        if quantity.scale == "diverging":
            every = {place: abs(one) for place, one in every.items()}
        rank = 1 + sum(one > every[head] for one in every.values())
        ends, q = quantity.interval(scores), quantity.q(scores)
        shown = number(value, quantity.digits)
        unit, within = quantity.unit, f" {interval(*ends, quantity.digits)}" if ends else ""
        sure = ("", "") if q is None else (f"，q = {shortest(q)}", f", q = {shortest(q)}")
        measured = Text(
            f"{shown} {in_language(unit, 'zh')}{within}{sure[0]}；第 {rank} / {len(every)}",
            f"{shown} {in_language(unit, 'en')}{within}{sure[1]}; place {rank} of {len(every)}",
        )
        beside = [
            Text(f"{said.zh} {shortest(known)}", f"{said.en} {shortest(known)}")
            for name, said in quantity.beside.items()
            if (known := scores.get(name)) is not None
        ]
        more = join([*beside, base_of(table)], "；", "; ")
        outlined = head in marked(quantity, table)
        found.append(Evidence(quantity.title, measured, quantity.means, more, outlined))
    return found


def _at_work(here: Visit) -> None:
    """The pairs that the head matters for."""
    st.subheader(localised("它最起作用的文本对", "Pairs where it matters most"))
    caption(
        f"从自带 dev 的 {LOOKED_AT} 对里，挑出只去掉这个头时输出变化最大的 {SHOWN} 对。",
        f"Of {LOOKED_AT} pairs of the dev that ships, the {SHOWN} whose outputs change most without this "
        "head alone.",
    )
    with st.spinner(localised("正在找例子…", "Looking for examples…")):
        found = strongest(here.model, here.state)
    labels, name = here.model.labels, localised(score_name(here.model.labels))
    for place, (column, one) in enumerate(zip(st.columns(SHOWN), found, strict=False)):
        with column:
            st.text(f"{one.query}\n{one.title}")
            moved = "" if labels.logits == 1 else f", KL {shortest(one.moved)} nat"
            st.caption(escaped(f"{name} {number(one.before, 2)} → {number(one.after, 2)}{moved}"))
            other = replace(here.state, query=one.query, title=one.title, out=())
            for figure in attention(here.model, other).figures:
                draw(figure, key=f"atlas.example.{place}", bare=True)


def strongest(model: SharedModel, state: State) -> tuple[Example, ...]:
    """The shipped pairs whose outputs move most without the state's head alone, most first."""
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
