"""The page Ranking: typed titles, a query that ships, heads left out, hostile input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from qt_bert.errors import EquivalenceError
from tests.apps.conftest import shown

Visit = Callable[..., AppTest]
PAIR = {"q": "北京到上海高铁票价", "t": "北京上海高铁票多少钱"}


def metrics(at: AppTest) -> dict[str, str]:
    return {metric.label.replace("\\", ""): metric.value for metric in at.main.metric}


def titles(at: AppTest) -> list[str]:
    return list(at.main.dataframe[0].value["title"])


def typed(at: AppTest, text: str) -> AppTest:
    return at.text_area(key="ranking.titles").set_value(text).run()


def test_the_pair_stands_beside_other_titles(app: Visit) -> None:
    at = app("ranking", **PAIR, out="none")
    assert not at.exception and not at.error
    assert PAIR["t"] in titles(at) and len(titles(at)) == 8
    assert metrics(at) == {}


def test_typed_titles_with_labels_and_heads_out(app: Visit) -> None:
    at = app("ranking", **PAIR, out="L0H1 L1H0", lang="en")
    typed(at, "红烧排骨的家常做法\t1\n北京上海高铁票多少钱\t5\n上海到北京高铁票价\t2")
    assert not at.exception
    table = at.main.dataframe[0].value
    assert len(table) == 3
    assert {"place", "moved", "label", "score", "without", "change"} <= set(table.columns)
    assert list(table["score"]) == sorted(table["score"], reverse=True)
    assert "NDCG@3" in metrics(at)
    assert any("no link holds them" in caption.value for caption in at.main.caption)


def test_a_query_that_ships_brings_its_titles(app: Visit) -> None:
    at = app("ranking", **PAIR)
    box = at.selectbox(key="ranking.shipped")
    query = box.options[0]
    box.select(query).run()
    assert not at.exception
    assert at.query_params["q"] == query
    assert any("NDCG" in label for label in metrics(at))
    again = app("ranking", q=query, t=at.query_params["t"])
    assert titles(again) == titles(at)


def test_typed_titles_survive_a_change_of_page(app: Visit) -> None:
    at = typed(app("ranking", **PAIR), "甲\n乙")
    at.switch_page("screens/order.py").run()
    at.switch_page("screens/ranking.py").run()
    assert at.text_area(key="ranking.titles").value == "甲\n乙"


def test_other_query_other_titles(app: Visit) -> None:
    at = typed(app("ranking", **PAIR), "甲\n乙")
    at.sidebar.text_input(key="side-query").set_value("狗追猫").run()
    assert at.text_area(key="ranking.titles").value.startswith(PAIR["t"])


@pytest.mark.parametrize(
    "text",
    ["<img src=x onerror=alert(1)>", "👨‍👩‍👧😀", "\x00\x07a", "长" * 5000, "=1+1\n" * 200, "$x$"],
)
def test_hostile_titles_stay_text(app: Visit, text: str) -> None:
    at = typed(app("ranking", **PAIR), text)
    assert not at.exception and not at.error
    assert len(titles(at)) == 1


def carriers(at: AppTest) -> AppTest:
    return at.toggle(key="ranking.carriers").set_value(True).run()


def test_heads_that_carry_a_term_come_when_asked_for(
    app: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qt_bert.scoring.explain.LEAST_TELLING", 0.0)
    monkeypatch.setattr("qt_bert.scoring.explain.LEAST_CHANGE", 0.0)
    at = app("ranking", **PAIR, lang="en")
    assert "put back together" not in shown(at)
    carriers(at)
    assert not at.exception and not at.error
    assert "put back together give 100 %" in shown(at)


def test_a_title_that_no_term_moves_has_no_such_heads(
    app: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qt_bert.scoring.explain.LEAST_TELLING", 9.0)
    at = carriers(app("ranking", **PAIR, lang="en"))
    assert not at.exception and "No term changes the score" in shown(at)


def test_a_patch_that_fails_its_guard_is_said_in_words(
    app: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise EquivalenceError("the patched pass differs from the hooked one")

    monkeypatch.setattr("qt_bert.inspection.views.movers.carriers", failing)
    at = carriers(app("ranking", **PAIR, lang="en"))
    assert not at.exception
    assert [one.value for one in at.error] == [
        "This cannot be done: the patched pass differs from the hooked one"
    ]
    assert len(titles(at)) == 8


def test_a_title_is_looked_at_on_the_front_page(app: Visit) -> None:
    at = typed(app("ranking", **PAIR), "红烧排骨的家常做法")
    at.button(key="ranking.open").click().run()
    assert not at.exception
    assert at.query_params["t"] == "红烧排骨的家常做法"
    assert not [area for area in at.text_area if area.key == "ranking.titles"]


def test_no_title_is_said(app: Visit) -> None:
    at = typed(app("ranking", **PAIR), " \n ")
    assert any("至少一条" in info.value for info in at.main.info)


def test_a_model_of_one_logit(
    app: Visit, checkpoint_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(checkpoint_of(labels=1)))
    at = app("ranking", **PAIR, out="L0H0")
    assert not at.exception
    assert "predicted" not in at.main.dataframe[0].value.columns
