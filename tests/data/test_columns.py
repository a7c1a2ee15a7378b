from __future__ import annotations

import pytest

from qt_bert.data.columns import Columns, parse_columns
from qt_bert.errors import ArgumentError, PairFileError


def test_defaults_by_name() -> None:
    place = Columns.resolve({}).place(["id", "title", "query", "grade", "field"], "f")
    assert (place.query, place.title, place.grade, place.id) == (2, 1, 3, 0)
    assert place.extra == (("field", 4),)


def test_defaults_by_position() -> None:
    place = Columns.resolve({}, header=False).place(["a", "b", "c"], "f")
    assert (place.query, place.title, place.grade, place.id) == (0, 1, 2, None)


def test_given_positions_count_from_one_and_push_default_grade_and_id_aside() -> None:
    place = Columns.resolve({"query": "2", "title": 3}, header=False).place(list("abcd"), "f")
    assert (place.query, place.title, place.grade, place.id) == (1, 2, None, 3)


def test_query_and_title_may_change_places() -> None:
    place = Columns.resolve({"query": "title", "title": "query"}).place(["query", "title"], "f")
    assert (place.query, place.title) == (1, 0)


def test_a_missing_column_names_the_columns_there_are() -> None:
    with pytest.raises(PairFileError, match=r"^f: no column 'title' for the title; .*'q', 't'"):
        Columns.resolve({"query": "q"}).place(["q", "t"], "f")


def test_a_long_list_of_columns_is_cut() -> None:
    with pytest.raises(PairFileError, match="and 8 more"):
        Columns.resolve({}).place([f"c{i}" for i in range(20)], "f")


def test_a_required_grade_that_is_elsewhere_taken_is_missing() -> None:
    columns = Columns.resolve({"title": "grade"}, required=["grade"])
    with pytest.raises(PairFileError, match="for the grade"):
        columns.place(["query", "grade"], "f")


def test_a_column_called_twice_is_refused() -> None:
    with pytest.raises(PairFileError, match="2 columns are called 'x'"):
        Columns.resolve({}).place(["query", "title", "x", "x"], "f")


def test_parse() -> None:
    assert parse_columns("query=q, title = t") == {"query": "q", "title": "t"}


@pytest.mark.parametrize("spec", ["", "query", "query=", "=q", "query=q,", "query=a,query=b"])
def test_bad_specifications_are_refused(spec: str) -> None:
    with pytest.raises(ArgumentError, match="--columns"):
        parse_columns(spec)


@pytest.mark.parametrize(
    ("given", "header", "reason"),
    [
        ({"label": "x"}, True, "unknown name 'label'"),
        ({"query": "title"}, True, "query and title"),
        ({"query": "a", "grade": "a"}, True, "query and grade"),
        ({"query": "q"}, False, "position"),
        ({"query": "0"}, False, "position"),
        ({"query": -1}, False, "position"),
        ({"query": "²"}, False, "position"),
        ({"query": "2"}, False, "query and title"),
    ],
)
def test_columns_that_cannot_be_meant(
    given: dict[str, str | int], header: bool, reason: str
) -> None:
    with pytest.raises(ArgumentError, match=reason):
        Columns.resolve(given, header=header)
