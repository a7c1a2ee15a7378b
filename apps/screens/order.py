"""Order: shuffle a text, and see what its grade loses, with and without the heads that carry order."""

from __future__ import annotations

import streamlit as st

from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import metric, table
from qt_bert.app.words import escaped
from qt_bert.inspection.views import order as texts
from qt_bert.inspection.views.order import (
    CASE,
    TYPED,
    HeadSet,
    Order,
    Shuffled,
    distributions,
    draws,
    draws_map,
    head_sets,
    headline,
    order,
    rows,
    shuffled,
    spread,
    spread_bars,
    text_figure,
)
from qt_bert.inspection.views.phrases import NO_GRADES


def main() -> None:
    """Lay out the page."""
    here = visit()
    here.stop_if_empty()
    st.header(here.text(texts.TITLE))
    st.caption(here.text(texts.INTRO))
    st.caption(here.text(texts.trained(here.model)))
    if not here.model.classifies:
        st.info(here.text(NO_GRADES))
        return
    kind, pair = _asked(here)
    if pair is None:
        st.info(here.text(texts.NO_ORDER))
        return
    draw(text_figure(pair), key="order.text")
    if here.studied is None:
        st.caption(here.text(texts.NO_STUDY))
    studied = here.studied
    sets = head_sets(
        studied.sets if studied else {},
        here.state.out,
        studied.stability if studied else None,
    )
    _grades(here, order(here.model, pair, sets, mode=here.state.mode, seed=here.state.seed))
    _several(here, pair, kind, sets)


def _asked(here: Here) -> tuple[str, Shuffled | None]:
    """The kind of order that the visitor asks for, and the pair in it, if there is one."""
    if st.button(here.text(texts.ARTICLE), icon=":material/article:", key="order.article"):
        query, title, text = CASE
        st.session_state.update({"order.side": "title", "order.kind": TYPED, "order.typed": text})
        here.change(query=query, title=title)
    state = here.state
    left, right = st.columns(2)
    side = left.radio(
        here.text(texts.SIDE),
        list(texts.SIDE_NAMES),
        format_func=lambda name: here.text(texts.SIDE_NAMES[name]),
        horizontal=True,
        key="order.side",
    )
    kind = right.selectbox(
        here.text(texts.KIND),
        list(texts.KIND_NAMES),
        format_func=lambda name: here.text(texts.KIND_NAMES[name]),
        key="order.kind",
    )
    if kind == TYPED:
        typed = st.text_input(here.text(texts.OWN_TEXT), key="order.typed", max_chars=1000)
        pair = Shuffled.typed(state.query, state.title, side, typed)
        if pair is not None and pair.difference is not None:
            st.caption(escaped(here.text(pair.difference)))
        return kind, pair
    if st.button(here.text(texts.AGAIN), key="order.again", help=here.text(texts.AGAIN_HELP)):
        here.change(seed=state.seed + 1)
    return kind, shuffled(
        here.model, state.query, state.title, side=side, kind=kind, seed=state.seed
    )


def _grades(here: Here, found: Order) -> None:
    """Expected grades and changes of the plain model and of each set, then the distributions."""
    st.caption(here.text(texts.score_line(found)))
    said = headline(found)
    for column, one in zip(st.columns(len(said)), said, strict=True):
        with column:
            about = here.text(texts.DELTA) if one.change else None
            metric(here.text(one.name), one.value, one.change, about=about)
    draw(distributions(found), key="order.grades")
    table(rows(found), texts.COLUMNS, key="order.table", signed=("change",))
    for note in texts.notes(found):
        st.caption(here.text(note))


def _several(here: Here, pair: Shuffled, kind: str, sets: list[HeadSet]) -> None:
    """The change over several draws of the kind (of characters, where the order was typed)."""
    st.subheader(here.text(texts.SEVERAL))
    model, seed = here.model, here.state.seed
    kind = "characters" if kind == TYPED else kind
    drawn = draws(model, pair.query, pair.title, side=pair.side, kind=kind, seed=seed)
    if not drawn:
        st.info(here.text(texts.NO_ORDER))
        return
    found = spread(model, drawn, sets, mode=here.state.mode)
    draw(spread_bars(found, model.labels), key="order.draws")
    with st.expander(here.text(texts.EVERY)):
        draw(draws_map(found, model.labels, seed), key="order.each")


main()
