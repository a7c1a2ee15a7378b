"""The behaviour card: scores against the scorer's, the card by hand, any model."""

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from apps.screens import behaviour
from apps.screens.behaviour import Card, band_of, case_row, judged_of, line_row, worst_first
from qt_bert.data.cases import COLUMNS, read_cases
from qt_bert.data.splits import sample_queries
from qt_bert.heads import Head
from qt_bert.page import pairs as page_pairs
from qt_bert.page.pairs import shipped_rows
from tests.apps.conftest import opened, plain, until

OUT = (Head(0, 1), Head(1, 0))
ROWS = [
    ("d1", "direction", "better", "北京到上海高铁", "北京到上海高铁票", "上海到北京高铁票"),
    ("d2", "direction", "better", "狗追猫", "狗追猫的故事", "猫追狗的故事"),
    ("d3", "direction", "better", "京东小哥", "京东小哥最近在干嘛", "小哥京东最近在干嘛"),
    ("f1", "filler", "alike", "红烧排骨做法", "红烧排骨的做法", "红烧排骨做法"),
    ("f2", "filler", "alike", "苹果多少钱一斤", "苹果多少钱一斤", "苹果一斤多少钱呢"),
    ("f3", "filler", "alike", "上海高铁", "上海的高铁", "上海高铁"),
]


PAIR = {"q": "北京到上海高铁", "t": "北京高铁票多少钱"}


@pytest.fixture(scope="module")
def model(checkpoint_of):
    return opened(checkpoint_of(layers=3))


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    path = tmp_path_factory.mktemp("cases") / "cases.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in (COLUMNS, *ROWS)), encoding="utf-8")
    return read_cases(path)


@pytest.fixture(autouse=True)
def six_cases(cases, monkeypatch):
    monkeypatch.setattr(page_pairs, "shipped_behaviours", lambda: cases)


@pytest.fixture
def planted(model, cases):
    """A model that is right, undecided and wrong; without the heads it tells all directions, and
    every filler moves it."""
    band = band_of(model)
    titles = [4.0, 3, 2, 3, 3, 3], [4.0, 3, 2, 5, 5, 5]
    others = [2, 3.1, 4, 3.1, 3, 1], [1, 1, 1, 3.1, 3, 1]
    ways = tuple(
        behaviour.ScoredCases(tuple(cases.listed), np.array(a), np.array(b), band.value)
        for a, b in zip(titles, others, strict=True)
    )
    return Card(band, ways, 2)


def test_scores_are_those_of_the_scorer(model, cases):
    texts = behaviour._texts(cases.listed)
    scorer = model.without(OUT, "zero")
    found = judged_of(model, cases.listed, scorer.logits(texts))
    for place, scores in ((4, found.titles), (5, found.others)):
        logits = scorer.logits([(row[3], row[place]) for row in ROWS])
        assert scores == pytest.approx(model.outputs(logits).ranking_score, abs=1e-5)


def test_the_card_by_hand(planted):
    whole, without = planted.of("direction").ways
    assert (sorted(whole.outcomes), whole.score.value) == ([-1, 0, 1], 0)
    assert without.score.value == 1
    whole, without = planted.of("filler").ways
    assert sorted(whole.outcomes) == [-1, 1, 1]
    assert (whole.score.value, without.score.value) == (pytest.approx(1 / 3), -1)
    assert [case.id for case in whole.cases] == ["f1", "f2", "f3"]
    assert without.deltas == pytest.approx([1.9, 2, 4])


def test_the_worst_cases_come_first(planted):
    assert worst_first(planted.ways[0]).tolist() == [2, 5, 1, 3, 4, 0]
    assert worst_first(planted.of("direction").ways[0]).tolist() == [2, 1, 0]


def test_the_tables_show_the_card(planted):
    rows = [line_row(planted.of(name), name, 0) for name in ("direction", "filler")]
    assert [row["score"] for row in rows] == pytest.approx([0, 1 / 3])
    outcomes = [[row[name] for name in ("right", "undecided", "wrong")] for row in rows]
    assert outcomes == [[1, 1, 1], [2, 0, 1]]
    assert [row["change"] for row in rows] == pytest.approx([1, -4 / 3])
    assert [row["without"] for row in rows] == [1, -1]
    assert all(str(row["change_interval"]).startswith("[") for row in rows)
    found = [case_row(planted, place) for place in (2, 5)]
    assert [row["id"] for row in found] == ["d3", "f3"]
    assert [row["outcome"].en for row in found] == ["wrong", "wrong"]
    assert found[0]["delta_without"] == 1
    alone = Card(planted.band, planted.ways[:1], 0)
    assert "change" not in line_row(alone.of("filler"), "filler", 0)


def test_the_band_of_one_logit_is_a_median_gap(checkpoint_of, monkeypatch):
    monkeypatch.setattr(behaviour, "BAND_PAIRS", 10)
    one = opened(checkpoint_of(labels=1))
    gaps: list[float] = []
    pairs = sample_queries(shipped_rows("dev"), 10)
    for query in dict.fromkeys(pair.query for pair in pairs):
        texts = [(pair.query, pair.title) for pair in pairs if pair.query == query]
        gaps += np.diff(np.sort(one.scorer.fresh().logits(texts)[:, 0])).tolist()
    band = band_of(one)
    assert band.value == pytest.approx(np.median(gaps), abs=1e-6)
    assert (band.gaps, band.source) == (len(gaps), "dev.tsv")


def judged(at: AppTest) -> AppTest:
    if [one for one in at.main.button if one.key == "behaviour.go"]:  # no test before has done it
        at.button(key="behaviour.go").click().run()
    return until(at, lambda: at.main.pills)


def tables(at: AppTest) -> list[list[str]]:
    return [list(frame.value.columns) for frame in at.main.dataframe]


def test_all_cases_are_judged_here(app):
    at = judged(app("behaviour", **PAIR, out="none", lang="en"))
    assert "All 6 cases of 6 queries" in plain(at)
    lines = next(one.value for one in at.main.dataframe if "right" in one.value)
    assert list(lines["n"]) == [3, 3] and "change" not in lines
    assert not [one for one in at.main.button if one.key == "behaviour.go"]
    at.sidebar.text_input(key="side-out").set_value("L0H1").run()
    assert "without the chosen heads" in at.main.button(key="behaviour.go").label
    at.button(key="behaviour.go").click().run()
    until(at, lambda: any("change" in columns for columns in tables(at)))


def test_a_phenomenon_has_its_cases_and_a_case_its_pairs(app):
    at = judged(app("behaviour", **PAIR, out="none"))
    at.pills(key="behaviour.phenomenon").set_value("filler").run()
    cases = next(one.value for one in at.main.dataframe if "outcome" in one.value)
    assert sorted(cases["id"]) == ["f1", "f2", "f3"]
    assert list(cases["delta"].abs()) == sorted(cases["delta"].abs(), reverse=True)
    at.button(key="behaviour.open-title").click().run()
    assert not at.exception
    assert (at.query_params["q"], at.query_params["t"]) == tuple(cases.iloc[0][["query", "title"]])
