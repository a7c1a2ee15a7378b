"""Who looks at what: a visitor's state, and the models and results that visitors share."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import streamlit as st

from qt_bert.app.launch import Settings
from qt_bert.app.widgets import LANGUAGE, escaped, info, say
from qt_bert.errors import QtBertError
from qt_bert.text import Text

if TYPE_CHECKING:
    from qt_bert.inspection.inspected import Inspected
    from qt_bert.inspection.models import Shelf
    from qt_bert.inspection.state import State
    from qt_bert.inspection.study import Looked, Studied


# The pages there are, by file name, in the order of the navigation; the first is the front page.
# Their folder is not called `pages`: beside a script, Streamlit takes a folder of that name for its
# older kind of navigation, and would show a page without the frame.


SCREENS = {
    "focus": (Text("[CLS] 注意力", "CLS focus"), ":material/center_focus_strong:"),
    "attention": (Text("注意力图", "Attention"), ":material/grid_on:"),
    "atlas": (Text("头图谱", "Atlas"), ":material/map:"),
    "words": (Text("分词", "Words"), ":material/text_fields:"),
    "order": (Text("语序", "Order"), ":material/swap_horiz:"),
    "ranking": (Text("排序", "Ranking"), ":material/format_list_numbered:"),
    "behaviour": (Text("行为卡", "Behaviour"), ":material/rule:"),
    "evaluate": (Text("评测", "Evaluate"), ":material/fact_check:"),
}


def script_of(name: str) -> str:
    """The script of a page, from the entry's folder."""
    return f"screens/{name}.py"


# A visitor's state: in the session while it lives, and in the address for everybody else.
#
# Streamlit empties the address on a change of page, and a page's own widgets rerun the script with
# the address the browser had. So the session's state counts, and the address is written again. It is
# read at a visitor's first run, and where it became another one under a living session (the back
# button, a colleague's link).


_STATE, _CHANGED, _FAULTS = "qt_bert.state", "qt_bert.changed", "qt_bert.faults"
_WRITTEN, _BEFORE, _WRITTEN_AT = "qt_bert.written", "qt_bert.before", "qt_bert.written_at"
_ON_ITS_WAY = 2.0
"""Seconds in which a browser may still answer with the address before the last one."""


def current() -> State:
    """The state of this session, which has begun."""
    state: State = st.session_state[_STATE]
    return state


def begin(shelf: Shelf, first: Callable[[], State]) -> State:
    """The state at the start of a run: the session's, or what the address says (from `first`)."""
    from qt_bert.inspection.state import read_state

    params = st.query_params.to_dict()
    state: State | None = st.session_state.get(_STATE)
    changed = st.session_state.pop(_CHANGED, False)
    if state is None or not (changed or _own(params)):
        state, faults = read_state(params, first(), shelf)
        _say_later(faults)
    _keep(state)
    write()
    return state


def change(shelf: Shelf, **fields: Any) -> None:
    """Change fields of the state, checked like a link; what does not fit stays as it was, and is said.

    For callbacks, after which Streamlit runs the script; elsewhere `Here.change`.
    """
    from qt_bert.inspection.state import KEYS, read_state

    state = current()
    asked = replace(state, **fields).to_query()
    new, faults = read_state({KEYS[field]: asked[KEYS[field]] for field in fields}, state, shelf)
    _say_later(faults)
    _keep(new)
    st.session_state[_CHANGED] = True


def go(shelf: Shelf, page: str, **fields: Any) -> None:
    """Change the state and open another page, such as `focus`, with it."""
    change(shelf, **fields)
    st.switch_page(script_of(page), query_params=current().to_query())


def write() -> None:
    """Bring the address up to the state."""
    wanted = current().to_query()
    session = st.session_state
    if session.get(_WRITTEN) != wanted:
        session[_BEFORE], session[_WRITTEN_AT] = session.get(_WRITTEN), time.monotonic()
        session[_WRITTEN] = wanted
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def say_faults() -> None:
    """Say what was wrong with a link or an input, once."""
    for fault in st.session_state.pop(_FAULTS, []):
        st.warning(escaped(say(fault)), icon=":material/link_off:")


def _own(params: dict[str, str]) -> bool:
    """Whether the address is what this session wrote, or was emptied by a change of page."""
    session = st.session_state
    if not params or params == session.get(_WRITTEN):
        return True
    fresh = time.monotonic() - session.get(_WRITTEN_AT, 0.0) < _ON_ITS_WAY
    return fresh and params == session.get(_BEFORE)


def _keep(state: State) -> None:
    st.session_state[_STATE] = state
    st.session_state[LANGUAGE] = state.language


def _say_later(faults: list[Text]) -> None:
    st.session_state[_FAULTS] = [*st.session_state.get(_FAULTS, []), *faults]


# Models and results, opened once a process and shared by all visitors.


_log = logging.getLogger(__name__)
_LOCK = threading.RLock()
_LOOKED: WeakKeyDictionary[Inspected, Looked] = WeakKeyDictionary()


def shelf_of(settings: Settings) -> Shelf:
    """The models that this server offers. Raises ArgumentError where there is none."""
    with _LOCK:
        return _shelf(settings)


def studied_of(inspected: Inspected, settings: Settings) -> Looked:
    """The stored results on one model, and why others were refused."""
    from qt_bert.inspection.study import look_for_studied

    with _LOCK:
        if inspected not in _LOOKED:
            _LOOKED[inspected] = look_for_studied(inspected, settings.run)
        return _LOOKED[inspected]


def warm(settings: Settings, listening: Callable[[], bool]) -> threading.Thread:
    """Import torch and open the first model in the background, while the browser connects.

    Then its base, and its mean head outputs. Begins once the server is `listening`, which
    it would be later for it. A fault is left to the page, which meets it again and says it.
    """

    def work() -> None:
        for _ in range(100):
            if listening():
                break
            time.sleep(0.1)
        try:
            shelf = shelf_of(settings)
            model = shelf.open(shelf.names[0])
            studied_of(model, settings)
            if (base := shelf.base_of(model.name)) is not None:
                shelf.open(base)
            _set_aside()
            model.part(model.shape.all_heads[:1], "mean")
        except QtBertError as error:
            _log.warning("%s", error)
        _set_aside()

    thread = threading.Thread(target=work, name="opening the model", daemon=True)
    thread.start()
    return thread


def _set_aside() -> None:
    """Take what is there for good, libraries and models, out of the garbage collector's sight.

    Streamlit collects all garbage at the end of every run, and looking through torch and
    transformers for it takes longer (0.3 s) than the run itself.
    """
    gc.collect()
    gc.freeze()


@lru_cache(maxsize=8)
def _shelf(settings: Settings) -> Shelf:
    from qt_bert.inspection.models import Shelf

    return Shelf(settings.models, base=settings.base)


# Who looks at what: the one thing a page asks for.


@dataclass(frozen=True, kw_only=True)
class Here:
    """One run of one visitor's page: the model, the state, the results."""

    settings: Settings
    shelf: Shelf
    model: Inspected
    state: State

    @property
    def language(self) -> str:
        """`zh` or `en`."""
        return self.state.language

    @cached_property
    def base(self) -> Inspected | None:
        """The model before fine-tuning, where the shelf knows it; opened when first asked for."""
        name = self.shelf.base_of(self.state.model)
        return None if name is None else self.shelf.open(name)

    @cached_property
    def looked(self) -> Looked:
        """The stored results on this model, and in words which were refused."""
        return studied_of(self.model, self.settings)

    @property
    def studied(self) -> Studied | None:
        """What the probes found for this model, where it is stored or was computed here."""
        from qt_bert.inspection.study import computed_here

        return self.looked.studied or computed_here(self.model)

    def change(self, **fields: Any) -> None:
        """Change fields of the state, and with it the address; the script runs anew."""
        change(self.shelf, **fields)
        write()
        st.rerun()

    def open(self, page: str, **fields: Any) -> None:
        """Change fields of the state, and look at another page, such as `focus`, with it."""
        go(self.shelf, page, **fields)

    def stop_if_empty(self) -> None:
        """End the page with a word where query or title is empty."""
        if self.state.empty:
            info(
                "请在左栏输入查询和标题，两者都不能为空。",
                "Enter a query and a title on the left; neither may be empty.",
                icon=":material/edit:",
            )
            st.stop()


def visit() -> Here:
    """This run of this visitor, once the entry has read the address (`arrive`).

    Raises ArgumentError or CheckpointError where the model cannot be opened.
    """
    settings = Settings.read()
    shelf = shelf_of(settings)
    state = current()
    return Here(settings=settings, shelf=shelf, model=shelf.open(state.model), state=state)


def arrive(settings: Settings, shelf: Shelf) -> State:
    """Read the address at the start of a run; a first visit shows what the shelf's first model shows."""

    def first() -> State:
        from dataclasses import replace

        from qt_bert.inspection.state import first_state

        model = shelf.open(shelf.names[0])
        state = first_state(shelf, studied_of(model, settings).studied)
        return replace(state, language=settings.language)

    return begin(shelf, first)
