"""The figures of an evaluation, laid out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from qt_bert.app.draw import draw
from qt_bert.app.metric import metric
from qt_bert.app.tables import table
from qt_bert.app.words import escaped
from qt_bert.inspection.views import evaluation_tables as tables
from qt_bert.inspection.views import evaluation_words as words
from qt_bert.inspection.views.evaluation import Measured, PairRow
from qt_bert.inspection.views.phrases import AFTER, BEFORE, titles_cut
from qt_bert.results.numbers import interval, number, signed

if TYPE_CHECKING:
    from qt_bert.app.visit import Here


def show_evaluation(here: Here, found: Measured) -> None:
    """Headline figures, then every metric, level by level, single pairs, and what the heads change."""
    _headline(here, found)
    if found.truncated:
        st.caption(here.text(titles_cut(found.truncated, here.model.longest)))
    names = [words.METRICS_TAB, words.LEVELS_TAB, words.WORST_TAB]
    names += [words.HEADS_TAB] if found.differences else []
    tabs = st.tabs([here.text(name) for name in names])
    with tabs[0]:
        table(tables.metric_rows(found.plain), tables.COLUMNS, key="metrics")
        st.caption(here.text(words.METRICS_NOTE))
    with tabs[1]:
        _levels(here, found)
    with tabs[2]:
        _pairs(here, found.worst, "worst")
    if found.differences:
        with tabs[3]:
            rows = tables.difference_rows(found.differences)
            table(rows, tables.COLUMNS, key="differences", digits={"p": 4}, signed=("difference",))
            st.caption(here.text(words.DIFFERENCES_NOTE))
            st.markdown(f"**{here.text(words.CHANGED_PAIRS)}**")
            _pairs(here, found.changed, "changed")


def _headline(here: Here, found: Measured) -> None:
    headline = tables.headline(found)
    for column, one in zip(st.columns(max(len(headline), 1)), headline, strict=False):
        with column:
            metric(
                here.text(one.title),
                number(one.value),
                None if one.change is None else signed(one.change),
                about=here.text(one.base),
            )
            st.caption(escaped(interval(one.low, one.high)))
    st.caption(here.text(words.HEADLINE_OUT if found.out else words.HEADLINE))


def _levels(here: Here, found: Measured) -> None:
    """Confusion, reliability and figures by level, of both models side by side."""
    if found.plain.confusion is None:
        st.info(here.text(words.NO_LEVELS))
        return
    both = [(BEFORE, found.plain)]
    both += [(AFTER, found.without)] if found.without else []
    for place, (column, (name, one)) in enumerate(zip(st.columns(len(both)), both, strict=True)):
        with column:
            st.markdown(f"**{here.text(name)}**")
            for figure in tables.figures(one):
                draw(figure, key=f"{figure.name}.{place}")
            table(tables.level_rows(one), tables.COLUMNS, key=f"levels.{place}")


def _pairs(here: Here, rows: Sequence[PairRow], key: str) -> None:
    """Pairs to click: the front page then looks at the one that was clicked."""
    st.caption(here.text(words.CLICK))
    columns = tables.pair_columns(here.model.labels)
    chosen = table(tables.pair_rows(rows), columns, key=key, signed=("change",), select=True)
    if chosen is not None:
        pair = rows[chosen]
        here.open("focus", query=pair.query, title=pair.title)
