"""Which model is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from qt_bert.app import session
from qt_bert.app.sidebar import words
from qt_bert.app.words import say

if TYPE_CHECKING:
    from qt_bert.inspection.models import Shelf
    from qt_bert.inspection.state import State

KEY = "side-model"


def draw(shelf: Shelf, state: State) -> None:
    """The models on the shelf; another one keeps the pair, and leaves no heads out."""
    st.session_state[KEY] = state.model
    st.selectbox(
        say(words.MODEL),
        shelf.names,
        key=KEY,
        help=say(words.MODEL_HELP),
        on_change=lambda: session.change(shelf, model=st.session_state[KEY]),
    )
