"""Every view on models of other families and shapes, and on texts that are hard to look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.figures import Bars, Curve, HeatMap, Tokens
from qt_bert.inspection import sampled
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.models import Shelf
from qt_bert.inspection.sampled import study_here
from qt_bert.inspection.state import State
from qt_bert.inspection.views import order, words
from qt_bert.inspection.views.all_heads import all_heads, strongest
from qt_bert.inspection.views.atlas import card, colourings, what_it_does
from qt_bert.inspection.views.attention import PARTS, attention, last_start, tuning
from qt_bert.inspection.views.focus import focus, row
from qt_bert.inspection.views.movers import head_moves, term_moves
from qt_bert.inspection.views.order import draws, head_sets, spread
from qt_bert.inspection.views.order import order as order_order
from qt_bert.inspection.views.ranking import Title, rank_titles, ranking_rows
from qt_bert.inspection.views.words import texts_asked
from qt_bert.inspection.views.words import words as words_words
from qt_bert.models.heads import Head

MODELS: dict[str, tuple[str, dict[str, int]]] = {
    "XLM-R, one logit": ("xlm-roberta", {"labels": 1}),
    "4 × 4 heads": ("ernie", {"layers": 4, "heads": 4}),
    "three levels, 128 tokens": ("bert", {"labels": 3, "positions": 128}),
    "one layer of one head": ("electra", {"layers": 1, "heads": 1}),
}
TEXTS = {
    "Chinese": ("京东小哥", "京东小哥最近在干嘛"),
    "no Han": ("iphone 15", "buy an iphone"),
    "nothing a tokenizer sees": ("\u200b", "👨‍👩‍👧\u200d"),
    "long": ("狗追猫" * 30, "猫追狗0123 " * 40),
}


@pytest.fixture(scope="module", params=MODELS)
def inspected(checkpoint_of: Callable[..., Path], request: pytest.FixtureRequest) -> Inspected:
    family, options = MODELS[request.param]
    shelf = Shelf(checkpoint_of(family, **options))
    return shelf.open(shelf.names[0])


@pytest.fixture(params=TEXTS)
def state(inspected: Inspected, request: pytest.FixtureRequest) -> State:
    query, title = TEXTS[request.param]
    last = inspected.shape.layers - 1
    facts: dict[str, Any] = {"layer": last, "head": 0, "out": (Head(0, 0),), "mode": "uniform"}
    return State(model=inspected.name, query=query, title=title, seed=0, language="zh", **facts)


def figures_in(value: Any) -> Iterator[Any]:
    """All figures in a view's answer, however deep."""
    if isinstance(value, Bars | Curve | HeatMap | Tokens):
        yield value
    elif isinstance(value, dict):
        yield from figures_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from figures_in(one)
    elif is_dataclass(value):
        yield from figures_in([getattr(value, field.name) for field in fields(value)])


def check(*answers: Any) -> int:
    """Every figure can be stored, so holds no number that is none; how many there are."""
    figures = list(figures_in(answers))
    for figure in figures:
        json.dumps(figure.to_json(), allow_nan=False)
    return len(figures)


@pytest.mark.filterwarnings("error")
def test_focus_and_attention(inspected: Inspected, state: State) -> None:
    seen = focus(inspected, state)
    assert check(seen) >= 4
    assert [row(one)["name"] for one in seen.shifts]
    for part in PARTS:
        start = last_start(inspected, state, part)
        check(attention(inspected, state, part, start), tuning(inspected, inspected, state, part))
        check(all_heads(inspected, state, part, "change"))


@pytest.mark.filterwarnings("error")
def test_words(inspected: Inspected, state: State) -> None:
    asked = texts_asked(state.query, state.title)
    found = words_words(inspected, asked, (), state.out, state.mode)
    shown = [words.text_figures(found, rule) for rule in ("calibrated", "article")]
    agree = [words.agreement(found, one) for one in words.MEASURES]
    assert check(shown, agree, words.side_by_side([found, found])) == 7
    assert list(words.notes(found))


@pytest.mark.filterwarnings("error")
def test_order(inspected: Inspected, state: State) -> None:
    sets = head_sets({}, state.out)
    texts = {"side": "title", "kind": "characters", "seed": 3}
    drawn = draws(inspected, state.query, state.title, **texts, number=3)  # type: ignore[arg-type]
    assert drawn
    found = order_order(inspected, drawn[0], sets, mode=state.mode, seed=0)
    several = spread(inspected, drawn, sets, mode=state.mode)
    assert check(
        order.distributions(found),
        order.spread_bars(several, inspected.labels),
        order.draws_map(several, inspected.labels, 3),
    )
    assert order.rows(found) and order.headline(found)


@pytest.mark.filterwarnings("error")
def test_ranking(inspected: Inspected, state: State) -> None:
    titles = [Title(state.title), Title("红烧排骨"), Title("")]
    found = rank_titles(inspected, state.query, titles, state.out, state.mode)
    assert len(ranking_rows(found)) == 3
    moves = term_moves(inspected, state.query, state.title, state.out, state.mode)
    assert check(found, moves, head_moves(inspected, state.query, state.title)) >= 4
    assert np.isfinite([one.score for one in found.titles]).all()


def test_atlas(inspected: Inspected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "PAIRS", 6)
    with inspected.turns.job() as job:
        studied = study_here(inspected, job)
    assert check(colourings(studied)) >= 3
    for head in inspected.shape.all_heads:
        found = card(studied, head)
        assert what_it_does(found).zh
        assert all(one.measured.zh and one.more.en for one in found.evidence)
    at = {"query": "京东小哥", "title": "京东小哥最近", "layer": 0, "head": 0, "out": ()}
    state = State(model="m", mode="zero", seed=0, language="zh", **at)  # type: ignore[arg-type]
    assert len(strongest(inspected, state)) == 3
