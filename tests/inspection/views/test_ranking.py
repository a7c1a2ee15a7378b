"""The page Ranking: the order of titles, with and without heads, against the scorer and by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.explain import explain_heads, restoring_heads
from qt_bert.errors import EquivalenceError
from qt_bert.figures import Bars, HeatMap, Tokens
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.turns import Turns
from qt_bert.inspection.views import movers, ranking
from qt_bert.inspection.views.movers import carriers, head_moves, term_moves
from qt_bert.inspection.views.ranking import (
    RankedTitle,
    Title,
    arrow,
    kendall,
    rank_titles,
    ranking_rows,
    shortened,
)
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head
from qt_bert.scoring.explain import explain_pair
from qt_bert.stats.judgements import judge_grades
from qt_bert.stats.metrics import METRICS
from qt_bert.text import in_language

Build = Callable[..., Path]
QUERY = "北京到上海高铁票价"
TITLES = [
    Title("北京到上海高铁时刻表查询", "3", (3,)),
    Title("上海到北京高铁票价", "2", (2,)),
    Title("红烧排骨的家常做法", "1", (1,)),
    Title("北京上海高铁票多少钱", "5", (5,)),
]
OUT = (Head(0, 1), Head(1, 0))


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_kept", Kept())
    monkeypatch.setattr(movers, "_kept", Kept())
    monkeypatch.setattr(movers, "_kept", Kept())


@pytest.fixture(scope="module")
def inspected(checkpoint_of: Build) -> Inspected:
    return Inspected("tiny", open_checkpoint(checkpoint_of(layers=3)), Turns())


@pytest.fixture(scope="module")
def one_logit(checkpoint_of: Build) -> Inspected:
    return Inspected("tiny", open_checkpoint(checkpoint_of(labels=1)), Turns())


def scores(inspected: Inspected, out: tuple[Head, ...]) -> np.ndarray:
    texts = [(QUERY, title.text) for title in TITLES]
    return inspected.outputs(inspected.without(out, "zero").logits(texts)).ranking_score


def test_titles_by_the_scorers_score(inspected: Inspected) -> None:
    found = rank_titles(inspected, QUERY, TITLES, OUT, "zero")
    plain, masked = scores(inspected, ()), scores(inspected, OUT)
    order = np.argsort(-plain)
    assert [one.title for one in found.titles] == [TITLES[row].text for row in order]
    assert [one.score for one in found.titles] == pytest.approx(plain[order], abs=1e-5)
    assert [one.score_without for one in found.titles] == pytest.approx(masked[order], abs=1e-5)
    assert [one.place for one in found.titles] == [1, 2, 3, 4]
    ranks = (-masked).argsort().argsort() + 1
    assert [one.place_without for one in found.titles] == ranks[order].tolist()
    assert found.score.en == "expected grade"


def test_ndcg_is_the_evaluations_own(inspected: Inspected) -> None:
    found = rank_titles(inspected, QUERY, TITLES, OUT, "zero")
    for name, values in found.ndcg.items():
        for out, value in zip(((), OUT), values, strict=True):
            texts = [(QUERY, title.text) for title in TITLES]
            outputs = inspected.outputs(inspected.without(out, "zero").logits(texts))
            sets = [title.grades or () for title in TITLES]
            judged = judge_grades(outputs.probabilities, sets, [QUERY] * 4)
            assert value == pytest.approx(METRICS[name].value(judged))
    assert set(found.ndcg) == set(ranking.NDCG)
    assert found.labelled == 4


def test_without_labels_there_is_no_ndcg(inspected: Inspected) -> None:
    bare = [Title(title.text) for title in TITLES]
    assert rank_titles(inspected, QUERY, bare, (), "zero").ndcg == {}
    one = [Title("甲", "5", (5,)), Title("乙")]
    assert rank_titles(inspected, QUERY, one, (), "zero").ndcg == {}


def test_labels_that_are_all_alike_order_nothing(inspected: Inspected) -> None:
    alike = [Title(title.text, "3", (3,)) for title in TITLES]
    assert rank_titles(inspected, QUERY, alike, (), "zero").ndcg == {}


def test_no_heads_left_out_is_one_ranking(inspected: Inspected) -> None:
    found = rank_titles(inspected, QUERY, TITLES, (), "zero")
    assert found.tau is None and found.moves == 0
    assert {one.moved for one in found.titles} == {None}
    assert all(values[1] is None for values in found.ndcg.values())
    assert [len(f.series) for f in found.figures if isinstance(f, Bars)] == [1]
    assert [row["moved"] for row in ranking_rows(found)] == [None] * 4


def test_figures_hold_what_the_table_holds(inspected: Inspected) -> None:
    found = rank_titles(inspected, QUERY, TITLES, OUT, "uniform")
    bars, before, after = found.figures
    assert isinstance(bars, Bars) and isinstance(before, HeatMap) and isinstance(after, HeatMap)
    assert bars.series[0].values == tuple(one.score for one in found.titles)
    assert bars.series[1].values == tuple(one.score_without for one in found.titles)
    for row, one in zip(before.values, found.titles, strict=True):
        assert sum(p or 0 for p in row) == pytest.approx(100, abs=1e-3)
        grades = sum((i + 1) * (p or 0) / 100 for i, p in enumerate(row))
        assert grades == pytest.approx(one.score, abs=1e-5)


def test_a_model_of_one_logit_ranks_by_its_score(one_logit: Inspected) -> None:
    found = rank_titles(one_logit, QUERY, TITLES, (Head(0, 0),), "zero")
    assert found.score.en == "score"
    assert {one.predicted for one in found.titles} == {None}
    assert len(found.figures) == 1
    assert found.ndcg["ndcg_at_3"][0] is not None


def test_long_titles_are_said_to_be_cut(inspected: Inspected) -> None:
    found = rank_titles(inspected, QUERY, [Title("红烧排骨" * 50), Title("高铁")], (), "zero")
    assert found.truncated == 1


def test_kendall_by_hand() -> None:
    assert kendall(np.array([3.0, 2, 1]), np.array([3.0, 1, 2])) == pytest.approx(1 / 3)
    assert kendall(np.array([3.0, 2, 1]), np.array([9.0, 8, 7])) == pytest.approx(1)
    assert kendall(np.array([1.0, 1]), np.array([1.0, 2])) is None
    assert kendall(np.array([1.0]), np.array([1.0])) is None


@pytest.mark.parametrize(("without", "shown"), [(1, "1 ▲2"), (5, "5 ▼2"), (3, "3 =")])
def test_arrows(without: int, shown: str) -> None:
    one = RankedTitle(
        title="",
        label=None,
        score=1,
        place=3,
        predicted=None,
        score_without=1,
        place_without=without,
    )
    assert arrow(one) == shown


def test_labels_of_charts_are_short() -> None:
    assert shortened("北京") == "北京"
    assert shortened("长" * 100, 5) == "长长长长…"


def test_terms_as_explain_has_them(inspected: Inspected) -> None:
    title = TITLES[0].text
    found = term_moves(inspected, QUERY, title, OUT, "zero")
    for out, effects in (((), found.effects), (OUT, found.effects_without)):
        expected = explain_pair(QUERY, title, inspected.without(out, "zero"), inspected.segmenter)
        assert [(e.side, e.term) for e in effects] == [(e.side, e.term) for e in expected.terms]
        changes = [one.change for one in expected.terms]
        assert [e.change for e in effects] == pytest.approx(changes, abs=1e-5)
    assert found.passed_over == 0


def test_terms_are_coloured_in_both_texts(inspected: Inspected) -> None:
    found = term_moves(inspected, QUERY, TITLES[0].text, (), "zero")
    (figure,) = found.figures
    assert isinstance(figure, Tokens)
    texts = ["".join(token.text for token in line.tokens) for line in figure.lines]
    assert texts == [QUERY, TITLES[0].text]
    values = [t.value for line in figure.lines for t in line.tokens if t.value is not None]
    assert values == [one.change for one in found.effects]
    assert found.effects_without == ()


def test_only_so_many_terms_are_filled(
    inspected: Inspected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(movers, "MOST_TERMS", 3)
    found = term_moves(inspected, "高铁", "高铁 排骨 " * 5, (), "zero")
    assert len(found.effects) == 3
    assert found.passed_over == 8


@pytest.fixture
def any_term_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that learnt nothing is hardly moved by any term."""
    monkeypatch.setattr("qt_bert.scoring.explain.LEAST_TELLING", 0.0)
    monkeypatch.setattr("qt_bert.scoring.explain.LEAST_CHANGE", 0.0)


@pytest.mark.usefixtures("any_term_tells")
@pytest.mark.parametrize("model", ["inspected", "one_logit"])
def test_the_heads_that_carry_a_term_as_explain_has_them(
    model: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Inspected = request.getfixturevalue(model)
    monkeypatch.setattr("qt_bert.inspection.inspected.TURN_TOKENS", 100)  # many turns
    title = TITLES[0].text
    found = carriers(asked, QUERY, title)
    told = explain_pair(QUERY, title, asked.scorer, asked.segmenter).most_telling
    assert found is not None and told is not None and found.term.term == told.term
    expected = restoring_heads(QUERY, title, asked.scorer, told).heads[:3]
    assert [one.head for one in found.heads] == [one.head for one in expected]
    rounding = 2e-5 / abs(told.change)
    shares = [one.share for one in expected]
    assert [one.share for one in found.heads] == pytest.approx(shares, abs=rounding)
    assert found.bars.series[0].values == pytest.approx(
        [100 * share for share in shares], abs=100 * rounding
    )
    assert told.term in found.bars.title.zh and f"{told.change:+.2f}"[1:] in found.bars.title.en


@pytest.mark.usefixtures("any_term_tells")
def test_patches_are_guarded_once_a_model(
    inspected: Inspected, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert carriers(inspected, QUERY, TITLES[1].text) is not None
    monkeypatch.setattr("qt_bert.inspection.inspected.check_patches", None)
    assert carriers(inspected, QUERY, TITLES[2].text) is not None
    monkeypatch.setattr(inspected, "_patched", {"bound": -1.0})
    with pytest.raises(EquivalenceError, match="z of all heads"):
        carriers(inspected, QUERY, TITLES[3].text)


def test_no_head_carries_what_moves_nothing(
    inspected: Inspected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qt_bert.scoring.explain.LEAST_TELLING", 9.0)
    assert carriers(inspected, QUERY, TITLES[0].text) is None


def test_heads_as_explain_has_them(inspected: Inspected) -> None:
    title = TITLES[0].text
    found = head_moves(inspected, QUERY, title)
    expected = {one.head: one.change for one in explain_heads(QUERY, title, inspected.scorer)}
    assert {e.head: e.change for e in found.effects} == pytest.approx(expected, abs=1e-6)
    sizes = [abs(one.change) for one in found.effects]
    assert sizes == sorted(sizes, reverse=True)
    assert [in_language(label, "en") for label in found.bars.categories] == [
        f"without {one.head}" for one in found.effects
    ]
    top = Head.parse(found.effects[0].head)
    assert found.map.values[top.layer][top.head] == found.effects[0].change
