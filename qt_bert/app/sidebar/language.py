"""Chinese or English."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from qt_bert.app import session
from qt_bert.app.sidebar import words
from qt_bert.app.words import say

if TYPE_CHECKING:
    from qt_bert.inspection.models import Shelf
    from qt_bert.inspection.state import State

KEY = "side-language"
_NAMES = {"zh": "中文", "en": "English"}


def draw(shelf: Shelf, state: State) -> None:
    """The switch."""
    st.session_state[KEY] = state.language
    st.radio(
        say(words.LANGUAGE),
        list(_NAMES),
        format_func=_NAMES.__getitem__,
        horizontal=True,
        label_visibility="collapsed",
        key=KEY,
        on_change=lambda: session.change(shelf, language=st.session_state[KEY]),
    )
