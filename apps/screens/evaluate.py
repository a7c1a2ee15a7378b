"""Evaluate: a graded file, by the whole model and with heads left out of it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from qt_bert.app.evaluation import ChosenFile, asked_file, show_evaluation
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import show_rejects, watch
from qt_bert.app.words import escaped
from qt_bert.inspection.turns import Background, Stopped
from qt_bert.inspection.views import evaluation as words
from qt_bert.inspection.views.evaluation import STEPS, Measured, about, evaluate_pairs, units
from qt_bert.inspection.views.phrases import NO_GRADES
from qt_bert.inspection.views.shared import compare_command, evaluate_command
from qt_bert.text import Text

JOB, DONE = "evaluate.job", "evaluate.done"


@dataclass(frozen=True)
class Begun:
    """An evaluation under way, and of what."""

    key: Hashable
    about: Text
    job: Background[Measured]


@dataclass(frozen=True)
class Done:
    """An evaluation that is finished: of what, and what it found."""

    key: Hashable
    about: Text
    measured: Measured


def main() -> None:
    """Lay out the page."""
    here = visit()
    st.header(here.text(words.TITLE))
    st.caption(here.text(words.INTRO))
    if not here.model.classifies:
        st.info(here.text(NO_GRADES))
        return
    fault = _finish()
    asked = asked_file(here)
    if asked is not None:
        _offer(here, asked)
    if isinstance(fault, Stopped):
        st.info(here.text(words.STOPPED))
    elif fault is not None:
        raise fault
    if JOB in st.session_state:
        watch(st.session_state[JOB].job, unit=words.PAIRS, steps=STEPS, key="evaluate")
    elif DONE in st.session_state:
        _show(here, st.session_state[DONE], None if asked is None else _key(here, asked))


def _key(here: Here, asked: ChosenFile) -> Hashable:
    state = here.state
    return (asked.key, here.model.sha256, state.out, state.mode, state.seed)


def _offer(here: Here, asked: ChosenFile) -> None:
    """What will be evaluated, by which commands too, and the button."""
    model, state = here.model, here.state
    st.markdown(escaped(here.text(words.sample(asked.file))))
    show_rejects(asked.file.rejects, asked.file.rejected)
    with st.expander(here.text(words.ALL_OF_IT), icon=":material/terminal:"):
        st.code(evaluate_command(model, asked.name, asked.options, state.seed), language="bash")
        if state.out:
            st.caption(here.text(words.COMPARED_BY))
            told = (asked.name, asked.options, state.out, state.mode, state.seed)
            st.code(compare_command(model, *told), language="bash")
    running = JOB in st.session_state
    if st.button(here.text(words.EVALUATE), key="evaluate.go", disabled=running):
        _start(here, asked)


def _start(here: Here, asked: ChosenFile) -> None:
    model, state, pairs = here.model, here.state, asked.file.pairs

    def work(job: Any, shown: Any) -> Measured:
        return evaluate_pairs(model, pairs, state.out, state.mode, job, shown, seed=state.seed)

    job = Background(model.turns, work, total=units(len(pairs), bool(state.out)))
    what = about(model, asked.file, state.out, state.mode)
    st.session_state[JOB] = Begun(_key(here, asked), what, job)
    st.rerun()


def _finish() -> Exception | None:
    """Keep what a finished evaluation found; or why it found nothing."""
    begun = st.session_state.get(JOB)
    if begun is None or not begun.job.standing().finished:
        return None
    del st.session_state[JOB]
    if begun.job.result is not None:
        st.session_state[DONE] = Done(begun.key, begun.about, begun.job.result)
    return begun.job.error


def _show(here: Here, done: Done, key: Hashable) -> None:
    """The figures of the last evaluation."""
    st.subheader(escaped(here.text(done.about)))
    if key != done.key:
        st.warning(here.text(words.CHANGED))
    show_evaluation(here, done.measured)


main()
