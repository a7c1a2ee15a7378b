"""Errors as a visitor sees them: a plain word, never a trace."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from qt_bert.app import words
from qt_bert.app.words import escaped, say
from qt_bert.errors import QtBertError
from qt_bert.results.text import Text

_log = logging.getLogger(__name__)


@contextmanager
def told() -> Iterator[None]:
    """Say an input's fault in plain words; log an unexpected error, and say that there was one.

    The entry runs every page in it. A function of `st.fragment` runs alone, and needs it too (it
    may stand above it as a decorator: `@st.fragment` first, then `@told()`).
    """
    try:
        yield
    except QtBertError as error:
        tell(error)
    except Exception:
        _log.exception("a page failed")
        st.error(say(words.UNEXPECTED), icon=":material/error:")


def tell(error: QtBertError) -> None:
    """Say an input's fault where it stands."""
    st.error(say(words.REFUSED) + escaped(fault_of(error)), icon=":material/block:")


def fault_of(error: QtBertError) -> str:
    """What is wrong, in the visitor's language where the error knows it."""
    said = getattr(error, "said", None)
    return say(said) if isinstance(said, Text) else str(error)
