"""`pairs.csv`: what is written is read back, whatever the texts hold."""

import pytest

from qt_bert.ablation.folder import format_grades, parse_grades, read_pairs, write_pairs
from qt_bert.data.pairs import Pair
from qt_bert.errors import RunFolderError

HOSTILE = ['"', "a,b", "x\ty", "第一\n第二", "a\rb", "a\r\nb", "NA", "null", " 狗 ", "\ufeff狗"]


def test_texts_come_back_as_they_are(tmp_path):
    pairs = [
        Pair(text, text[::-1], (1, 2), f"i{row}", row + 2, None, {})
        for row, text in enumerate(HOSTILE)
    ]
    write_pairs(tmp_path / "pairs.csv", pairs)
    assert read_pairs(tmp_path / "pairs.csv") == pairs


def test_labels_and_further_columns_are_left_behind(tmp_path):
    write_pairs(tmp_path / "p.csv", [Pair("狗", "猫", None, "7", 7, "3", {"field": "x"})])
    assert read_pairs(tmp_path / "p.csv") == [Pair("狗", "猫", None, "7", 7, None, {})]
    assert (tmp_path / "p.csv").read_text(encoding="utf-8") == (
        '"id","line","query","title","grades"\n"7",7,"狗","猫",""\n'
    )


@pytest.mark.parametrize(
    ("grades", "text"),
    [(None, ""), ((3,), "3"), ((1, 2), "1-2"), ((2, 3, 4), "2-4"), ((1, 3, 4), "1+3-4")],
)
def test_grades(grades, text):
    assert format_grades(grades) == text
    assert parse_grades(text) == grades


@pytest.mark.parametrize("content", [None, "a,b\n1,2\n", "id,line,query,title,grades\na,x,b,c,1\n"])
def test_another_or_a_missing_file_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "pairs.csv").write_text(content)
    with pytest.raises(RunFolderError, match="not the pairs of a sweep.*--overwrite"):
        read_pairs(tmp_path / "pairs.csv")
