"""Ranking: several titles under one query, with heads left out and without, and what moves each."""

from __future__ import annotations

import streamlit as st

from qt_bert.app.figures import draw
from qt_bert.app.titles import asked_titles
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import metric, table
from qt_bert.app.words import escaped
from qt_bert.inspection.views import ranking as words
from qt_bert.inspection.views.movers import MOST_TERMS, carriers, head_moves, term_moves
from qt_bert.inspection.views.phrases import NO_GRADES, titles_cut
from qt_bert.inspection.views.ranking import RankedTitle, Ranking, rank_titles, ranking_rows
from qt_bert.results.quantities import metric_name
from qt_bert.text import number, signed


def main() -> None:
    """Lay out the page."""
    here = visit()
    st.header(here.text(words.TITLE))
    st.caption(here.text(words.INTRO))
    here.stop_if_empty()
    if not here.model.classifies:
        st.info(here.text(NO_GRADES))
        return
    st.text(here.text(words.QUERY).format(query=here.state.query))
    titles = asked_titles(here)
    if not titles:
        st.info(here.text(words.NO_TITLES))
        return
    state = here.state
    found = rank_titles(here.model, state.query, titles, state.out, state.mode)
    if not state.out:
        st.info(here.text(words.NO_HEADS), icon=":material/left_panel_open:")
    _summary(here, found)
    chosen = table(
        ranking_rows(found),
        words.columns(found.score),
        key="ranking.table",
        signed=("change",),
        select=True,
    )
    st.caption(here.text(words.CLICK))
    for figure in found.figures:
        draw(figure)
    _movers(here, found.titles[found.place_of(state.title) if chosen is None else chosen])


def _summary(here: Here, found: Ranking) -> None:
    """How far the two orders agree, and how good each is where there are labels."""
    columns = st.columns(2 + len(found.ndcg))
    if found.titles[0].place_without is not None:
        of = f"{found.moves} / {len(found.titles)}"
        with columns[0]:
            metric(here.text(words.MOVED), of, about=here.text(words.MOVED_HELP))
        with columns[1]:
            metric(here.text(words.TAU), number(found.tau), about=here.text(words.TAU_HELP))
    for column, (name, (before, after)) in zip(columns[2:], found.ndcg.items(), strict=True):
        with column:
            metric(
                here.text(metric_name(name)),
                number(before),
                None if before is None or after is None else signed(after - before),
                about=here.text(words.ndcg_help(name, found.labelled)),
            )
    if found.truncated:
        st.caption(here.text(titles_cut(found.truncated, here.model.longest)))


def _movers(here: Here, chosen: RankedTitle) -> None:
    """What moves one title: each term filled, and each head left out."""
    state = here.state
    st.subheader(here.text(words.MOVERS))
    st.text(f"{chosen.place}. {chosen.title}")
    if st.button(here.text(words.OPEN), icon=":material/center_focus_strong:", key="ranking.open"):
        here.open("focus", title=chosen.title)
    terms = term_moves(here.model, state.query, chosen.title, state.out, state.mode)
    for place, figure in enumerate(terms.figures):
        draw(figure, key=f"ranking.terms.{place}")
    if terms.passed_over:
        st.caption(here.text(words.passed_over(terms.passed_over, MOST_TERMS)))
    heads = head_moves(here.model, state.query, chosen.title)
    left, right = st.columns(2)
    with left:
        draw(heads.bars)
    with right:
        cell = draw(heads.map, click=True)
    st.caption(here.text(words.NO_SHARES))
    if cell is not None:
        here.change(layer=cell[0], head=cell[1])
    st.caption(escaped(here.text(words.chosen_head(here.state.layer, here.state.head))))
    about = here.text(words.CARRIERS_HELP)
    if st.toggle(here.text(words.CARRIERS), help=about, key="ranking.carriers"):
        _carriers(here, chosen.title)


def _carriers(here: Here, title: str) -> None:
    """The heads that bring back most of the term that moves the title most."""
    found = carriers(here.model, here.state.query, title)
    if found is None:
        st.caption(here.text(words.NO_CARRIERS))
        return
    draw(found.bars)
    st.caption(here.text(words.CARRIED))


main()
