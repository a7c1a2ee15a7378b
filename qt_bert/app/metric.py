"""One number in large type, with its name and what became of it."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from qt_bert.app.words import escaped

_MINUS = "\N{MINUS SIGN}"


def metric(name: str, value: str, change: str | None = None, *, about: str | None = None) -> None:
    """Show `value` under `name`, which takes as many lines as it needs, and `change` with an arrow.

    Value and change are as `number` and `signed` spell them; `about` is told where one asks.
    """
    with st.container(gap=None):
        st.caption(escaped(name), help=None if about is None else escaped(about))
        st.metric(
            escaped(name),
            value,
            change,
            delta_color="off",
            delta_arrow=_arrow(change),
            label_visibility="collapsed",
        )


def _arrow(change: str | None) -> Literal["up", "down", "off"]:
    """Streamlit would take the sign of a change from keyboards' hyphen alone."""
    if change is None or change[0] not in f"+{_MINUS}":
        return "off"
    return "down" if change.startswith(_MINUS) else "up"
