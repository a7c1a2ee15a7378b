import gzip
from pathlib import Path

import pytest

from qt_bert.cluster.partitions import refuse_inside, scan
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from tests.conftest import write_pairs


def write(path: Path, rows: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_pairs(path, ((f"查询{path.stem}{row}", f"标题{row}") for row in range(rows)))


def cut(*inputs: Path, rows: int = 4):
    return scan([str(path) for path in inputs], ReaderOptions(), rows)


def test_a_folder_stands_for_its_files_of_pairs(tmp_path):
    write(tmp_path / "day" / "a.tsv", 10)
    write(tmp_path / "day" / "deep" / "b.tsv", 3)
    (tmp_path / "day" / "notes.md").write_text("x")
    for name in (".hidden.tsv", "_SUCCESS", "_temporary/part-0.tsv"):
        (tmp_path / "day" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "day" / name).write_text("x")
    result = cut(tmp_path / "day")
    assert [Path(file).name for file in result.files] == ["a.tsv", "b.tsv"]
    assert result.skipped == [str(tmp_path / "day" / "notes.md")]
    assert (result.rows, [part.rows for part in result.parts]) == (13, [4, 4, 2, 3])
    assert len({part.name() for part in result.parts}) == 4


def test_packed_files_are_cut_too(tmp_path):
    plain = write(tmp_path / "a.tsv", 5)
    packed = tmp_path / "b.tsv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [part.rows for part in cut(packed).parts] == [4, 1]


def test_columns_are_those_of_all_files(tmp_path):
    write(tmp_path / "a.tsv", 1)
    other = write_pairs(tmp_path / "b.tsv", [("q", "t", 3, "x")], "field")
    columns = cut(tmp_path / "a.tsv", other).columns
    assert (columns.label, columns.extra) == (True, ("field",))


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ([], ArgumentError, "no input"),
        (["gone.tsv"], PairFileError, "No such file"),
        (["empty"], ArgumentError, "no file of pairs in this folder"),
        (["a.tsv", "day/../a.tsv"], ArgumentError, "given twice"),
    ],
)
def test_invalid_inputs_are_refused(tmp_path, inputs, error, words):
    write(tmp_path / "a.tsv", 1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "day").mkdir()
    with pytest.raises(error, match=words):
        cut(*(tmp_path / name for name in inputs))


def test_results_never_lie_among_the_inputs(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="lies in the input"):
        refuse_inside(str(tmp_path / "day/out"), [str(tmp_path / "day")])
    refuse_inside(str(tmp_path / "scored"), [str(tmp_path / "day")])
