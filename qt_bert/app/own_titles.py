"""Two titles of a visitor's own, judged at once, and the cases that the session keeps of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import streamlit as st

from qt_bert.app import visit
from qt_bert.app.figures import draw
from qt_bert.app.widgets import metric, table
from qt_bert.app.words import escaped
from qt_bert.inspection.inputs import RefusedInput, shipped_rows
from qt_bert.inspection.views import behaviour as words
from qt_bert.inspection.views import own_cases
from qt_bert.inspection.views.behaviour import (
    DIGITS,
    SIGNED,
    Both,
    case_rows,
    case_tokens,
    judge_few,
)
from qt_bert.inspection.views.own_cases import Case, Relation
from qt_bert.inspection.views.phrases import score_name, titles_cut
from qt_bert.inspection.views.shared import cases_command
from qt_bert.text import Text, number, signed

if TYPE_CHECKING:
    from qt_bert.app.visit import Here

_OTHER, _RELATION, _TYPED = "behaviour.other", "behaviour.relation", "behaviour.typed"
_MINE, _FAULT, _TABLE = "behaviour.mine", "behaviour.fault", "behaviour.my-cases"
_MOST = 500


def show_own_titles(here: Here) -> None:
    """The form, and what the model makes of it; ends the page where there is no pair."""
    st.subheader(here.text(words.OWN))
    st.caption(here.text(words.OWN_ABOUT))
    here.stop_if_empty()
    relation = _asked(here)
    try:
        case = _typed_case(here, relation)
    except RefusedInput as error:
        st.info(here.text(error.said))
        return
    _judged(here, case)
    left, right = st.columns(2)
    left.button(here.text(words.ADD), key="behaviour.add", on_click=lambda: _add(case))
    right.button(here.text(words.SWAP), key="behaviour.swap", on_click=lambda: _swap(here, case))
    fault: Text | None = st.session_state.pop(_FAULT, None)
    if fault is not None:
        st.warning(here.text(fault))
    st.caption(here.text(words.NOT_IN_LINK))


def show_own_cases(here: Here) -> None:
    """The cases that this visitor has added, judged anew, and ways to take them along."""
    mine = _mine()
    if not mine:
        return
    st.subheader(here.text(words.MY_CASES))
    found = judge_few(here.model, mine, here.state.out, here.state.mode)
    columns = {
        "relation": words.LINE_COLUMNS["relation"],
        **words.case_columns(score_name(here.model.labels)),
    }
    rows = case_rows(found, range(len(mine)))
    chosen = table(rows, columns, key=_TABLE, signed=SIGNED, select=True)
    remove, clear = st.columns(2)
    remove.button(
        here.text(words.REMOVE),
        key="behaviour.remove",
        disabled=chosen is None,
        on_click=lambda: _keep(tuple(c for place, c in enumerate(mine) if place != chosen)),
    )
    clear.button(here.text(words.CLEAR), key="behaviour.clear", on_click=lambda: _keep(()))
    st.download_button(
        here.text(words.SAVE_CASES),
        own_cases.tsv_of(mine),
        file_name=own_cases.FILE,
        mime="text/tab-separated-values",
        key="behaviour.save",
        icon=":material/download:",
        on_click="ignore",
    )
    st.caption(here.text(words.COMMAND))
    st.code(cases_command(here.model, own_cases.FILE), language=None, wrap_lines=True)
    if own_cases.of_one_half(mine):
        st.caption(here.text(words.ONE_HALF))


def _asked(here: Here) -> Relation:
    """Draw the field of the second title, and what the first is to be beside it."""
    state, store = here.state, st.session_state
    default = own_cases.default_other(state.query, state.title, shipped_rows("test"), state.seed)
    query, text = store.get(_TYPED, (None, ""))
    store[_OTHER] = text if query == state.query else default
    st.text_input(
        here.text(words.OTHER),
        key=_OTHER,
        max_chars=_MOST,
        on_change=lambda: _remember(state.query, store[_OTHER]),
    )
    names = {relation: here.text(name) for relation, name in words.RELATIONS.items()}
    first = next(iter(names))
    chosen = st.segmented_control(
        here.text(words.RELATION),
        list(names),
        default=first,
        format_func=names.__getitem__,
        key=_RELATION,
    )
    return chosen or first


def _typed_case(here: Here, relation: Relation) -> Case:
    state = here.state
    other = cast(str, st.session_state[_OTHER])
    return own_cases.own_case(state.query, state.title, other, relation)


def _judged(here: Here, case: Case) -> None:
    found = judge_few(here.model, [case], here.state.out, here.state.mode)
    score = here.text(score_name(here.model.labels))
    for column, name, told in zip(st.columns(2), words.WAYS, _told(here, found), strict=False):
        with column:
            difference, outcome, scores = told
            metric(here.text(words.difference(name)), difference, about=here.text(words.DELTA))
            st.caption(escaped(f"{outcome} · {score} {scores}"))
    st.caption(escaped(here.text(words.band(found.band))))
    if found.truncated:
        st.caption(here.text(titles_cut(found.truncated, here.model.longest)))
    draw(case_tokens(found, 0, here.model.labels, "own_titles"))


def _told(here: Here, found: Both) -> list[tuple[str, str, str]]:
    """Of the whole model, and without the heads: the difference, the outcome, both scores."""
    return [
        (
            signed(float(one.deltas[0])),
            here.text(words.OUTCOMES[int(one.outcomes[0])]),
            f"{number(float(one.titles[0]), DIGITS)} / {number(float(one.others[0]), DIGITS)}",
        )
        for one in found.ways
    ]


def _mine() -> tuple[Case, ...]:
    mine: tuple[Case, ...] = st.session_state.get(_MINE, ())
    return mine


def _keep(cases: tuple[Case, ...]) -> None:
    st.session_state[_MINE] = cases


def _add(case: Case) -> None:
    try:
        _keep(own_cases.added(_mine(), case))
    except RefusedInput as error:
        st.session_state[_FAULT] = error.said


def _swap(here: Here, case: Case) -> None:
    _remember(case.query, case.title)
    visit.change(here.shelf, query=case.query, title=case.other)


def _remember(query: str, text: str) -> None:
    """Keep what was typed: it outlives the widget, which a change of page forgets."""
    st.session_state[_TYPED] = (query, text)
