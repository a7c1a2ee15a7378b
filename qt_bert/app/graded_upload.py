"""Which graded file to evaluate: the test set that ships, or an upload with its columns and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from qt_bert.app.rejects import show_rejects
from qt_bert.app.words import escaped, say
from qt_bert.inspection.sources import UPLOADED_SUFFIXES
from qt_bert.inspection.views import evaluation_words as words
from qt_bert.inspection.views.graded_file import (
    FileFault,
    GradedFile,
    read_graded,
    shipped_graded,
)
from qt_bert.pairs import ReaderOptions

if TYPE_CHECKING:
    from qt_bert.app.visit import Here

SHIPPED, UPLOAD = "shipped", "upload"
_SOURCE, _FILE, _HELD, _READ = (
    "evaluate.source",
    "evaluate.file",
    "evaluate.held",
    "evaluate.read",
)
_COLUMNS, _GRADES = "evaluate.columns", "evaluate.grades"
_NO_HEADER, _MOST = "evaluate.no_header", "evaluate.max_rejects"


@dataclass(frozen=True)
class Asked:
    """A file as it was asked for; `name` is None for what ships. `key` tells it from others."""

    file: GradedFile
    options: ReaderOptions
    name: str | None
    key: Hashable


def asked_file(here: Here) -> Asked | None:
    """The file that the visitor chose; None where there is none yet, or it cannot be read: said."""
    _restore(_SOURCE, SHIPPED)
    names = {name: say(shown) for name, shown in words.SOURCES.items()}
    source = st.radio(
        say(words.SOURCE),
        list(names),
        format_func=names.__getitem__,
        horizontal=True,
        key=_SOURCE,
    )
    _keep(_SOURCE)
    labels, seed = here.model.labels, here.state.seed
    if source == SHIPPED:
        key = (SHIPPED, labels, seed)
        try:
            file = _once(key, lambda: shipped_graded(labels, seed))
        except FileFault as fault:
            st.error(escaped(say(fault.said)), icon=":material/block:")
            return None
        return Asked(file, ReaderOptions(), None, key)
    return _uploaded(here)


def _uploaded(here: Here) -> Asked | None:
    st.file_uploader(
        say(words.FILE),
        type=[suffix.removeprefix(".") for suffix in UPLOADED_SUFFIXES],
        max_upload_size=10,
        key=_FILE,
        help=say(words.FILE_HELP),
        on_change=_hold,
    )
    slots: dict[str, Any] = {"file": st.empty()}
    held = st.session_state.get(_HELD)
    if held is not None and st.session_state.get(_FILE) is None:
        st.caption(escaped(say(words.HELD).format(name=held[0])))
        st.button(say(words.FORGET), on_click=_forget, icon=":material/delete:")
    options = _options(slots)
    if held is None:
        return None
    here.no_link()
    name, data = held
    key = (hashlib.sha256(data).hexdigest(), name, options, here.model.labels, here.state.seed)
    try:
        file = _once(
            key, lambda: read_graded(data, name, options, here.model.labels, here.state.seed)
        )
    except FileFault as fault:
        slots[fault.field].error(escaped(say(fault.said)), icon=":material/block:")
        show_rejects(fault.rejects, len(fault.rejects))
        return None
    return Asked(file, options, name, key)


def _options(slots: dict[str, Any]) -> ReaderOptions:
    """The options of `qt-bert evaluate` as fields; beneath each a slot for what is wrong with it."""
    with st.expander(say(words.OPTIONS), expanded=True):
        left, right = st.columns(2)
        with left:
            columns = _text(
                _COLUMNS, words.COLUMNS, words.COLUMNS_HELP, "query=q,title=t,grade=label"
            )
            slots["columns"] = st.empty()
            _restore(_NO_HEADER, False)
            no_header = st.checkbox(say(words.NO_HEADER), key=_NO_HEADER)
        with right:
            grades = _text(_GRADES, words.GRADES, words.GRADES_HELP, "0=1-2,1=3-4,2=5")
            slots["grades"] = st.empty()
            _restore(_MOST, 1.0)
            most = st.number_input(
                say(words.MAX_REJECTS), 0.0, 100.0, step=1.0, key=_MOST, help=say(words.MAX_HELP)
            )
    for key in (_COLUMNS, _GRADES, _NO_HEADER, _MOST):
        _keep(key)
    return ReaderOptions(columns or None, no_header, grades or None, round(most / 100, 6))


def _text(key: str, label: Any, help_: Any, example: str) -> str:
    _restore(key, "")
    typed = st.text_input(say(label), key=key, help=say(help_), placeholder=example, max_chars=500)
    return typed.strip()


def _hold() -> None:
    """Keep the upload in the session alone: a change of page forgets the widget."""
    file = st.session_state[_FILE]
    if file is None:
        _forget()
    else:
        st.session_state[_HELD] = (file.name, file.getvalue())


def _forget() -> None:
    for key in (_HELD, _READ):
        st.session_state.pop(key, None)


def _once(key: Hashable, read: Any) -> GradedFile:
    """What `read` gives or raises, kept in the session while the key is the same."""
    known = st.session_state.get(_READ)
    if known is None or known[0] != key:
        try:
            known = (key, read())
        except FileFault as fault:
            known = (key, fault)
        st.session_state[_READ] = known
    found = known[1]
    if isinstance(found, FileFault):
        raise found
    return found  # type: ignore[no-any-return]


def _restore(key: str, default: Any) -> None:
    """A widget's value from before a change of page, which makes Streamlit forget it."""
    kept: Mapping[str, Any] = st.session_state.get("evaluate.kept", {})
    st.session_state.setdefault(key, kept.get(key, default))


def _keep(key: str) -> None:
    st.session_state.setdefault("evaluate.kept", {})[key] = st.session_state[key]
