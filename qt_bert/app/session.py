"""A visitor's state: in the session while it lives, and in the address for everybody else.

Streamlit empties the address on a change of page, and a page's own widgets rerun the script with
the address the browser had. So the session's state counts, and the address is written again; it is
read at a visitor's first run, and where it became another one under a living session (the back
button, a colleague's link).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from qt_bert.app.screens import script_of
from qt_bert.app.words import LANGUAGE, escaped, say
from qt_bert.results.text import Text

if TYPE_CHECKING:
    from qt_bert.inspection.models import Shelf
    from qt_bert.inspection.state import State

_STATE, _CHANGED, _FAULTS = "qt_bert.state", "qt_bert.changed", "qt_bert.faults"
_WRITTEN, _BEFORE, _WRITTEN_AT = "qt_bert.written", "qt_bert.before", "qt_bert.written_at"
_ON_ITS_WAY = 2.0
"""Seconds in which a browser may still answer with the address before the last one."""


def current() -> State:
    """The state of this session, which has begun."""
    state: State = st.session_state[_STATE]
    return state


def begin(shelf: Shelf, first: Callable[[], State]) -> State:
    """The state at the start of a run: the session's, or what the address says (from `first`)."""
    from qt_bert.inspection.state import read_state

    params = st.query_params.to_dict()
    state: State | None = st.session_state.get(_STATE)
    changed = st.session_state.pop(_CHANGED, False)
    if state is None or not (changed or _own(params)):
        state, faults = read_state(params, first(), shelf)
        _say_later(faults)
    _keep(state)
    write()
    return state


def change(shelf: Shelf, **fields: Any) -> None:
    """Change fields of the state, checked like a link; what does not fit stays as it was, and is said.

    For callbacks, after which Streamlit runs the script; elsewhere `Here.change`.
    """
    from qt_bert.inspection.state import KEYS, read_state

    state = current()
    asked = replace(state, **fields).to_query()
    new, faults = read_state({KEYS[field]: asked[KEYS[field]] for field in fields}, state, shelf)
    _say_later(faults)
    _keep(new)
    st.session_state[_CHANGED] = True


def go(shelf: Shelf, page: str, **fields: Any) -> None:
    """Change the state and open another page, such as `focus`, with it."""
    change(shelf, **fields)
    st.switch_page(script_of(page), query_params=current().to_query())


def write() -> None:
    """Bring the address up to the state."""
    wanted = current().to_query()
    session = st.session_state
    if session.get(_WRITTEN) != wanted:
        session[_BEFORE], session[_WRITTEN_AT] = session.get(_WRITTEN), time.monotonic()
        session[_WRITTEN] = wanted
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def say_faults() -> None:
    """Say what was wrong with a link or an input, once."""
    for fault in st.session_state.pop(_FAULTS, []):
        st.warning(escaped(say(fault)), icon=":material/link_off:")


def _own(params: dict[str, str]) -> bool:
    """Whether the address is what this session wrote, or was emptied by a change of page."""
    session = st.session_state
    if not params or params == session.get(_WRITTEN):
        return True
    fresh = time.monotonic() - session.get(_WRITTEN_AT, 0.0) < _ON_ITS_WAY
    return fresh and params == session.get(_BEFORE)


def _keep(state: State) -> None:
    st.session_state[_STATE] = state
    st.session_state[LANGUAGE] = state.language


def _say_later(faults: list[Text]) -> None:
    st.session_state[_FAULTS] = [*st.session_state.get(_FAULTS, []), *faults]
