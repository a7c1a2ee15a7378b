import numpy as np
import pytest

import qt_bert
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import QtBertError
from tests.conftest import write_pairs

ROWS = (
    ("猫", "a", "1", "2", "x"),
    ("猫", "b", "5", "1", "x"),
    ("狗", "c", "3", "3", "y"),
    ("狗", "d", "", "4", "y"),
    ("鸟", "e", "4", "4", "y,x"),
)


@pytest.fixture
def rated(tmp_path):
    return write_pairs(tmp_path / "rated.tsv", ROWS, "LLM", "field", label="人工")


def test_a_file_of_two_raters(rated):
    result = qt_bert.agree(rated, ["人工", "LLM"], by=["field"], resamples=20)
    (both,) = result["between"]
    assert both["metrics"]["bias"]["value"] == -0.75 and both["metrics"]["kappa"]["n"] == 4
    cells = np.zeros((5, 5), int)
    cells[[0, 2, 3, 4], [1, 2, 3, 0]] = 1
    assert both["confusion"] == cells.tolist()
    bias = {label: row["value"] for label, row in both["bias_by_label"].items()}
    assert bias == {"1": 1, "3": 0, "4": 0, "5": -4}
    assert [row["line"] for row in result["furthest"]] == [3, 2]
    assert result["furthest"][0]["labels"] == {"人工": "5", "LLM": "1"}
    slices = result["slices"]["field"]
    n = {name: part["between"][0]["metrics"]["kappa"]["n"] for name, part in slices.items()}
    assert n == {"x": 3, "y": 2}


def test_labels_may_be_sets_of_grades(write):
    rows = "query,title,grade,b\n高铁票价,x,0,1\n高铁票价,y,2,0\n上海天气,z,1,1\n"
    path = write("two.csv", rows.encode("gb18030"))
    reader = ReaderOptions(grades="2=5,0=1-2,1=3-4")
    result = qt_bert.agree(path, ["grade", "b"], reader, resamples=0)
    assert result["labels"] == ["1-2", "3-4", "5"]
    assert result["between"][0]["confusion"] == [[0, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert result["between"][0]["metrics"]["within_one"]["value"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("cell", ["N/A", "-", "7", "NaN", "3.5"])
def test_a_cell_without_a_grade_rejects_its_row_alone(rated, tmp_path, cell):
    rated.write_text(rated.read_text("utf-8") + f"鸟\tf\t{cell}\t2\ty\n", "utf-8")
    listed = tmp_path / "rejects.tsv"
    result = qt_bert.agree(rated, ["人工", "LLM"], resamples=20, rejects_path=listed)
    assert result["rejected"] == 1 and result["between"][0]["metrics"]["kappa"]["n"] == 4
    assert listed.read_text("utf-8").splitlines()[1] == (
        f"7\tbad grade of 人工 (--grades: what labels mean)\t{cell} 鸟 f"
    )
    with rated.open("a", encoding="utf-8") as handle:
        handle.writelines(f"鱼\t{i}\t1\tbad\ty\n" for i in range(10))
    with pytest.raises(QtBertError, match="bad grade of LLM .*: 10, bad grade of 人工 .*: 1"):
        qt_bert.agree(rated, ["人工", "LLM"], resamples=20)


@pytest.mark.parametrize(
    ("raters", "message"),
    [
        (["人工"], "人工: name two columns"),
        (["人工", "人工"], "each once"),
        (["人工", "no"], "no column 'no'; there are 人工, LLM"),
        (["LLM", "field"], "bad grade of field.*--grades.*: 5; the first is line 2, 'x 猫 a'"),
        (["LLM", "grade"], "no column 'grade'"),
    ],
)
def test_invalid_raters_are_refused(rated, raters, message):
    with pytest.raises(QtBertError, match=message):
        qt_bert.agree(rated, raters)
