"""Attention: any head's map, with heads left out, before and after fine-tuning; all heads in small."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import metric
from qt_bert.app.words import escaped
from qt_bert.inspection.views import attention as texts
from qt_bert.inspection.views.all_heads import WAYS, all_heads
from qt_bert.inspection.views.attention import PARTS, WHOLE, Maps, attention, last_start, tuning
from qt_bert.text import Text, number

NARROW = 20  # columns of a map that can be read in half the page


def main() -> None:
    """Lay out the page; a click on the grid, at its foot, is looked at before the rest is drawn."""
    here = visit()
    here.stop_if_empty()
    st.header(here.text(texts.TITLE))
    parts = {name: one.name for name, one in PARTS.items()}
    part = _chosen(here, texts.PART, parts, WHOLE, "attention.part")
    comparison = _chosen(here, texts.COMPARE, texts.COMPARISONS, "out", "attention.compare")
    maps, foot = st.container(), st.container()
    with foot:
        _all_heads(here, part)
    with maps:
        _maps(here, part, comparison)


def _maps(here: Here, part: str, comparison: str) -> None:
    """The chosen head's maps, two beside each other where there is room."""
    last = last_start(here.model, here.state, part)
    start = st.slider(here.text(texts.START), 0, last, key=f"attention.start.{last}") if last else 0
    seen = _seen(here, part, comparison, start)
    st.caption(escaped(here.text(texts.intro(seen, here.model))))
    for note in seen.notes:
        st.info(escaped(here.text(note)), icon=":material/info:")
    if part != WHOLE:
        _numbers(here, seen)
    beside = 2 if all(len(one.columns) <= NARROW for one in seen.figures) else 1
    for place in range(0, len(seen.figures), beside):
        row = seen.figures[place : place + beside]
        for column, figure in zip(st.columns(len(row)), row, strict=True):
            with column:
                draw(figure, key=f"attention.{figure.name}")


def _chosen(here: Here, label: Text, options: Mapping[str, Text], default: str, key: str) -> str:
    """One of a few named options."""
    names = {option: escaped(here.text(name)) for option, name in options.items()}
    chosen = st.segmented_control(
        here.text(label), list(names), default=default, format_func=names.__getitem__, key=key
    )
    return chosen or default


def _seen(here: Here, part: str, comparison: str, start: int) -> Maps:
    if comparison == "tuning":
        if here.base is not None:
            return tuning(here.model, here.base, here.state, part, start)
        st.caption(here.text(texts.NO_BASE))
    return attention(here.model, here.state, part, start)


def _numbers(here: Here, seen: Maps) -> None:
    for column, one in zip(st.columns(2), seen.given, strict=False):
        with column:
            metric(here.text(texts.given(one)), number(one.value, 1))


def _all_heads(here: Here, part: str) -> None:
    """All heads in small, and a grid to choose one from."""
    st.subheader(here.text(texts.ALL_HEADS))
    way = "before"
    if here.state.out:
        way = _chosen(here, texts.WAY, WAYS, "before", "attention.way")
    seen = all_heads(here.model, here.state, part, way)
    grid, picture = st.columns(2, gap="large")
    with grid:
        clicked = draw(seen.grid, key="attention.grid", click=True)
    with picture:
        st.image(seen.picture, width="stretch")
        st.caption(here.text(seen.note))
        st.download_button(
            here.text(texts.SAVE),
            seen.picture,
            file_name="heads.png",
            mime="image/png",
            icon=":material/download:",
            key="attention.save",
            on_click="ignore",
        )
    if clicked is not None:
        here.change(layer=clicked[0], head=clicked[1])


main()
