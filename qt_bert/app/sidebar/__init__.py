"""The sidebar: what every page honours, one part a file.

A widget shows what the state says, in every run; what a visitor does with it changes the state, in
a callback, before the script runs. So there is one truth, and any widget may change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from qt_bert.app.sidebar import heads, model, pair, view
from qt_bert.app.sidebar import language as languages

if TYPE_CHECKING:
    from qt_bert.app.visit import Here
    from qt_bert.inspection.models import Shelf
    from qt_bert.inspection.state import State


def first(shelf: Shelf, state: State) -> None:
    """What needs no open model: the language, and which model."""
    languages.draw(shelf, state)
    model.draw(shelf, state)


def rest(here: Here) -> None:
    """The pair, the heads left out, and what is looked at."""
    pair.draw(here)
    st.divider()
    heads.draw(here)
    st.divider()
    view.draw(here)
