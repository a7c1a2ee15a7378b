"""The titles of one query: typed, or of a file of pairs."""

from __future__ import annotations

from qt_bert.data.pairs import Pair
from qt_bert.inspection.views.ranking import (
    MOST_CHARACTERS,
    MOST_TITLES,
    Title,
    default_titles,
    queries_of,
    titles_of,
    typed_titles,
    written,
)
from qt_bert.models.card import ModelLabels

GRADES = ModelLabels(5, tuple((g,) for g in range(1, 6)))
LEVELS = ModelLabels(3, None)


def pair(query: str, title: str, label: str | None = None) -> Pair:
    return Pair(query, title, None, "1", 1, label, {})


ROWS = [
    pair("甲", "一", "5"),
    pair("甲", "二"),
    pair("乙", "三"),
    pair("丙", "四"),
    pair("丙", "五"),
]


def test_a_title_a_line_with_a_label_after_a_tab() -> None:
    titles, faults = typed_titles("红烧排骨\t4\n\n  清蒸鱼 \n红烧排骨\t2\n", GRADES)
    assert titles == [Title("红烧排骨", "4", (4,)), Title("清蒸鱼")]
    assert [fault.en for fault in faults] == ["1 lines repeat a title."]


def test_labels_are_read_as_the_model_means_them() -> None:
    titles, faults = typed_titles("甲\t0\n乙\t5", LEVELS)
    assert [title.grades for title in titles] == [(1,), None]
    assert "cannot read 1 of the labels (5)" in faults[0].en


def test_no_more_titles_and_characters_than_can_be_run() -> None:
    text = "\n".join(f"{n}" for n in range(MOST_TITLES + 3)) + "\n" + "长" * (MOST_CHARACTERS + 1)
    titles, faults = typed_titles(text, GRADES)
    assert len(titles) == MOST_TITLES
    assert "4 more are left out" in faults[0].en
    assert "1 titles are longer" in faults[1].en
    (long,), _ = typed_titles("长" * 600, GRADES)
    assert len(long.text) == MOST_CHARACTERS


def test_control_characters_go_and_emoji_stay() -> None:
    titles, _ = typed_titles("<img src=x>\x00\x07\n👨‍👩‍👧 好\ud800", GRADES)
    assert [title.text for title in titles] == ["<img src=x>", "👨‍👩‍👧 好"]
    assert typed_titles(" \n\t\n", GRADES)[0] == []


def test_written_titles_are_read_again() -> None:
    titles = titles_of(ROWS, "甲")
    assert written(titles) == "一\t5\n二"
    assert typed_titles(written(titles), GRADES)[0] == [Title("一", "5", (5,)), Title("二")]


def test_queries_that_have_something_to_rank() -> None:
    assert queries_of(ROWS) == ["甲", "丙"]


def test_the_default_is_what_the_rows_have_for_the_query() -> None:
    assert [t.text for t in default_titles("甲", "二", ROWS, 0)] == ["一", "二"]
    assert [t.text for t in default_titles("甲", "新", ROWS, 0)] == ["新", "一", "二"]


def test_a_query_of_none_stands_beside_other_titles() -> None:
    titles = default_titles("丁", "四", ROWS, 0)
    assert titles[0] == Title("四")
    assert len({title.text for title in titles}) == len(titles) == 5
    assert default_titles("丁", "六", [], 0) == [Title("六")]
