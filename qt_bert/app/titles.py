"""The titles that a visitor wants ranked: typed, of a query that ships, or of an uploaded file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from qt_bert.app import visit
from qt_bert.app.sidebar import uploaded_pairs
from qt_bert.app.words import escaped, say
from qt_bert.inspection import inputs
from qt_bert.inspection.views import ranking as words
from qt_bert.inspection.views.ranking import (
    Title,
    default_titles,
    queries_of,
    titles_of,
    typed_titles,
    written,
)

if TYPE_CHECKING:
    from qt_bert.app.visit import Here
    from qt_bert.data.pairs import Pair

_AREA, _TYPED = "ranking.titles", "ranking.typed"
_SHIPPED, _OF_FILE = "ranking.shipped", "ranking.of_file"
_ROW, _LEAST, _MOST = 26, 5, 14
"""Pixels of a line of the text area, and how many lines it shows."""


def asked_titles(here: Here) -> list[Title]:
    """The titles to rank under the state's query, with what had to be changed of them said."""
    _other_ways(here)
    state, store = here.state, st.session_state
    default = written(
        default_titles(state.query, state.title, inputs.shipped_rows("test"), state.seed)
    )
    known = store.get(_TYPED)
    store[_AREA] = known[1] if known and _goes_on(known, state.query) else default
    text = st.text_area(
        say(words.TITLES),
        key=_AREA,
        height=_ROW * min(max(st.session_state[_AREA].count("\n") + 3, _LEAST), _MOST),
        help=say(words.TITLES_HELP),
        on_change=_typed,
    )
    store[_TYPED] = (state.query, text, default)
    if text != default:
        st.caption(say(words.NOT_IN_LINK))
    titles, faults = typed_titles(text or "", here.model.labels)
    for fault in faults:
        st.warning(escaped(say(fault)), icon=":material/edit_off:")
    return titles


def _goes_on(known: tuple[str | None, str, str], query: str) -> bool:
    """Whether what stands in the area is the visitor's own, and for this query (None: for any)."""
    return known[0] in (query, None) and known[1] != known[2]


def _typed() -> None:
    """Keep what was typed: it outlives the widget, which a change of page forgets."""
    store = st.session_state
    query, _, default = store[_TYPED]
    store[_TYPED] = (query, store[_AREA], default)


def _other_ways(here: Here) -> None:
    with st.expander(say(words.MORE_WAYS), icon=":material/library_books:"):
        queries = queries_of(inputs.shipped_rows("test"))
        st.selectbox(
            say(words.SHIPPED),
            queries,
            index=None,
            key=_SHIPPED,
            on_change=lambda: _take_shipped(here),
        )
        read = uploaded_pairs()
        if read is None:
            st.caption(say(words.UPLOAD))
        else:
            _file_queries(here, read.pairs)


def _take_shipped(here: Here) -> None:
    query = st.session_state[_SHIPPED]
    if query is not None:
        title = titles_of(inputs.shipped_rows("test"), query)[0].text
        st.session_state.pop(_TYPED, None)
        visit.change(here.shelf, query=query, title=title)


def _file_queries(here: Here, pairs: Sequence[Pair]) -> None:
    """Offer the queries of an uploaded file; the chosen one's titles go into the text area."""
    queries = queries_of(pairs)
    if not queries:
        st.info(say(words.NOTHING_IN_FILE))
        return

    def take() -> None:
        query = st.session_state[_OF_FILE]
        if query is not None:
            titles = titles_of(pairs, query)
            # The state may hold the query cleaned; whichever it is then, these are its titles.
            st.session_state[_TYPED] = (None, written(titles), "")
            visit.change(here.shelf, query=query, title=titles[0].text)

    st.selectbox(say(words.OF_FILE), queries, index=None, key=_OF_FILE, on_change=take)
    here.no_link()
