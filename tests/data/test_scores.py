import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.scores import column_of, read_cells
from qt_bert.errors import ArgumentError, PairFileError

HEAD = "query\ttitle\tgrade\tscore\n"


@pytest.fixture
def scores(write):
    return write("scores.tsv", HEAD + "狗\t猫\t2\t0.5\n狗\t狗\t5\t9e-1\n羊\t牛\t1\t\n")


@pytest.mark.parametrize(
    ("name", "column"),
    [("log.tsv", "score"), ("C:log.tsv", "score"), ("log.tsv", "a:b"), ("log.tsv", "p_1,p_2")],
)
def test_the_shortest_file_before_a_colon(write, name, column):
    path = write(name, HEAD)
    assert column_of(f"{path}:{column}") == (path, column)
    assert column_of(str(path)) == (path, "")


@pytest.mark.parametrize(
    "model", [None, "models/graded", "org/name", "C:\\models\\graded", "m.onnx"]
)
def test_a_model_is_no_column(model):
    assert column_of(model) is None


@pytest.mark.parametrize("scorer", ["none.tsv:score", "D:\\none.jsonl.gz:score", "none.parquet"])
def test_a_missing_file_of_scores_is_named(scorer):
    with pytest.raises(ArgumentError, match="no such file.*none"):
        column_of(scorer)


def test_cells_by_query_and_title(scores):
    cells = read_cells(scores, "score", ReaderOptions())
    assert cells.of == {("狗", "猫"): (2, ("0.5",)), ("狗", "狗"): (3, ("9e-1",))}
    two = read_cells(scores, "grade,score", ReaderOptions())
    assert two.columns == ("grade", "score") and two.of["羊", "牛"] == (4, ("1", ""))


def test_names_with_commas_and_chinese_ones_in_gb18030(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_bytes("查询\t标题\t得分,新\n狗\t猫\t1\n".encode("gb18030"))
    reader = ReaderOptions("query=查询,title=标题,grade=标注")  # the scores have no 标注
    assert read_cells(path, "得分,新", reader).of == {("狗", "猫"): (2, ("1",))}


def test_default_names_where_the_file_lacks_those_of_the_pairs(scores):
    for reader in (
        ReaderOptions("query=查询,title=标题"),
        ReaderOptions("query=2,title=3", no_header=True),
    ):
        assert len(read_cells(scores, "score", reader).of) == 2


@pytest.mark.parametrize(
    ("row", "column", "error", "words"),
    [
        ("", "scores", ArgumentError, "no column 'scores'; there are grade, score"),
        ("狗\t猫\t2\t0.7\n", "score", PairFileError, "1 rows repeat.* lines 2 and 5"),
    ],
)
def test_a_missing_column_and_conflicting_scores(scores, row, column, error, words):
    scores.write_text(scores.read_text("utf-8") + row, "utf-8")
    with pytest.raises(error, match=words):
        read_cells(scores, column, ReaderOptions())


def test_a_pair_may_repeat_its_score(scores):
    scores.write_text(scores.read_text("utf-8") + "狗\t猫\t3\t0.5\n", "utf-8")
    assert len(read_cells(scores, "score", ReaderOptions()).of) == 2
