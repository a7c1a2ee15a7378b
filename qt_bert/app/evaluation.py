"""The page Evaluate: which graded file, and its figures, laid out."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from qt_bert.app.figures import draw
from qt_bert.app.widgets import metric, show_rejects, table
from qt_bert.app.words import escaped, say
from qt_bert.data.reader import ReaderOptions
from qt_bert.inspection.inputs import UPLOADED_SUFFIXES
from qt_bert.inspection.views import evaluation as words
from qt_bert.inspection.views.evaluation import (
    FileFault,
    GradedFile,
    Measured,
    PairRow,
    read_graded,
    shipped_graded,
)
from qt_bert.inspection.views.phrases import AFTER, BEFORE, titles_cut
from qt_bert.text import interval, number, signed

if TYPE_CHECKING:
    from qt_bert.app.visit import Here


# Which graded file to evaluate: the test set that ships, or an upload with its columns and labels.


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
class ChosenFile:
    """A file as it was asked for; `name` is None for what ships. `key` tells it from others."""

    file: GradedFile
    options: ReaderOptions
    name: str | None
    key: Hashable


def asked_file(here: Here) -> ChosenFile | None:
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
        return ChosenFile(file, ReaderOptions(), None, key)
    return _uploaded(here)


def _uploaded(here: Here) -> ChosenFile | None:
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
    return ChosenFile(file, options, name, key)


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


# The figures of an evaluation, laid out.


def show_evaluation(here: Here, found: Measured) -> None:
    """Headline figures, then every metric, level by level, single pairs, and what the heads change."""
    _headline(here, found)
    if found.truncated:
        st.caption(here.text(titles_cut(found.truncated, here.model.longest)))
    names = [words.METRICS_TAB, words.LEVELS_TAB, words.WORST_TAB]
    names += [words.HEADS_TAB] if found.differences else []
    tabs = st.tabs([here.text(name) for name in names])
    with tabs[0]:
        table(words.metric_rows(found.plain), words.TABLE_COLUMNS, key="metrics")
        st.caption(here.text(words.METRICS_NOTE))
    with tabs[1]:
        _levels(here, found)
    with tabs[2]:
        _pairs(here, found.worst, "worst")
    if found.differences:
        with tabs[3]:
            rows = words.difference_rows(found.differences)
            table(
                rows,
                words.TABLE_COLUMNS,
                key="differences",
                digits={"p": 4},
                signed=("difference",),
            )
            st.caption(here.text(words.DIFFERENCES_NOTE))
            st.markdown(f"**{here.text(words.CHANGED_PAIRS)}**")
            _pairs(here, found.changed, "changed")


def _headline(here: Here, found: Measured) -> None:
    headline = words.headline(found)
    for column, one in zip(st.columns(max(len(headline), 1)), headline, strict=False):
        with column:
            metric(
                here.text(one.title),
                number(one.value),
                None if one.change is None else signed(one.change),
                about=here.text(one.base),
            )
            st.caption(escaped(interval(one.low, one.high)))
    st.caption(here.text(words.HEADLINE_OUT if found.out else words.HEADLINE))


def _levels(here: Here, found: Measured) -> None:
    """Confusion, reliability and figures by level, of both models side by side."""
    if found.plain.confusion is None:
        st.info(here.text(words.NO_LEVELS))
        return
    both = [(BEFORE, found.plain)]
    both += [(AFTER, found.without)] if found.without else []
    for place, (column, (name, one)) in enumerate(zip(st.columns(len(both)), both, strict=True)):
        with column:
            st.markdown(f"**{here.text(name)}**")
            for figure in words.figures(one):
                draw(figure, key=f"{figure.name}.{place}")
            table(words.level_rows(one), words.TABLE_COLUMNS, key=f"levels.{place}")


def _pairs(here: Here, rows: Sequence[PairRow], key: str) -> None:
    """Pairs to click: the front page then looks at the one that was clicked."""
    st.caption(here.text(words.CLICK))
    columns = words.pair_columns(here.model.labels)
    chosen = table(words.pair_rows(rows), columns, key=key, signed=("change",), select=True)
    if chosen is not None:
        pair = rows[chosen]
        here.open("focus", query=pair.query, title=pair.title)
