"""Behaviour card: which differences between titles the model tells, with heads left out and without."""

from __future__ import annotations

from typing import Any

import streamlit as st

from qt_bert.app.figures import draw
from qt_bert.app.own_titles import show_own_cases, show_own_titles
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import table, watch
from qt_bert.app.words import escaped
from qt_bert.inspection.turns import Background, Stopped
from qt_bert.inspection.views import behaviour as words
from qt_bert.inspection.views.behaviour import (
    Card,
    StoredCard,
    card,
    case_tokens,
    score_bars,
    score_cases,
    shipped_cases,
    stored_card,
    units,
    worst_first,
)
from qt_bert.inspection.views.evaluation import STEPS
from qt_bert.inspection.views.phrases import NO_GRADES, score_name, titles_cut
from qt_bert.results.head_sets import phenomenon_name

JOB = "behaviour.job"


def main() -> None:
    """Lay out the page; the form of one's own titles comes last, for it may end the run."""
    here = visit()
    st.header(here.text(words.TITLE))
    st.caption(here.text(words.INTRO))
    if not here.model.classifies:
        st.info(here.text(NO_GRADES))
        return
    beside, own = st.columns([3, 2], gap="medium")
    with beside:
        found = _card(here)
    if found is not None:
        _cases(here, found)
    show_own_cases(here)
    with own.container(border=True):
        show_own_titles(here)


def _card(here: Here) -> Card | None:
    """The card of the study, and the one made here, as far as there is one."""
    fault = _finish()
    state = here.state
    found = card(here.model, shipped_cases(), state.out, state.mode, state.seed)
    stored = stored_card(here.studied)
    if stored is None:
        st.caption(here.text(words.NONE_STORED))
    else:
        with st.expander(here.text(words.STORED), expanded=found is None):
            _stored(here, stored)
    st.subheader(here.text(words.HERE))
    if isinstance(fault, Stopped):
        st.info(here.text(words.STOPPED))
    elif fault is not None:
        raise fault
    if JOB in st.session_state:
        watch(st.session_state[JOB], unit=words.PAIRS, steps=STEPS, key="behaviour")
    elif found is None or not found.complete:
        _offer(here, found)
    if found is not None:
        _made_here(here, found)
    return found


def _finish() -> Exception | None:
    """Let go of work that is finished, and say why it found nothing; what it found is kept."""
    job: Background[None] | None = st.session_state.get(JOB)
    if job is None or not job.standing().finished:
        return None
    del st.session_state[JOB]
    return job.error


def _stored(here: Here, found: StoredCard) -> None:
    st.caption(escaped(here.text(found.origin)))
    st.write(escaped(here.text(found.said)))
    for figure in found.figures:
        draw(figure, key=f"behaviour.stored.{figure.name}")
    if found.rows:
        columns = words.STORED_COLUMNS
        table(
            found.rows,
            columns,
            key="behaviour.stored",
            digits=words.DIGITS_OF,
            signed=words.SIGNED,
        )


def _offer(here: Here, found: Card | None) -> None:
    """The button that judges all cases, and how much work that is."""
    model, state, cases = here.model, here.state, shipped_cases()
    pairs = units(model, cases, state.out, state.mode)
    st.caption(here.text(words.judging(pairs)))
    label = words.JUDGE if found is None else words.JUDGE_WITHOUT
    if not st.button(here.text(label), key="behaviour.go"):
        return

    def work(job: Any, shown: Any) -> None:
        score_cases(model, cases, state.out, state.mode, job, shown)

    st.session_state[JOB] = Background(model.turns, work, total=pairs)
    st.rerun()


def _made_here(here: Here, found: Card) -> None:
    """Scores by phenomenon, as figures and as a table."""
    cases, both = shipped_cases(), found.both
    queries = len(set(both.whole.queries))
    digest = cases.texts_sha256[:12]
    said = words.rests_on(len(both.whole), queries, both.band, digest)
    st.caption(escaped(here.text(said)))
    for figure in score_bars(found):
        draw(figure)
    with st.expander(here.text(words.NUMBERS)):
        rows, columns = words.line_rows(found), words.LINE_COLUMNS
        table(rows, columns, key="behaviour.lines", digits=words.DIGITS_OF, signed=words.SIGNED)
    if both.truncated:
        st.caption(here.text(titles_cut(both.truncated, here.model.longest)))


def _cases(here: Here, found: Card) -> None:
    """The cases of the phenomenon chosen, the worst first; a click shows one, and opens its pairs."""
    st.subheader(here.text(words.CASES))
    names = {name: here.text(phenomenon_name(name)) for name in found.lines}
    asked = st.pills(
        here.text(words.PHENOMENON),
        list(names),
        default=found.weakest,
        format_func=lambda name: escaped(names[name]),
        key="behaviour.phenomenon",
    )
    both = found.of(asked or found.weakest)
    order = worst_first(both.whole)
    columns = words.case_columns(score_name(here.model.labels))
    rows = words.case_rows(both, order)
    key = f"behaviour.cases.{asked}"
    chosen = table(rows, columns, key=key, signed=words.SIGNED, select=True)
    st.caption(here.text(words.CLICK))
    place = int(order[chosen or 0])
    draw(case_tokens(both, place, here.model.labels, "behaviour_case"))
    case = both.whole.cases[place]
    first, second = st.columns(2)
    if first.button(here.text(words.OPEN_TITLE), key="behaviour.open-title"):
        here.open("focus", query=case.query, title=case.title)
    if second.button(here.text(words.OPEN_OTHER), key="behaviour.open-other"):
        here.open("focus", query=case.query, title=case.other)


main()
