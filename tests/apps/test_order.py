"""The page of word order: other orders of a text, grades with and without heads."""

from collections.abc import Iterable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from apps.screens.order import (
    HeadSet,
    Shuffled,
    head_sets,
    shuffled,
    text_figure,
    typed_order,
    ways,
)
from qt_bert.ablation.families import layer_matched
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.request import leave_heads_out
from qt_bert.data.pairs import Pair
from qt_bert.heads import Head, format_heads
from qt_bert.page.model import SharedModel
from qt_bert.page.results import HeadResults
from qt_bert.probes.order import CASE_QUERY, CASE_SHUFFLED, CASE_TITLE
from qt_bert.results.heads import head_tables
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import read_outputs
from qt_bert.text import Text
from tests.apps.conftest import opened, plain
from tests.results.made_heads import matching

QUERY, TITLE = "京东小哥", "京东小哥最近在干嘛"
PAIR = (QUERY, TITLE)
OTHER = Shuffled(PAIR, (QUERY, "嘛干在近最哥小东京"))
SET = HeadSet(Text("甲", "a set"), (Head(0, 1), Head(2, 0)))
LINK = {"q": QUERY, "t": TITLE, "lang": "en", "out": "L0H1"}


@pytest.fixture(scope="module")
def model(checkpoint_of):
    return opened(checkpoint_of(layers=4, heads=4))


def expected(model: SharedModel, texts: Iterable[tuple[str, str]], heads: str) -> list[float]:
    """Expected grades by the scorer that the command line uses."""
    scorer = Scorer(model.scorer.checkpoint)
    if heads:
        scorer = leave_heads_out(scorer, heads, "zero", [Pair(*PAIR, None, "1", 1, None, {})])
    outputs = (read_outputs(scorer.logits([one]), model.labels) for one in texts)
    return [float(one.ranking_score[0]) for one in outputs]


def test_grades_are_those_of_the_command_line(model):
    whole, out, random = ways(model, OTHER, [SET], "zero", 0)
    for way, heads in ((whole, ""), (out, format_heads(SET.heads))):
        both = expected(model, OTHER, heads)
        assert way.scores[0].tolist() == both
        assert way.changes == pytest.approx(both[1] - both[0])
    assert whole.changes[0] != 0 != out.changes[0] - whole.changes[0]
    assert (out.heads, random.heads, whole.heads) == (SET.heads, SET.heads, ())
    assert whole.predicted is not None and random.predicted is None and random.random


def test_random_heads_are_layer_matched_draws(model):
    random = ways(model, OTHER, [SET], "zero", 5)[2]
    sets = layer_matched(model.shape, lambda h: HeadMask(tuple(h)), SET.heads, 20, 5)
    assert len(random.scores) == len(sets) == 9  # three others in each of two layers
    both = [expected(model, OTHER, format_heads(s.heads)) for s in sets]
    np.testing.assert_allclose(random.scores, both, atol=1e-5)


def test_a_layer_without_others_has_no_random_heads(model):
    most = HeadSet(Text("乙", "most"), tuple(Head(1, n) for n in range(3)))
    found = ways(model, OTHER, [most], "uniform", 0)
    assert [one.random for one in found] == [False, False]


@pytest.mark.parametrize("kind", ["characters", "words"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_seed_gives_one_order(model, kind, side):
    def drawn(seed: int) -> Shuffled:
        found = shuffled(model, PAIR, side, kind, seed)
        assert found is not None
        return found

    one = drawn(0)
    assert one == drawn(0) and one.before == PAIR
    text, other = one.after[side], one.after[1 - side]
    assert sorted(text) == sorted(PAIR[side]) and text != PAIR[side]
    assert other == PAIR[1 - side]
    if kind == "characters":
        assert len({drawn(seed).after for seed in range(8)}) > 1


@pytest.mark.parametrize("text", ["哥", "哈哈哈", ""])
def test_texts_without_another_order(model, text):
    for kind in ("characters", "words"):
        assert shuffled(model, (QUERY, text), 1, kind, 0) is None


def test_a_typed_order():
    case = (CASE_QUERY, CASE_TITLE)
    article = typed_order(case, 1, CASE_SHUFFLED)
    assert article == Shuffled(case, (CASE_QUERY, CASE_SHUFFLED))
    assert typed_order(case, 1, "  ") is None
    assert typed_order(case, 0, CASE_QUERY) is None
    dirty = typed_order(case, 0, "哥\x00小\n东京")
    assert dirty is not None and dirty.after == ("哥小 东京", CASE_TITLE)
    figure = text_figure(article, 1)
    assert [len(line.tokens) for line in figure.lines] == [len(CASE_TITLE), len(CASE_SHUFFLED)]
    assert [token.marked for token in figure.lines[1].tokens] == [
        one != other for one, other in zip(CASE_SHUFFLED, CASE_TITLE + " ", strict=True)
    ]


def test_sets_of_the_same_heads_come_once():
    results = HeadResults(tables=tuple(head_tables([matching()])), origin=Text("", ""))
    heads = tuple(sorted(results.sets["matching"]))
    (found,) = head_sets(results, heads[::-1])
    assert found.heads == heads and found.name.zh == "匹配头 = 左栏所选"
    assert head_sets(None, ()) == []


def test_a_model_of_one_logit(checkpoint_of):
    one = opened(checkpoint_of(labels=1))
    whole, out, *_ = ways(one, OTHER, [HeadSet(Text("", ""), (Head(0, 0),))], "zero", 0)
    assert whole.predicted is None and out.scores[0].tolist() == expected(one, OTHER, "L0H0")


def metrics(at: AppTest) -> list[str]:
    return [one.value for one in at.metric]


def test_the_page_grades_both_orders(app):
    at = app("order", **LINK)
    assert not at.exception and "your choice: L0H1" in plain(at)
    assert len(at.metric) == 3 and len(at.dataframe) == 1
    first = metrics(at)
    at.number_input(key="side-seed").set_value(1).run()
    assert not at.exception
    second = metrics(at)
    assert first[0] == second[0] and first[1] != second[1]
    at.selectbox(key="order.kind").select("words").run()
    assert not at.exception and metrics(at)[0] == first[0]


def test_the_articles_case_is_one_click_away(app):
    at = app("order", q="苹果手机", t="苹果手机多少钱", lang="en")
    at.button(key="order.article").click().run()
    assert not at.exception
    assert at.query_params["q"] in (CASE_QUERY, [CASE_QUERY])
    assert at.text_input(key="order.typed").value == CASE_SHUFFLED


def test_a_text_with_no_other_order(app):
    at = app("order", q="京东", t="哈哈哈", lang="en")
    assert not at.exception and "no other order" in plain(at) and not at.metric
    at.radio(key="order.side").set_value("query").run()
    assert not at.exception and len(at.metric) == 2
