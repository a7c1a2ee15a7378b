"""Words: where heads end the words of a text, beside jieba."""

from __future__ import annotations

import streamlit as st

from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.inspection.inputs import clean_texts
from qt_bert.inspection.views import words as texts
from qt_bert.inspection.views.words import (
    MEASURES,
    MOST_HEADS,
    RULES,
    Rule,
    Words,
    agreement,
    side_by_side,
    text_figures,
    texts_asked,
    words,
)


def main() -> None:
    """Lay out the page."""
    here = visit()
    here.stop_if_empty()
    st.header(here.text(texts.TITLE))
    st.caption(here.text(texts.INTRO))
    found, rule = _read(here)
    for note in texts.notes(found):
        st.caption(here.text(note))
    if not len(found.decisions):
        return
    models = [found, *_before_tuning(here, found)]
    for column, one in zip(st.columns(len(models)), models, strict=True):
        with column:
            st.text(one.model)
            for figure in text_figures(one, rule):
                draw(figure, key=f"words.{one.model}.{figure.name}")
    if len(models) > 1:
        st.caption(here.text(texts.CREDIT))
        draw(side_by_side(models), key="words.models")
    for measure in MEASURES:
        draw(agreement(found, measure), key=f"words.{measure}")


def _read(here: Here) -> tuple[Words, Rule]:
    """The texts, heads and rule that the visitor asks for, read."""
    state = here.state
    typed = st.text_input(
        here.text(texts.TYPED),
        key="words.typed",
        max_chars=500,
        help=here.text(texts.TYPED_HELP),
    )
    rule = st.radio(
        here.text(texts.RULE),
        list(RULES),
        format_func=lambda name: here.text(RULES[name]),
        help=here.text(texts.RULE_HELP),
        horizontal=True,
        key="words.rule",
    )
    heads = _heads(here)
    instead = clean_texts(state.query, typed)[1].strip()
    asked = texts_asked(state.query, state.title, instead)
    with st.spinner(here.text(texts.WORKING)):
        return words(here.model, asked, heads, state.out, state.mode), rule


def _heads(here: Here) -> list:
    """The heads to read by; none for the best on calibration."""
    sets = here.studied.sets if here.studied else {}
    stability = here.studied.stability if here.studied else {}
    offered = [name for name in texts.SETS if sets.get(name)] + [texts.BEST, texts.OWN]
    who = st.radio(
        here.text(texts.WHO),
        offered,
        format_func=lambda name: here.text(texts.who_name(name, stability)),
        horizontal=True,
        key="words.who",
    )
    if who != texts.OWN:
        return list(sets.get(who, ()))
    every = here.model.shape.all_heads
    return st.multiselect(
        here.text(texts.MAY),
        every,
        default=[every[here.state.layer * here.model.shape.heads + here.state.head]],
        max_selections=MOST_HEADS,
        key=f"words.own.{here.state.model}",
    )


def _before_tuning(here: Here, found: Words) -> list[Words]:
    """The same texts and heads in the model before fine-tuning, where it is known and wanted."""
    state = here.state
    if here.base is None or not st.toggle(here.text(texts.BESIDE), value=True, key="words.base"):
        return []
    with st.spinner(here.text(texts.WORKING)):
        return [words(here.base, found.asked, found.heads, state.out, state.mode)]


main()
