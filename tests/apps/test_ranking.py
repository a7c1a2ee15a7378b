"""The page Ranking: titles typed and known, their order with and without heads, what moves one."""

from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from apps.screens import ranking
from apps.screens.ranking import (
    MOST_CHARACTERS,
    MOST_TITLES,
    NDCG,
    Title,
    head_moves,
    rank_titles,
    ranking_rows,
    term_moves,
    typed_titles,
)
from qt_bert.ablation.explain import explain_heads
from qt_bert.heads import Head
from qt_bert.page.model import SharedModel
from qt_bert.scoring.explain import explain_pair
from qt_bert.stats.judgements import judge_grades
from qt_bert.stats.metrics import METRICS
from tests.apps.conftest import STATE as SOME
from tests.apps.conftest import opened

QUERY = "北京到上海高铁票价"
TITLES = [
    Title("北京到上海高铁时刻表查询", "3", (3,)),
    Title("上海到北京高铁票价", "2", (2,)),
    Title("红烧排骨的家常做法", "1", (1,)),
    Title("北京上海高铁票多少钱", "5", (5,)),
]
OUT = (Head(0, 1), Head(1, 0))
PAIR = {"q": QUERY, "t": "北京上海高铁票多少钱"}
STATE = replace(SOME, query=QUERY, title=TITLES[0].text, out=OUT)


@pytest.fixture(scope="module")
def model(checkpoint_of):
    return opened(checkpoint_of(layers=3))


def test_a_title_a_line_with_a_label_after_a_tab(model):
    typed = "红烧排骨\t4\n\n  清蒸鱼\x00\x07 \n红烧排骨\t2\n👨‍👩‍👧 好\ud800"
    titles, faults = typed_titles(typed, model.labels)
    assert titles == [Title("红烧排骨", "4", (4,)), Title("清蒸鱼"), Title("👨‍👩‍👧 好")]
    assert typed_titles(" \n\t\n", model.labels)[0] == []
    assert faults == []
    assert typed_titles("甲\u2028乙\t5\r\n丙", model.labels)[0] == [
        Title("甲 乙", "5", (5,)),
        Title("丙"),
    ]


def test_labels_are_read_as_the_model_means_them(checkpoint_of):
    titles, faults = typed_titles("甲\t0\n乙\t5", opened(checkpoint_of(labels=3)).labels)
    assert [title.grades for title in titles] == [(1,), None]
    assert "cannot read 1 of the labels" in faults[0].en


def test_no_more_titles_and_characters_than_can_be_run(model):
    text = "\n".join(f"{n}" for n in range(MOST_TITLES + 3)) + "\n" + "长" * (MOST_CHARACTERS + 1)
    titles, faults = typed_titles(text, model.labels)
    assert len(titles) == MOST_TITLES
    (long,), cut = typed_titles("长" * 600, model.labels)
    assert len(long.text) == MOST_CHARACTERS
    assert faults == cut and "The first 50 titles are taken" in faults[0].en


def scores(model: SharedModel, out: tuple[Head, ...]) -> np.ndarray:
    texts = [(QUERY, title.text) for title in TITLES]
    return model.outputs(model.without(out, "zero").logits(texts)).ranking_score


def test_titles_by_the_scorers_score(model):
    found = rank_titles(model, QUERY, TITLES, OUT, "zero")
    whole, masked = scores(model, ()), scores(model, OUT)
    order = np.argsort(-whole)
    assert [one.text for one in found.titles] == [TITLES[row].text for row in order]
    np.testing.assert_allclose(found.scores, [whole[order], masked[order]], atol=1e-5)
    ranks = (-masked).argsort().argsort() + 1
    assert found.places.tolist() == [[1, 2, 3, 4], ranks[order].tolist()]
    moved = [row["moved"] for row in ranking_rows(found)]
    for place, without, shown in zip(*found.places.tolist(), moved, strict=True):
        sign = "▲" if without < place else "▼"
        arrow = "=" if place == without else f"{sign}{abs(place - without)}"
        assert shown == f"{without} {arrow}"


def test_ndcg_is_that_of_evaluate(model):
    found = rank_titles(model, QUERY, TITLES, OUT, "zero")
    for out, value in zip(((), OUT), found.ndcg, strict=True):
        texts = [(QUERY, title.text) for title in TITLES]
        outputs = model.outputs(model.without(out, "zero").logits(texts))
        sets = [title.grades or () for title in TITLES]
        judged = judge_grades(outputs.probabilities, sets, [QUERY] * 4)
        assert value == pytest.approx(METRICS[NDCG].value(judged))


@pytest.mark.parametrize(
    "titles",
    [
        [Title(title.text) for title in TITLES],
        [Title("甲", "5", (5,)), Title("乙")],
        [Title(title.text, "3", (3,)) for title in TITLES],
    ],
)
def test_labels_that_order_nothing_give_no_ndcg(model, titles):
    found = rank_titles(model, QUERY, titles, (), "zero")
    assert found.ndcg == [] and len(found.places) == 1
    assert {row.get("moved") for row in ranking_rows(found)} == {None}


def test_one_logit_ranks_by_its_score(checkpoint_of):
    one_logit = opened(checkpoint_of(labels=1))
    found = rank_titles(one_logit, QUERY, TITLES, (Head(0, 0),), "zero")
    assert {row["predicted"] for row in ranking_rows(found)} == {None}
    assert found.ndcg[0] is not None
    assert rank_titles(one_logit, QUERY, [Title("红烧排骨" * 50)], (), "zero").truncated == 1


def test_terms_as_explain_has_them(model):
    figure, passed_over = term_moves(model, STATE)
    assert passed_over == 0 and len(figure.lines) == 4
    for out, lines in zip(((), OUT), (figure.lines[:2], figure.lines[2:]), strict=True):
        scorer = model.without(out, "zero")
        expected = explain_pair(QUERY, STATE.title, scorer, model.segmenter)
        assert ["".join(t.text for t in line.tokens) for line in lines] == [QUERY, STATE.title]
        values = [t.value for line in lines for t in line.tokens if t.value is not None]
        assert values == pytest.approx([one.change for one in expected.terms], abs=1e-5)


def test_words_that_share_a_token_are_one_term(model):
    state = replace(STATE, query="ＡＢ高铁", title="カナ，한국의高铁", out=())
    figure, _ = term_moves(model, state)
    query, title = ([t.text for t in line.tokens] for line in figure.lines)
    assert query == ["ＡＢ", "高铁"] and title == ["カナ", "，", "한국의", "高铁"]
    assert [t.value is None for t in figure.lines[1].tokens] == [False, True, False, False]


def test_the_number_of_masked_terms_is_limited(model, monkeypatch):
    monkeypatch.setattr(ranking, "MOST_TERMS", 3)
    state = replace(STATE, query="高铁", title="高铁 排骨 " * 5, out=())
    figure, passed_over = term_moves(model, state)
    assert sum(t.value is not None for line in figure.lines for t in line.tokens) == 3
    assert passed_over == 8


def test_heads_as_explain_has_them(model):
    grid = head_moves(model, QUERY, STATE.title)
    expected = {one.head: one.change for one in explain_heads(QUERY, STATE.title, model.scorer)}
    assert len(expected) == model.shape.layers * model.shape.heads
    for name, change in expected.items():
        head = Head.parse(name)
        assert grid.values[head.layer][head.head] == pytest.approx(change, abs=1e-6)


def metrics(at: AppTest) -> dict[str, str]:
    return {metric.label.replace("\\", ""): metric.value for metric in at.main.metric}


def titles(at: AppTest) -> list[str]:
    return list(at.main.dataframe[0].value["title"])


def typed(at: AppTest, text: str) -> AppTest:
    return at.text_area(key="ranking.titles").set_value(text).run()


def test_the_pair_is_ranked_with_other_titles(app):
    at = app("ranking", **PAIR, out="none")
    assert not at.exception and not at.error
    assert PAIR["t"] in titles(at) and len(titles(at)) == 8
    assert metrics(at) == {}


def test_typed_titles_with_labels_and_heads_out(app):
    at = app("ranking", **PAIR, out="L0H1 L1H0", lang="en")
    typed(at, "红烧排骨的家常做法\t1\n北京上海高铁票多少钱\t5\n上海到北京高铁票价\t2")
    assert not at.exception
    table = at.main.dataframe[0].value
    assert len(table) == 3
    assert {"place", "moved", "label", "score", "without", "change"} <= set(table.columns)
    assert list(table["score"]) == sorted(table["score"], reverse=True)
    assert "NDCG@10" in metrics(at)
    assert any("in no link" in caption.value for caption in at.main.caption)


def test_typed_titles_survive_a_change_of_page(app):
    at = typed(app("ranking", **PAIR), "甲\n乙")
    at.switch_page("screens/order.py").run()
    at.switch_page("screens/ranking.py").run()
    assert at.text_area(key="ranking.titles").value == "甲\n乙"
    at.sidebar.text_input(key="side-query").set_value("狗追猫").run()
    assert at.text_area(key="ranking.titles").value.startswith(PAIR["t"])


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "\x00👨‍👩‍👧", "=1+1\n" * 200])
def test_hostile_titles_stay_text(app, text):
    at = typed(app("ranking", **PAIR), text)
    assert not at.exception and not at.error
    assert len(titles(at)) == 1


def test_a_title_is_looked_at_on_the_front_page(app):
    at = typed(app("ranking", **PAIR), "红烧排骨的家常做法")
    at.button(key="ranking.open").click().run()
    assert not at.exception
    assert at.query_params["t"] == "红烧排骨的家常做法"
    assert not [area for area in at.text_area if area.key == "ranking.titles"]
