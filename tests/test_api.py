"""The Python face: fifteen names, imported when used, and pairs graded."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

import qt_bert
from qt_bert.errors import ArgumentError


def test_every_public_name_is_there():
    assert len(qt_bert.__all__) == 16
    for name in qt_bert.__all__:
        assert getattr(qt_bert, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = qt_bert.nonsense


def test_importing_the_package_loads_no_torch():
    code = "import sys, qt_bert; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_one_pair(checkpoint_of):
    graded = qt_bert.load(checkpoint_of()).grade("京东小哥", "京东小哥最近在干嘛")
    assert list(graded.probabilities) == ["1", "2", "3", "4", "5"]
    assert sum(graded.probabilities.values()) == pytest.approx(1)
    assert graded.grade == max(graded.probabilities, key=graded.probabilities.__getitem__)
    expected = sum(int(g) * p for g, p in graded.probabilities.items())
    assert graded.expected == pytest.approx(expected)


def test_many_pairs_are_a_data_frame(checkpoint_of):
    grader = qt_bert.load(checkpoint_of())
    frame = grader.score([("狗", "猫"), ("京东小哥", "小哥")])
    assert isinstance(frame, pd.DataFrame) and len(frame) == 2
    assert frame.columns[0] == "query" and "expected_grade" in frame
    one = grader.grade("京东小哥", "小哥").expected
    assert frame["expected_grade"][1] == pytest.approx(one, abs=1e-5)


def test_a_reranker_gives_scores_and_no_grades(checkpoint_of):
    grader = qt_bert.load(checkpoint_of("xlm-roberta", labels=1))
    assert "score" in grader.score([("狗", "猫")])
    with pytest.raises(ArgumentError, match="gives one score and no grades"):
        grader.grade("狗", "猫")


def test_evaluate_and_explain(checkpoint_of, pair_file):
    grader = qt_bert.load(checkpoint_of())
    assert grader.evaluate(pair_file)["metrics"]["accuracy"]["n"] == 8
    assert grader.explain("京东小哥", "京东小哥最近").terms


@pytest.mark.parametrize("pairs", [["ab", "cd"], [("a", "")], [("a", None)], [("a",)], "ab", None])
def test_what_is_no_pair_of_texts_is_refused(checkpoint_of, pairs):
    with pytest.raises(ArgumentError, match="pair"):
        qt_bert.load(checkpoint_of()).score(pairs)


def test_an_empty_pair_has_no_grade(checkpoint_of):
    with pytest.raises(ArgumentError, match="neither empty"):
        qt_bert.load(checkpoint_of()).grade("", " ")


def test_pairs_may_come_from_a_generator(checkpoint_of):
    frame = qt_bert.load(checkpoint_of()).score(pair for pair in [("狗", "猫")])
    assert list(frame["title"]) == ["猫"]
