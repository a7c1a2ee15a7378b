"""A file of several raters: columns, maps of labels, slices, bad input."""

import pytest

import qt_bert
from qt_bert.errors import QtBertError

ROWS = (
    ("猫", "a", "1", "2", "x"),
    ("猫", "b", "5", "1", "x"),
    ("狗", "c", "3", "3", "y"),
    ("狗", "d", "", "4", "y"),
    ("鸟", "e", "4", "4", "y,x"),
)


@pytest.fixture
def rated(tmp_path):
    path = tmp_path / "rated.tsv"
    lines = [("query", "title", "人工", "LLM", "field"), *ROWS]
    path.write_text("\n".join(map("\t".join, lines)) + "\n", encoding="utf-8")
    return path


def test_a_file_of_two_raters(rated):
    found = qt_bert.agree(rated, ["人工", "LLM"], by=["field"], resamples=20, most=2)
    assert found["rated"]["人工"] == 4 and found["pairs"]["n_queries"] == 3
    (both,) = found["between"]
    assert (
        both["metrics"]["agreement"]["value"] == 0.5 and both["metrics"]["bias"]["value"] == -0.75
    )
    assert [(one["line"], one["distance"]) for one in found["furthest"]] == [(3, 4), (2, 1)]
    slices = found["slices"]["field"]
    assert {
        name: one["between"][0]["metrics"]["agreement"]["n"] for name, one in slices.items()
    } == {
        "x": 3,
        "y": 2,
    }


def test_every_rater_may_have_a_scale_of_its_own(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text(
        "query,title,a,b\n高铁票价,x,0,1\n高铁票价,y,2,5\n上海天气,z,1,2\n", encoding="gb18030"
    )
    found = qt_bert.agree(path, ["a", "b"], grades=["0=1-2,1=3-4,2=5", "1=1,2=2,5=5"], resamples=0)
    assert found["labels"] == ["1", "1-2", "2", "3-4", "5"]
    assert found["between"][0]["metrics"]["agreement"]["value"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("raters", [["人工"], ["人工", "人工"], ["人工", "nobody"], ["no", "LLM"]])
def test_raters_that_are_not_there_are_told(rated, raters):
    with pytest.raises(QtBertError, match=raters[-1] if raters != ["no", "LLM"] else "no"):
        qt_bert.agree(rated, raters)


def test_labels_that_are_no_grades_stop_it(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("query\ttitle\ta\tb\n" + "狗\t猫\t0\t1\n" * 20, encoding="utf-8")
    with pytest.raises(QtBertError, match="20 labels of 'a'.*line 2.*--grades"):
        qt_bert.agree(path, ["a", "b"])
