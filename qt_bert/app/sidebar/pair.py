"""The pair: typed, a case, a row of the data that ships, or a row of an uploaded file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import streamlit as st

from qt_bert.app import session
from qt_bert.app.faults import fault_of
from qt_bert.app.sidebar import words
from qt_bert.app.words import escaped, say
from qt_bert.errors import QtBertError

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

    from qt_bert.app.visit import Here
    from qt_bert.inspection.sources import UploadedPairs

QUERY, TITLE, SOURCE, SPLIT, FILE = (
    "side-query",
    "side-title",
    "side-source",
    "side-split",
    "side-file",
)
_READ = "qt_bert.uploaded"
_SHOWN = 40
_SHOWN_REJECTS = 3


class _Texts(Protocol):
    @property
    def query(self) -> str: ...

    @property
    def title(self) -> str: ...


def draw(here: Here) -> None:
    """Two fields, and behind a fold the ways to fill them."""
    _field(here, "query", QUERY, say(words.QUERY))
    _field(here, "title", TITLE, say(words.TITLE))
    with st.expander(say(words.OTHER_PAIR), key="side-pair-box"):
        sources: dict[str, tuple[str, Callable[[Here], None]]] = {
            "cases": (say(words.CASES), _cases),
            "rows": (say(words.ROWS), _shipped),
            "file": (say(words.UPLOAD), _uploaded),
        }
        chosen = st.segmented_control(
            say(words.SOURCE),
            list(sources),
            format_func=lambda name: sources[name][0],
            label_visibility="collapsed",
            key=SOURCE,
        )
        if chosen != "file":
            st.session_state.pop(_READ, None)
        if chosen is not None:
            sources[chosen][1](here)


def _field(here: Here, field: str, key: str, label: str) -> None:
    st.session_state[key] = getattr(here.state, field)
    st.text_input(
        label,
        key=key,
        on_change=lambda: session.change(here.shelf, **{field: st.session_state[key]}),
    )


def _cases(here: Here) -> None:
    from qt_bert.inspection.sources import cases

    found = cases()
    _choose(here, "side-case", found, lambda i: _label(found[i]))


def _shipped(here: Here) -> None:
    from qt_bert.inspection.sources import shipped_rows

    names = {name: say(label) for name, label in words.SPLITS.items()}
    split = st.radio(
        say(words.SPLIT),
        list(names),
        format_func=names.__getitem__,
        horizontal=True,
        label_visibility="collapsed",
        key=SPLIT,
    )
    found = shipped_rows(split)
    _choose(here, f"side-row-{split}", found, lambda i: f"{found[i].line} · {_label(found[i])}")


def _uploaded(here: Here) -> None:
    from qt_bert.inspection.sources import UPLOADED_SUFFIXES

    file = st.file_uploader(
        say(words.FILE),
        type=[suffix.removeprefix(".") for suffix in UPLOADED_SUFFIXES],
        max_upload_size=10,
        key=FILE,
        help=say(words.FILE_HELP),
    )
    if file is None:
        st.session_state.pop(_READ, None)
        return
    try:
        read = _rows_of(file)
    except QtBertError as error:
        st.error(escaped(fault_of(error)), icon=":material/block:")
        return
    _say_read(read)
    found = read.pairs
    if found:
        _choose(
            here,
            f"side-row-{file.file_id}",
            found,
            lambda i: f"{found[i].line} · {_label(found[i])}",
        )
    st.caption(say(words.FILE_NO_LINK))


def _rows_of(file: UploadedFile) -> UploadedPairs:
    """The rows of this upload, read once: kept in the session while the file is there."""
    from qt_bert.inspection.sources import rows

    known, read = st.session_state.get(_READ, (None, None))
    if known != file.file_id or read is None:
        read = rows(file.getvalue(), file.name)
        st.session_state[_READ] = (file.file_id, read)
    return read


def uploaded_pairs() -> UploadedPairs | None:
    """The pairs of the file that this visitor has uploaded, while it is there."""
    _, read = st.session_state.get(_READ, (None, None))
    return read


def _say_read(read: UploadedPairs) -> None:
    st.caption(say(words.READ).format(total=read.total, offered=len(read.pairs)))
    if read.rejected:
        from qt_bert.inspection.file_faults import REASONS

        few = read.rejects[:_SHOWN_REJECTS]
        which = "; ".join(
            say(words.REJECT).format(line=r.line, reason=say(REASONS.get(r.reason, r.reason)))
            for r in few
        )
        more = " …" if read.rejected > len(few) else ""
        st.caption(escaped(say(words.REJECTED).format(n=read.rejected) + which + more))


def _choose(here: Here, key: str, pairs: Sequence[_Texts], label: Callable[[int], str]) -> None:
    """A list of pairs; it shows the one in the fields, if it is there."""
    now = (here.state.query, here.state.title)
    shown = st.session_state.get(key)
    if shown is None or (pairs[shown].query, pairs[shown].title) != now:
        at = (i for i, pair in enumerate(pairs) if (pair.query, pair.title) == now)
        st.session_state[key] = next(at, None)

    def changed() -> None:
        place = st.session_state[key]
        if place is not None:
            session.change(here.shelf, query=pairs[place].query, title=pairs[place].title)

    st.selectbox(
        say(words.CHOOSE),
        range(len(pairs)),
        index=None,
        format_func=label,
        placeholder=say(words.CHOOSE),
        label_visibility="collapsed",
        key=key,
        on_change=changed,
    )


def _label(pair: _Texts) -> str:
    return f"{_short(pair.query)} / {_short(pair.title)}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
