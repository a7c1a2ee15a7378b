"""Head atlas: which heads matter, what each does, and where it shows."""

from __future__ import annotations

import streamlit as st

from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import watch
from qt_bert.app.words import escaped
from qt_bert.inspection.sampled import STEPS, begin_study
from qt_bert.inspection.studied import Studied
from qt_bert.inspection.turns import Background, Stopped
from qt_bert.inspection.views.all_heads import SHOWN, about, strongest
from qt_bert.inspection.views.atlas import Card, card, colourings, what_it_does
from qt_bert.inspection.views.attention import attention
from qt_bert.text import Text

TITLE = Text("注意力头图谱", "Head atlas")
INTRO = Text(
    "每格是一个头，颜色是所选的量。点一格，看这个头做什么、证据、例子。",
    "Every cell is a head, coloured by the quantity chosen. Click one to see what it does, the "
    "evidence, and examples.",
)
COLOUR = Text("按什么着色", "Coloured by")
NONE_YET = Text(
    "这个模型还没有研究结果；在这里可用自带的少量文本对逐头打分（未经检验）。",
    "There are no results on this model yet; here its heads are scored on a few of the pairs that "
    "ship (untested).",
)
WHOLE = Text(
    "完整的研究用命令 qt-bert report --model 目录 --save-heads 目录/heads.json。",
    "The whole study is the command qt-bert report --model FOLDER --save-heads FOLDER/heads.json.",
)
STOPPED = Text("已停止，没有结果。", "Stopped; there are no results.")
START = Text("在这里计算", "Compute here")
LEAVE_OUT = Text("加入去掉的头", "Leave it out")
TAKE_BACK = Text("不再去掉", "Take it back")
OPEN = Text("在“注意力”页打开", "Open in Attention")
EVIDENCE = Text("证据（▣：图谱里有粗框）", "evidence (▣: outlined in the atlas)")
ONE_OF = Text("属于：", "In the sets:")
THIS_PAIR = Text("在当前这一对上的注意力", "Its attention on the present pair")
EXAMPLES = Text("它最起作用的文本对", "Pairs where it matters most")
WORKING = Text("正在找例子…", "Looking for examples…")


def main() -> None:
    """Lay out the page."""
    here = visit()
    st.header(here.text(TITLE))
    for word in here.looked.refused:
        st.warning(escaped(here.text(word)), icon=":material/rule:")
    if here.studied is None:
        _compute(here)
        return
    st.caption(escaped(f"{here.text(INTRO)} {here.text(here.studied.origin)}"))
    found = card(here.studied, here.state.chosen)
    grid, side = st.columns([3, 2], gap="medium")
    with grid:
        _grid(here, here.studied)
    with side.container(border=True):
        _card(here, found)
    _evidence(here, found)
    _at_work(here)


def _compute(here: Here) -> None:
    """Score the heads here; it begins by itself, unless the visitor stopped it."""
    key = f"atlas.job.{here.state.model}"
    st.info(here.text(NONE_YET), icon=":material/science:")
    st.caption(escaped(here.text(WHOLE)))
    job: Background[Studied] | None = st.session_state.get(key)
    failed = None if job is None else job.error
    again = failed is not None and st.button(here.text(START), key="atlas.start")
    if job is None or job.result is not None or again:  # a result without `studied`: a model gone
        st.session_state[key] = job = begin_study(here.model, here.base)
    if job.error is None:
        watch(job, unit=Text("%", "%"), steps=STEPS, key="atlas.job")
    else:
        st.warning(escaped(here.text(STOPPED if isinstance(failed, Stopped) else str(failed))))


def _grid(here: Here, studied: Studied) -> None:
    """The map of the quantity chosen; a click chooses its head."""
    found = {one.name: one for one in colourings(studied)}
    name = st.selectbox(
        here.text(COLOUR),
        list(found),
        format_func=lambda name: here.text(found[name].title),
        key="atlas.colour",
    )
    if name is None:
        return
    clicked = draw(found[name].figure, key=f"atlas.{name}", click=True)
    if clicked is not None:
        here.change(layer=clicked[0], head=clicked[1])


def _card(here: Here, found: Card) -> None:
    """What the head is, and what can be done with it."""
    head, left_out = found.head, here.state.out
    st.subheader(str(head))
    names = [here.text(words.name) for words in found.sets]
    if names:
        st.markdown(f"**{escaped(here.text(ONE_OF))}** {escaped(' · '.join(names))}")
    st.write(escaped(here.text(what_it_does(found))))
    if st.button(here.text(TAKE_BACK if head in left_out else LEAVE_OUT), key="atlas.out"):
        here.change(out=tuple(sorted({*left_out} ^ {head})))
    if st.button(here.text(OPEN), key="atlas.open", icon=":material/grid_on:"):
        here.open("attention")


def _evidence(here: Here, found: Card) -> None:
    """Every quantity of the head, in two columns where there is room."""
    st.subheader(f"{found.head} · {here.text(EVIDENCE)}")
    columns = st.columns(2, gap="medium")
    for place, one in enumerate(found.evidence):
        with columns[2 * place // max(len(found.evidence), 1)]:
            mark = "▣ " if one.outlined else ""
            st.markdown(
                f"{mark}{escaped(here.text(one.title))}  \n**{escaped(here.text(one.measured))}**",
                help=escaped(here.text(one.means)),
            )
            st.caption(escaped(here.text(one.more)))


def _at_work(here: Here) -> None:
    """The head on the present pair, and on the pairs that it matters for."""
    st.subheader(here.text(THIS_PAIR))
    here.stop_if_empty()
    maps = attention(here.model, here.state)
    for note in maps.notes:
        st.caption(here.text(note))
    for column, figure in zip(st.columns(max(1, len(maps.figures))), maps.figures, strict=False):
        with column:
            draw(figure, key=f"atlas.pair.{figure.name}")
    st.subheader(here.text(EXAMPLES))
    st.caption(here.text(about(here.model)))
    with st.spinner(here.text(WORKING)):
        found = strongest(here.model, here.state)
    for place, (column, one) in enumerate(zip(st.columns(SHOWN), found, strict=False)):
        with column:
            st.text(f"{one.query}\n{one.title}")
            st.caption(escaped(here.text(one.said)))
            for figure in one.maps(here.model, here.state).figures:
                draw(figure, key=f"atlas.example.{place}", bare=True)


main()
