"""The page of word order: other orders of a text, grades with and without heads, several draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from apps.screens.order import (
    HeadSet,
    Shuffled,
    distributions,
    draws,
    draws_bars,
    head_sets,
    shuffled,
    text_figure,
    trained,
    typed_order,
    ways,
)
from qt_bert.ablation.families import layer_matched
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.request import leave_heads_out
from qt_bert.data.pairs import Pair
from qt_bert.inspection.inspected import Inspected, Shelf
from qt_bert.inspection.study import Studied
from qt_bert.models.heads import Head, spell
from qt_bert.probes.order import CASE_QUERY, CASE_SHUFFLED, CASE_TITLE
from qt_bert.results.heads import head_tables
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import read_outputs
from qt_bert.text import Text
from tests.apps.conftest import Visit, plain
from tests.results.made_heads import matching

Build = Callable[..., Path]
QUERY, TITLE = "京东小哥", "京东小哥最近在干嘛"
OTHER = Shuffled(query=QUERY, title=TITLE, side="title", text="嘛干在近最哥小东京")
SET = HeadSet(Text("甲", "a set"), (Head(0, 1), Head(2, 0)))
LINK = {"q": QUERY, "t": TITLE, "lang": "en", "out": "L0H1"}


def inspect(folder: Path) -> Inspected:
    shelf = Shelf(folder)
    return shelf.open(shelf.names[0])


@pytest.fixture(scope="module")
def inspected(checkpoint_of: Build) -> Inspected:
    return inspect(checkpoint_of(layers=4, heads=4))


def expected(inspected: Inspected, texts: list[tuple[str, str]], heads: str) -> np.ndarray:
    """Expected grades by the scorer that the command line uses."""
    scorer = Scorer(inspected.scorer.checkpoint)
    if heads:
        pairs = [Pair(*texts[0], None, "1", 1, None, {})]
        scorer = leave_heads_out(scorer, heads, "zero", pairs)
    logits = np.concatenate([scorer.logits([one]) for one in texts])
    return read_outputs(logits, inspected.labels).ranking_score


def test_grades_are_those_of_the_command_line(inspected: Inspected) -> None:
    whole, out, random = ways(inspected, OTHER, [SET], "zero", 0)
    for way, heads in ((whole, ""), (out, spell(SET.heads))):
        both = expected(inspected, [OTHER.before, OTHER.after], heads)
        np.testing.assert_array_equal(way.scores[0], both)
        assert way.changes == pytest.approx(both[1] - both[0])
    assert whole.changes[0] != 0 != out.changes[0] - whole.changes[0]
    assert (out.size, random.size, random.heads, whole.size) == (2, 2, (), 0)
    assert whole.predicted is not None and random.predicted is None and random.random


def test_random_heads_are_layer_matched_draws(inspected: Inspected) -> None:
    random = ways(inspected, OTHER, [SET], "zero", 5)[2]
    sets = layer_matched(inspected.shape, lambda h: HeadMask(tuple(h)), SET.heads, 20, 5)
    assert len(random.scores) == len(sets) == 9  # three others in each of two layers
    both = [expected(inspected, [OTHER.before, OTHER.after], spell(s.heads)) for s in sets]
    np.testing.assert_allclose(random.scores, both, atol=1e-5)
    np.testing.assert_allclose(random.shares[:, 1].sum(-1), 1, atol=1e-5)


def test_a_layer_without_others_has_no_random_heads(inspected: Inspected) -> None:
    most = HeadSet(Text("乙", "most"), tuple(Head(1, n) for n in range(3)))
    found = ways(inspected, OTHER, [most], "uniform", 0)
    assert [one.random for one in found] == [False, False]


def test_several_draws(inspected: Inspected) -> None:
    drawn = draws(inspected, OTHER, "characters", 3)
    assert len(drawn) == 20
    bars = draws_bars(inspected, drawn, [SET], "zero")
    before = expected(inspected, [OTHER.before], spell(SET.heads))[0]
    changes = expected(inspected, [one.after for one in drawn], spell(SET.heads)) - before
    (series,) = bars.series
    assert series.values[1] == pytest.approx(changes.mean(), abs=1e-5)
    assert series.intervals is not None
    assert series.intervals[1] == pytest.approx((changes.min(), changes.max()), abs=1e-5)


def test_draws_count_texts_that_come_again(inspected: Inspected) -> None:
    short = Shuffled(query=QUERY, title="京东", side="title", text="东京")
    drawn = draws(inspected, short, "swap", 0)
    assert {one.text for one in drawn} == {"东京"}
    assert "20 draws (1 different texts)" in draws_bars(inspected, drawn, [], "zero").title.en
    assert len(draws(inspected, OTHER, "reversal", 0)) == 1


@pytest.mark.parametrize("kind", ["characters", "words", "reversal", "swap"])
@pytest.mark.parametrize("side", ["title", "query"])
def test_a_seed_gives_one_order(inspected: Inspected, kind: str, side: str) -> None:
    def drawn(seed: int) -> Shuffled | None:
        return shuffled(inspected, QUERY, TITLE, side, kind, seed)

    one = drawn(0)
    assert one is not None and one == drawn(0)
    assert sorted(one.text) == sorted(one.original) and one.text != one.original
    assert one.after[side == "query"] == one.before[side == "query"]
    if kind == "characters":
        assert len({getattr(drawn(seed), "text", "") for seed in range(8)}) > 1


@pytest.mark.parametrize("text", ["哥", "哈哈哈", ""])
def test_texts_without_another_order(inspected: Inspected, text: str) -> None:
    for kind in ("characters", "words", "reversal", "swap"):
        assert shuffled(inspected, QUERY, text, "title", kind, 0) is None


def test_a_typed_order() -> None:
    article = typed_order(CASE_QUERY, CASE_TITLE, "title", CASE_SHUFFLED)
    assert article is not None
    assert typed_order(CASE_QUERY, CASE_TITLE, "title", "  ") is None
    assert typed_order(CASE_QUERY, CASE_TITLE, "query", CASE_QUERY) is None
    dirty = typed_order(CASE_QUERY, CASE_TITLE, "query", "哥\x00小\n东京")
    assert dirty is not None and dirty.text == "哥小 东京"
    figure = text_figure(article)
    assert [len(line.tokens) for line in figure.lines] == [len(CASE_TITLE), len(CASE_SHUFFLED)]
    assert [token.marked for token in figure.lines[1].tokens] == [
        one != other for one, other in zip(CASE_SHUFFLED, CASE_TITLE + " ", strict=True)
    ]


def test_sets_of_the_same_heads_come_once() -> None:
    studied = Studied(tables=tuple(head_tables([matching()])), origin=Text("", ""))
    heads = tuple(sorted(studied.sets["matching"]))
    (found,) = head_sets(studied, heads[::-1])
    assert found.heads == heads and found.name.zh == "匹配头 = 左栏所选"
    assert head_sets(None, ()) == []


def test_the_picture(inspected: Inspected) -> None:
    figure = distributions(ways(inspected, OTHER, [SET], "zero", 0), inspected.labels)
    assert figure.categories == tuple("12345")
    names = [getattr(series.name, "en", "") for series in figure.series]
    assert names[:3] == ["as it was", "reordered", "reordered, a set out"]
    assert all(sum(v for v in s.values if v) == pytest.approx(1, abs=1e-5) for s in figure.series)
    assert figure.series[2].intervals is None and figure.series[3].intervals is not None


def test_a_model_of_one_logit(checkpoint_of: Build) -> None:
    inspected = inspect(checkpoint_of(labels=1))
    found = ways(inspected, OTHER, [HeadSet(Text("", ""), (Head(0, 0),))], "zero", 0)
    figure = distributions(found, inspected.labels)
    assert len(figure.categories) == 1 and found[0].predicted is None
    assert figure.series[0].values[0] == found[0].scores[0, 0]


def test_what_the_folder_says_of_training(checkpoint_of: Build, fresh_checkpoint: Build) -> None:
    folder = fresh_checkpoint()
    assert "do not say" in trained(inspect(folder)).en
    (folder / "README.md").write_text("| `shuffled_words` | 1-2 | 800 |\n", encoding="utf-8")
    assert "was taught" in trained(inspect(folder)).en


def metrics(at: AppTest) -> list[str]:
    return [one.value for one in at.metric]


def test_the_page_grades_both_orders(app: Visit) -> None:
    at = app("order", **LINK)
    assert not at.exception
    text = plain(at)
    assert "do not say whether it saw shuffled titles" in text
    assert "your choice: L0H1" in text
    assert len(at.metric) == 3 and len(at.dataframe) == 1
    assert at.selectbox(key="order.kind").value == "characters"


def test_another_seed_and_another_kind(app: Visit) -> None:
    at = app("order", **LINK)
    first = metrics(at)
    at.button(key="order.again").click().run()
    assert not at.exception and at.query_params["seed"] in ("1", ["1"])
    second = metrics(at)
    assert first[0] == second[0] and first[1] != second[1]
    at.selectbox(key="order.kind").select("reversal").run()
    assert not at.exception and metrics(at)[1] not in (first[1], second[1])


def test_the_articles_case_is_one_click_away(app: Visit) -> None:
    at = app("order", q="苹果手机", t="苹果手机多少钱", lang="en")
    at.button(key="order.article").click().run()
    assert not at.exception
    assert at.query_params["q"] in (CASE_QUERY, [CASE_QUERY])
    assert at.text_input(key="order.typed").value == CASE_SHUFFLED


def test_a_text_with_no_other_order(app: Visit) -> None:
    at = app("order", q="京东", t="哈哈哈", lang="en")
    assert not at.exception and "no other arrangement" in plain(at) and not at.metric
    at.radio(key="order.side").set_value("query").run()
    assert not at.exception and len(at.metric) == 2


def test_a_hostile_order_stays_text(app: Visit) -> None:
    at = app("order", **LINK)
    at.selectbox(key="order.kind").select("typed").run()
    assert "no other arrangement" in plain(at)
    at.text_input(key="order.typed").set_value("<img src=x onerror=alert(1)>").run()
    assert not at.exception and len(at.metric) == 3
