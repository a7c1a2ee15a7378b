"""A visitor's state and address, and the models and results that all visitors share."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import streamlit as st

from qt_bert.page.model import ModelPool, SharedModel
from qt_bert.page.results import HeadResults, find_results
from qt_bert.page.settings import Settings
from qt_bert.page.state import KEYS, State, first_state, read_state
from qt_bert.page.widgets import LANGUAGE, info
from qt_bert.text import Text

# Models and results, opened once a process and shared by all visitors.


_LOCK = threading.RLock()
_RESULTS: WeakKeyDictionary[SharedModel, tuple[HeadResults | None, tuple[Text, ...]]] = (
    WeakKeyDictionary()
)


def pool_of(settings: Settings) -> ModelPool:
    """The models that this server offers. Raises ArgumentError where there is none."""
    with _LOCK:
        return _pool(settings)


@lru_cache(maxsize=8)
def _pool(settings: Settings) -> ModelPool:
    return ModelPool(*settings.models, base=settings.base, device=settings.device)


def results_of(
    model: SharedModel, settings: Settings
) -> tuple[HeadResults | None, tuple[Text, ...]]:
    """The stored results on one model, and why others were refused; see `find_results`."""
    with _LOCK:
        if model not in _RESULTS:
            _RESULTS[model] = find_results(model, settings.run)
        return _RESULTS[model]


def open_first(settings: Settings) -> None:
    """Open the first model and its results, printing refusals. Raises what opening raises."""
    pool = pool_of(settings)
    _, refused = results_of(pool.open(pool.names[0]), settings)
    for reason in refused:
        print(reason.en, file=sys.stderr, flush=True)


def open_rest(settings: Settings) -> None:
    """Open the first model's base, and compute its mean head outputs."""
    pool = pool_of(settings)
    model = pool.open(pool.names[0])
    pool.base_of(model.name)
    model.intervention(model.shape.all_heads[:1], "mean")


# A visitor's state: kept in the session, and written into the address as a link for others.
#
# Streamlit empties the address on a change of page, and a page's widgets rerun the script with the
# address that the browser had. So the session's state counts. The address is read at a visitor's
# first run, and where it changed by other means: the back button, a link pasted into the tab.


_STATE, _CHANGED, _FAULTS = "qt_bert.state", "qt_bert.changed", "qt_bert.faults"
_WRITTEN, _BEFORE, _WRITTEN_AT = "qt_bert.written", "qt_bert.before", "qt_bert.written_at"
_LATE = 2.0
"""Seconds in which a browser may still send the previous address."""


def begin(settings: Settings) -> State:
    """The state at the start of a run: the session's, or that of the address.

    What the address leaves out is as on a first visit: the first model on the first case.
    """
    params, session = st.query_params.to_dict(), st.session_state
    late = time.monotonic() - session.get(_WRITTEN_AT, 0.0) < _LATE
    known = (
        not params or params == session.get(_WRITTEN) or (late and params == session.get(_BEFORE))
    )
    if _STATE not in session or not (session.pop(_CHANGED, False) or known):
        pool = pool_of(settings)
        results, _ = results_of(pool.open(pool.names[0]), settings)
        first = replace(first_state(pool, results), language=settings.language)
        _keep(*read_state(params, first, pool))
    _write()
    state: State = session[_STATE]
    return state


def change(pool: ModelPool, **fields: Any) -> None:
    """Change fields of the state, checked like a link; an invalid one keeps its value and is reported.

    For callbacks, after which Streamlit runs the script; elsewhere `Visit.change`.
    """
    state: State = st.session_state[_STATE]
    query = replace(state, **fields).to_query()
    _keep(*read_state({KEYS[field]: query[KEYS[field]] for field in fields}, state, pool))
    st.session_state[_CHANGED] = True


def link_faults() -> list[Text]:
    """What was refused since the last run."""
    faults: list[Text] = st.session_state.pop(_FAULTS, [])
    return faults


def _keep(state: State, faults: list[Text]) -> None:
    st.session_state[_STATE], st.session_state[LANGUAGE] = state, state.language
    st.session_state[_FAULTS] = [*st.session_state.get(_FAULTS, []), *faults]


def _write() -> None:
    """Write the state into the address."""
    session = st.session_state
    query = session[_STATE].to_query()
    if session.get(_WRITTEN) != query:
        session[_BEFORE], session[_WRITTEN_AT] = session.get(_WRITTEN), time.monotonic()
        session[_WRITTEN] = query
    if st.query_params.to_dict() != query:
        st.query_params.from_dict(query)


# What a page needs to draw.


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One run of one visitor's page: model, state, results."""

    settings: Settings
    pool: ModelPool
    model: SharedModel
    state: State

    @cached_property
    def base(self) -> SharedModel | None:
        """The model before fine-tuning, where it is known; opened by the first call."""
        return self.pool.base_of(self.state.model)

    @property
    def results(self) -> HeadResults | None:
        """The stored probe results on this model, if there are any."""
        return results_of(self.model, self.settings)[0]

    def change(self, **fields: Any) -> None:
        """Change fields of the state and the address, and run the script again."""
        change(self.pool, **fields)
        _write()
        st.rerun()

    def open(self, page: str, **fields: Any) -> None:
        """Change fields of the state, and go to another page, such as `focus`."""
        change(self.pool, **fields)
        st.switch_page(f"screens/{page}.py", query_params=st.session_state[_STATE].to_query())

    def stop_if_empty(self) -> None:
        """End the page with a message where query or title is empty."""
        if self.state.empty:
            info(
                "请在左栏输入查询和标题，两者都不能为空。",
                "Enter a query and a title on the left; neither may be empty.",
                icon=":material/edit:",
            )
            st.stop()


def visit() -> Visit:
    """This run of this visitor. Raises QtBertError where the model cannot be opened."""
    settings = Settings.read()
    pool, state = pool_of(settings), st.session_state[_STATE]
    return Visit(settings=settings, pool=pool, model=pool.open(state.model), state=state)
