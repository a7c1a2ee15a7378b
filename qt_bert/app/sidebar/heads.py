"""The heads left out: a set that the probes found, typed, or clicked on a grid; and what replaces them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from qt_bert.app import session
from qt_bert.app.faults import fault_of
from qt_bert.app.sidebar import grid, words
from qt_bert.app.words import escaped, say
from qt_bert.errors import QtBertError
from qt_bert.results.stability import set_label

if TYPE_CHECKING:
    from qt_bert.app.visit import Here
    from qt_bert.inspection.state import Head

SET, TYPED, MODE = "side-set", "side-out", "side-mode"
_FAULT = "qt_bert.out_fault"
_NONE, _OWN = "none", "own"


def draw(here: Here) -> None:
    """Every way to choose heads, then the replacement."""
    st.markdown(f"**{say(words.OUT)}**")
    _sets(here)
    _typed(here)
    with st.expander(say(words.GRID), expanded=False, key="side-grid-box"):
        grid.draw(here, lambda heads: _leave_out(here, heads))
    _clear(here)
    _modes(here)


def _sets(here: Here) -> None:
    sets = {} if here.studied is None else here.studied.sets
    stability = {} if here.studied is None else here.studied.stability
    out = set(here.state.out)
    same = [name for name, heads in sets.items() if set(heads) == out]
    known = st.session_state.get(SET)
    own = known if known in same else (same or [_OWN])[0]
    st.session_state[SET] = own if out else _NONE

    def changed() -> None:
        name = st.session_state[SET]
        if name != _OWN:
            _leave_out(here, () if name == _NONE else tuple(sorted(sets[name])))

    names = {_NONE: say(words.NO_HEADS)}
    names |= {
        name: say(words.SIZED).format(name=say(set_label(name, stability)), n=len(heads))
        for name, heads in sets.items()
    }
    names |= {_OWN: say(words.OWN_HEADS)}
    st.selectbox(
        say(words.SET), list(names), format_func=names.__getitem__, key=SET, on_change=changed
    )


def _typed(here: Here) -> None:
    fault, asked = st.session_state.get(_FAULT, (None, None))
    if asked != (here.state.model, here.state.out):  # the heads became others meanwhile
        fault = None
    if fault is None:
        st.session_state[TYPED] = " ".join(map(str, sorted(here.state.out)))

    def changed() -> None:
        from qt_bert.inspection.state import typed_heads

        try:
            heads = typed_heads(st.session_state[TYPED], here.model.shape)
        except QtBertError as error:
            st.session_state[_FAULT] = (fault_of(error), (here.state.model, here.state.out))
        else:
            _leave_out(here, heads)

    st.text_input(say(words.TYPED), key=TYPED, placeholder="L3H7 L2H1", on_change=changed)
    if fault is not None:
        st.error(escaped(fault))


def _clear(here: Here) -> None:
    st.button(
        say(words.CLEAR),
        key="side-clear",
        icon=":material/restart_alt:",
        type="tertiary",
        disabled=not here.state.out,
        on_click=lambda: _leave_out(here, ()),
    )


def _modes(here: Here) -> None:
    st.session_state[MODE] = here.state.mode
    names = {mode: say(name) for mode, name in words.MODES.items()}
    st.radio(
        say(words.MODE),
        list(names),
        format_func=names.__getitem__,
        horizontal=True,
        key=MODE,
        help=say(words.MODE_HELP),
        on_change=lambda: session.change(here.shelf, mode=st.session_state[MODE]),
    )


def _leave_out(here: Here, heads: tuple[Head, ...]) -> None:
    st.session_state.pop(_FAULT, None)
    session.change(here.shelf, out=heads)
