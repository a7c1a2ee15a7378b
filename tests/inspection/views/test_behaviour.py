"""The behaviour card made here: scores against the scorer's, the card by hand, any model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.splits import sample_queries
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inputs import shipped_rows
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.turns import Stopped, Turns
from qt_bert.inspection.views import behaviour
from qt_bert.inspection.views.behaviour import (
    Card,
    Scores,
    band_here,
    card,
    case_rows,
    case_tokens,
    judge_few,
    kept_scores,
    line_rows,
    score_bars,
    score_cases,
    shipped_cases,
    units,
    worst_first,
)
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head
from qt_bert.probes.behaviour_cases import COLUMNS, Case, Cases, read_cases
from qt_bert.results.head_sets import PHENOMENA

Build = Callable[..., Path]
OUT = (Head(0, 1), Head(1, 0))
ROWS = [
    ("d1", "direction", "better", "北京到上海高铁", "北京到上海高铁票", "上海到北京高铁票"),
    ("d2", "direction", "better", "狗追猫", "狗追猫的故事", "猫追狗的故事"),
    ("d3", "direction", "better", "京东小哥", "京东小哥最近在干嘛", "小哥京东最近在干嘛"),
    ("f1", "filler", "alike", "红烧排骨做法", "红烧排骨的做法", "红烧排骨做法"),
    ("f2", "filler", "alike", "苹果多少钱一斤", "苹果多少钱一斤", "苹果一斤多少钱呢"),
    ("f3", "filler", "alike", "上海高铁", "上海的高铁", "上海高铁"),
]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behaviour, "_kept_scores", Kept())
    monkeypatch.setattr(behaviour, "_bands", Kept())
    monkeypatch.setattr(behaviour, "_kept_cards", Kept())


@pytest.fixture(scope="module")
def inspected(checkpoint_of: Build) -> Inspected:
    return Inspected("tiny", open_checkpoint(checkpoint_of(layers=3)), Turns())


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    path = tmp_path_factory.mktemp("cases") / "cases.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in (COLUMNS, *ROWS)), encoding="utf-8")
    return read_cases(path)


def scored(inspected: Inspected, cases: Cases, out: tuple[Head, ...]) -> None:
    with inspected.turns.job() as job:
        score_cases(inspected, cases, out, "zero", job)


@pytest.fixture
def planted(inspected: Inspected, cases: Cases, monkeypatch: pytest.MonkeyPatch) -> Card:
    """A model that is right, undecided and wrong; without the heads it tells all directions, and
    every filler moves it."""

    def found(_: Inspected, __: Cases, out: tuple[Head, ...], mode: str) -> Scores:
        if out:
            return Scores(np.array([4.0, 3, 2, 5, 5, 5]), np.array([1, 1, 1, 3.1, 3, 1]), 0)
        return Scores(np.array([4.0, 3, 2, 3, 3, 3]), np.array([2, 3.1, 4, 3.1, 3, 1]), 2)

    monkeypatch.setattr(behaviour, "kept_scores", found)
    made = card(inspected, cases, OUT, "zero", 0)
    assert made is not None and made.complete
    return made


def test_the_cases_that_ship_are_there() -> None:
    assert set(shipped_cases().phenomena) == set(PHENOMENA)


def test_scores_are_the_scorers_own(inspected: Inspected, cases: Cases) -> None:
    assert units(inspected, cases, OUT, "zero") == 24
    scored(inspected, cases, OUT)
    assert units(inspected, cases, OUT, "zero") == 0
    assert units(inspected, cases, (Head(0, 0),), "zero") == 12
    for out in ((), OUT):
        scorer, found = inspected.without(out, "zero"), kept_scores(inspected, cases, out, "zero")
        assert found is not None and found.truncated == 0
        for place, scores in ((4, found.titles), (5, found.others)):
            logits = scorer.logits([(row[3], row[place]) for row in ROWS])
            assert scores == pytest.approx(inspected.outputs(logits).ranking_score, abs=1e-5)
    assert kept_scores(inspected, cases, OUT, "uniform") is None


def test_a_few_at_once_are_judged_alike(inspected: Inspected, cases: Cases) -> None:
    scored(inspected, cases, OUT)
    whole, few = (
        card(inspected, cases, OUT, "zero", 0),
        judge_few(inspected, cases.listed, OUT, "zero"),
    )
    assert whole is not None
    for one, other in zip(whole.both.ways, few.ways, strict=True):
        assert one.deltas == pytest.approx(other.deltas, abs=1e-5)


def test_the_card_comes_as_far_as_it_was_made(inspected: Inspected, cases: Cases) -> None:
    assert card(inspected, cases, (), "zero", 0) is None
    scored(inspected, cases, ())
    plain, without = (card(inspected, cases, out, "zero", 0) for out in ((), OUT))
    assert plain is not None and plain.complete
    assert without is not None and not without.complete and without.both.without is None
    scored(inspected, cases, OUT)
    done = card(inspected, cases, OUT, "zero", 0)
    assert done is not None and done.complete and done.both.without is not None


def test_a_stop_leaves_nothing(inspected: Inspected, cases: Cases) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped), inspected.turns.job(stop=stop) as job:
        score_cases(inspected, cases, (), "zero", job)
    assert kept_scores(inspected, cases, (), "zero") is None


def test_the_card_by_hand(planted: Card) -> None:
    direction, filler = planted.lines["direction"], planted.lines["filler"]
    whole = direction.whole
    assert (sorted(whole.outcomes), whole.score.value) == ([-1, 0, 1], 0)
    assert sorted(filler.whole.outcomes) == [-1, 1, 1]
    assert filler.whole.score.value == pytest.approx(1 / 3)
    assert direction.without is not None and filler.without is not None
    assert (direction.without.score.value, filler.without.score.value) == (1, -1)
    assert direction.change is not None and filler.change is not None
    assert direction.change.value == 1 and filler.change.value == pytest.approx(-4 / 3)
    assert planted.weakest == "direction" and planted.both.truncated == 2
    of = planted.of("filler")
    assert [case.id for case in of.whole.cases] == ["f1", "f2", "f3"]
    assert of.without is not None and of.without.deltas == pytest.approx([1.9, 2, 4])


def test_the_worst_cases_come_first(planted: Card) -> None:
    assert worst_first(planted.both.whole).tolist() == [2, 5, 1, 3, 4, 0]
    assert worst_first(planted.of("direction").whole).tolist() == [2, 1, 0]


def test_tables_and_bars_say_what_the_card_says(planted: Card) -> None:
    rows = line_rows(planted)
    assert [row["score"] for row in rows] == pytest.approx([0, 1 / 3])
    assert [[row[name] for name in ("right", "undecided", "wrong")] for row in rows] == [
        [1, 1, 1],
        [2, None, 1],
    ]
    assert [row["change"] for row in rows] == pytest.approx([1, -4 / 3])
    better, alike = score_bars(planted)
    assert [one.values for one in better.series] == [(0,), (1,)]
    assert alike.series[1].values == (-1,) and alike.series[0].intervals is not None
    found = case_rows(planted.both, [2, 5])
    assert [row["id"] for row in found] == ["d3", "f3"]
    assert [row["outcome"].en for row in found] == ["wrong", "wrong"]  # type: ignore[union-attr]
    assert found[0]["delta_without"] == 1 and found[0]["first"] == 2


def test_one_case_is_outlined_where_its_titles_differ(planted: Card, inspected: Inspected) -> None:
    figure = case_tokens(planted.both, 0, inspected.labels, "case")
    query, first, second = figure.lines
    assert query.tokens[0].text == "北京到上海高铁" and query.tokens[0].value is None
    assert "".join(token.text for token in first.tokens) == "北京到上海高铁票"
    alike = ["".join(t.text for t in line.tokens if not t.marked) for line in (first, second)]
    assert alike == ["北京高铁票"] * 2
    assert {token.value for token in first.tokens} == {4.0}
    assert first.name.en == "first title: 4.00 → 4.00"  # type: ignore[union-attr]
    assert second.name.en == "second title: 2.00 → 1.00"  # type: ignore[union-attr]
    assert (figure.low, figure.high) == (1, 5)


def test_without_heads_there_is_one_bar(inspected: Inspected, cases: Cases) -> None:
    scored(inspected, cases, ())
    found = card(inspected, cases, (), "zero", 0)
    assert found is not None
    assert [len(one.series) for one in score_bars(found)] == [1, 1]
    assert {row["change"] for row in line_rows(found)} == {None}


def test_bands(checkpoint_of: Build, inspected: Inspected) -> None:
    assert band_here(inspected).value == 0.25 and band_here(inspected).unit == "grade"
    levels = Inspected("levels", open_checkpoint(checkpoint_of(labels=3)), Turns())
    assert band_here(levels).value == 0.125 and band_here(levels).unit == "level"


def test_the_band_of_one_logit_is_a_median_gap(
    checkpoint_of: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behaviour, "BAND_PAIRS", 10)
    one = Inspected("one", open_checkpoint(checkpoint_of(labels=1)), Turns())
    pairs = sample_queries(shipped_rows("dev"), 10)
    gaps = []
    for query in dict.fromkeys(pair.query for pair in pairs):
        texts = [(pair.query, pair.title) for pair in pairs if pair.query == query]
        gaps += np.diff(np.sort(one.scorer.fresh().logits(texts)[:, 0])).tolist()
    band = band_here(one)
    assert band.value == pytest.approx(np.median(gaps), abs=1e-6)
    assert (band.gaps, band.source) == (len(gaps), "dev.tsv")


@pytest.mark.parametrize(
    ("family", "options"),
    [("xlm-roberta", {"labels": 1}), ("electra", {"layers": 1, "heads": 1}), ("ernie", {})],
)
@pytest.mark.parametrize("other", ["👨‍👩‍👧\u200d", "猫追狗0123 " * 40, "<b>x</b>", "\u200b"])
def test_any_model_and_text(
    checkpoint_of: Build,
    family: str,
    options: dict[str, int],
    other: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(behaviour, "BAND_PAIRS", 10)
    one = Inspected("one", open_checkpoint(checkpoint_of(family, **options)), Turns())
    case = Case("own", "own_better", "better", "狗追猫", "狗追猫", other)
    found = judge_few(one, [case], (Head(0, 0),), "uniform")
    assert len(found.ways) == 2 and found.truncated == (len(other) > 100)
    assert case_tokens(found, 0, one.labels, "own").to_json()
    assert case_rows(found, [0])[0]["other"] == other


def test_texts_are_cut_where_they_differ() -> None:
    first, second = behaviour.runs("狗追猫的故事", "猫追狗的故事")
    assert "".join(text for text, _ in first) == "狗追猫的故事"
    assert "".join(text for text, _ in second) == "猫追狗的故事"
    assert [text for text, differs in first if not differs][-1] == "的故事"
    assert behaviour.runs("甲", "甲乙") == ([("甲", False)], [("甲", False), ("乙", True)])
