from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.data.pairs import GradeMap
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError

Write = Callable[[str, str | bytes], Path]


def test_options_reach_the_reader(write: Write) -> None:
    path = write("f.csv", "甲,乙,1\n丙,丁,2\n")
    options = ReaderOptions(columns="query=2,title=1", no_header=True, grades="1=1-2,2=5")
    pairs = list(options.open(path))
    assert [(p.query, p.title, p.grades) for p in pairs] == [
        ("乙", "甲", (1, 2)),
        ("丁", "丙", (5,)),
    ]


def test_the_default_map_serves_where_no_grades_are_given(write: Write) -> None:
    path = write("f.tsv", "query\ttitle\tgrade\nq\tt\t2\n")
    default = GradeMap.identity()
    assert [p.grades for p in ReaderOptions().open(path, default_map=default)] == [(2,)]
    given = ReaderOptions(grades="2=5").open(path, default_map=default)
    assert [p.grades for p in given] == [(5,)]


@pytest.mark.parametrize("options", [ReaderOptions(columns=""), ReaderOptions(grades="")])
def test_an_empty_option_is_not_left_out(write: Write, options: ReaderOptions) -> None:
    with pytest.raises(ArgumentError):
        options.open(write("f.tsv", "query\ttitle\nq\tt\n"))
