"""CLS focus: where one head's [CLS] looks, with and without other heads, and what becomes of the grade."""

from __future__ import annotations

import streamlit as st

from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import metric, table
from qt_bert.app.words import escaped
from qt_bert.inspection.views import focus as texts
from qt_bert.inspection.views.atlas import NO_RUN, TITLE, routes
from qt_bert.inspection.views.focus import Focus, Shift, focus

IN_FRONT = 3  # measures of the row that stand at the top, beside the grade


def main() -> None:
    """Lay out the page; a click on the layer, at its foot, is looked at before the rest is drawn."""
    here = visit()
    here.stop_if_empty()
    seen = focus(here.model, here.state)
    top, foot = st.container(), st.container()
    with foot:
        _layer(here, seen)
        _routes(here)
    with top:
        _row(here, seen)


def _row(here: Here, seen: Focus) -> None:
    """The chosen head: what is left out, its row, the grade, all numbers."""
    st.header(escaped(here.text(texts.title(seen))))
    st.caption(escaped(here.text(texts.intro(seen, here.state.mode, here.state.seed))))
    for note in seen.notes:
        st.info(escaped(here.text(note)), icon=":material/info:")
    _numbers_in_front(here, seen)
    draw(seen.tokens, key="focus.tokens")
    if seen.change is not None:
        draw(seen.change, key="focus.change")
    row, grades = st.columns([3, 2], gap="large")
    with row:
        draw(seen.bars, key="focus.bars")
    with grades:
        if seen.grades is not None:
            draw(seen.grades, key="focus.grades")
    st.subheader(here.text(texts.NUMBERS))
    table([texts.row(one) for one in _all(seen)], texts.COLUMNS, key="focus.numbers")
    meanings = filter(None, map(texts.meaning, seen.shifts))
    st.caption("  \n".join(escaped(here.text(one)) for one in meanings))


def _all(seen: Focus) -> list[Shift]:
    return [*([seen.score] if seen.score else []), *seen.shifts]


def _numbers_in_front(here: Here, seen: Focus) -> None:
    """Without the heads, what that changes, and beside it the whole model and random heads."""
    shown = [*([seen.score] if seen.score else []), *seen.shifts[:IN_FRONT]]
    for column, shift in zip(st.columns(len(shown)), shown, strict=True):
        with column:
            metric(
                here.text(texts.named(shift)),
                texts.value(shift),
                texts.delta(shift),
                about=None if shift.about is None else here.text(shift.about),
            )
            if shift.after is not None:
                st.caption(escaped(here.text(texts.beside(shift))))
            predicted = texts.predicted(seen) if shift is seen.score else None
            if predicted is not None:
                st.caption(escaped(here.text(predicted)))


def _layer(here: Here, seen: Focus) -> None:
    """The rows of all heads of the layer, to choose one from."""
    st.subheader(here.text(texts.ALL_HEADS))
    way = "before"
    if len(seen.layer) > 1:
        names = {one: here.text(texts.WAYS[one]) for one in seen.layer}
        chosen = st.segmented_control(
            here.text(texts.WAY),
            list(names),
            default="change",
            format_func=names.__getitem__,
            key="focus.way",
        )
        way = chosen or "change"
    st.caption(here.text(texts.CHOOSE))
    clicked = draw(seen.layer[way], key="focus.layer", click=True)
    if clicked is not None:
        here.change(head=clicked[0])


def _routes(here: Here) -> None:
    """Along which ways the matching heads reach the reader, of the run that is open."""
    found = routes(here.model, here.studied)
    st.subheader(here.text(TITLE))
    if found.said is not None:
        st.write(escaped(here.text(found.said)))
    for column, graph in zip(st.columns(max(len(found.graphs), 1)), found.graphs, strict=False):
        with column:
            draw(graph, key=f"focus.{graph.name}")
    if found.commands:
        st.caption(here.text(NO_RUN))
        st.code("\n".join(found.commands), language=None, wrap_lines=True)


main()
