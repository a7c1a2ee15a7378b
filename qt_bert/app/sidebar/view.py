"""The layer and head looked at, the seed, and where the named sets come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from qt_bert.app import session
from qt_bert.app.sidebar import words
from qt_bert.app.words import escaped, say

if TYPE_CHECKING:
    from qt_bert.app.visit import Here

MOST_SEED = 2**31 - 1


def draw(here: Here) -> None:
    """Three numbers, and a line on the results."""
    st.markdown(f"**{say(words.VIEW)}**")
    shape = here.model.shape
    left, right = st.columns(2)
    with left:
        _number(here, "layer", say(words.LAYER), shape.layers - 1)
    with right:
        _number(here, "head", say(words.HEAD), shape.heads - 1)
    _number(here, "seed", say(words.SEED), MOST_SEED, say(words.SEED_HELP))
    studied = here.studied
    if studied is None:
        st.caption(say(words.NO_RESULTS))
    else:
        st.caption(escaped(say(words.RESULTS).format(origin=say(studied.origin))))
    for why in here.looked.refused:
        st.caption(escaped(say(why)))


def _number(here: Here, field: str, label: str, most: int, tip: str | None = None) -> None:
    key = f"side-{field}"
    st.session_state[key] = getattr(here.state, field)

    def changed() -> None:
        session.change(here.shelf, **{field: int(st.session_state[key] or 0)})

    st.number_input(
        label, min_value=0, max_value=most, step=1, key=key, help=tip, on_change=changed
    )
