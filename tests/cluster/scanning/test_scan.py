from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qt_bert.cluster.places import place_of
from qt_bert.cluster.scanning import Scan, find_inputs, scan
from qt_bert.data.pairs import Pair
from qt_bert.data.parts import read_part
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.scoring.tables import InputColumns

PLAIN = ReaderOptions()
ROWS = "query\ttitle\nq\tt\nq\tt\nq\tt\n"


def write(folder: Path, files: Mapping[str, str | bytes]) -> str:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(folder)


def scanned(*inputs: str | Path, options: ReaderOptions = PLAIN, rows: int = 2) -> Scan:
    return scan([str(one) for one in inputs], options, rows, shown=False)


def test_a_folder_is_all_its_files_of_pairs(tmp_path: Path) -> None:
    files = {
        "b.tsv": ROWS,
        "a/c.jsonl": '{"query": "q", "title": "t"}\n',
        "a/b.csv.gz": gzip.compress(b"query,title\nq,t\n"),
        ".hidden.tsv": "no pairs",
        ".git/x.tsv": "no pairs",
        "_SUCCESS": "",
        "notes.md": "",
    }
    found = scanned(write(tmp_path / "log", files))
    names = [str(tmp_path / "log" / name) for name in ("a/b.csv.gz", "a/c.jsonl", "b.tsv")]
    assert [file.file for file in found.files] == names
    assert [part.file for part in found.parts] == [*names, names[2]]
    assert (found.rows, [file.rows for file in found.files], found.skipped) == (5, [1, 1, 3], 4)
    assert found.files[2].size == len(ROWS)
    assert found.files[2].mtime_ns == (tmp_path / "log/b.tsv").stat().st_mtime_ns


def test_inputs_keep_the_order_in_which_they_are_given(tmp_path: Path) -> None:
    write(tmp_path, {"b.tsv": ROWS, "a.tsv": ROWS, "c/a.tsv": ROWS})
    found = scanned(tmp_path / "b.tsv", tmp_path / "c", tmp_path / "a.tsv")
    assert [Path(file.file).relative_to(tmp_path).as_posix() for file in found.files] == [
        "b.tsv",
        "c/a.tsv",
        "a.tsv",
    ]
    assert len({part.name() for part in found.parts}) == 6


def test_a_hidden_file_named_itself_is_taken(tmp_path: Path) -> None:
    write(tmp_path, {".x.tsv": ROWS})
    assert scanned(tmp_path / ".x.tsv").rows == 3


def test_addresses_and_paths_are_scanned_alike(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query": ["q"] * 3, "title": ["t"] * 3}), tmp_path / "p.parquet")
    folder = write(tmp_path, {"x.tsv": ROWS, "y z.tsv.gz": gzip.compress(ROWS.encode())})
    local, remote = scanned(folder), scanned(f"file://{folder}")
    assert [part.sha256 for part in remote.parts] == [part.sha256 for part in local.parts]
    assert remote.parts[-1].file == f"file://{folder}/y%20z.tsv.gz"
    assert remote.files[0].size == local.files[0].size
    for here, there in zip(local.parts, remote.parts, strict=True):
        rows = list(read_part(there, PLAIN, place_of(there.file).location))
        assert rows == list(read_part(here, PLAIN)) and rows


def test_columns_are_the_union_of_all_files(tmp_path: Path) -> None:
    files = {
        "a.tsv": "query\ttitle\tfield\nq\tt\tf\n",
        "b.jsonl": '{"query": "q", "title": "t", "x": 1}\n{"query": "q", "title": "t", "field": 2}\n',
        "c.tsv": "x\tgrade\tquery\ttitle\tlast\nx\t\tq\tt\tl\n",
    }
    assert scanned(write(tmp_path, files)).columns == InputColumns(True, ("field", "x", "last"))
    assert scanned(tmp_path / "a.tsv", tmp_path / "b.jsonl").columns == InputColumns(
        False, ("field", "x")
    )


def test_a_file_without_a_column_leaves_it_empty(tmp_path: Path) -> None:
    write(tmp_path, {"a.tsv": "query\ttitle\tx\nq\tt\t7\n", "b.tsv": "query\ttitle\nq\tt\n"})
    found = scanned(tmp_path)
    values = []
    for part in found.parts:
        pairs = [row for row in read_part(part, PLAIN) if isinstance(row, Pair)]
        values += found.columns.table(pairs, {}, part.file)["x"]
    assert values == ["7", ""]


def test_a_column_that_comes_late_is_the_fault_of_its_part(tmp_path: Path) -> None:
    row = '{"query": "q", "title": "t"}\n'
    write(tmp_path, {"a.jsonl": row * 9000 + '{"query": "q", "title": "t", "late": 1}\n'})
    found = scanned(tmp_path, rows=8999)
    first, last = (
        [row for row in read_part(part, PLAIN) if isinstance(row, Pair)] for part in found.parts
    )
    assert len(found.columns.table(first, {}, "a.jsonl")["id"]) == 8999
    with pytest.raises(PairFileError, match="a.jsonl, line 9001: the column 'late'"):
        found.columns.table(last, {}, "a.jsonl")


def test_rejects_are_left_to_the_run(tmp_path: Path) -> None:
    files = {"a.tsv": "query\ttitle\n" + "bad\n" * 20_000, "b.tsv": ROWS, "c.tsv": "query\ttitle\n"}
    found = scanned(write(tmp_path, files), options=ReaderOptions(max_rejects=0), rows=50_000)
    assert [(part.file[-5:], part.rows) for part in found.parts] == [
        ("a.tsv", 20_000),
        ("b.tsv", 3),
    ]
    assert found.columns == InputColumns(False, ())


def test_a_grade_column_is_found_behind_many_rejects(tmp_path: Path) -> None:
    write(tmp_path, {"a.tsv": "query\ttitle\tgrade\n" + "bad\n" * 10_001 + "q\tt\t\n"})
    assert scanned(tmp_path, options=ReaderOptions(max_rejects=0)).columns.label


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ([], "no input; give files"),
        (["log/none"], r"log/none: there is no file of pairs in this folder \(other files: 2\)"),
        (["log/a.tsv", "log"], r"a\.tsv: this file is given twice, first as .*log/a\.tsv"),
        (["log", "log/none/../a.tsv"], "given twice"),
        (["nope://x"], "nope://x: this address cannot be reached"),
    ],
)
def test_inputs_that_cannot_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: list[str], reason: str
) -> None:
    write(tmp_path, {"log/a.tsv": ROWS, "log/none/x.md": "", "log/none/.b.tsv": ROWS})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=reason):
        find_inputs(inputs)


def test_a_file_given_as_path_and_as_address_is_given_twice(tmp_path: Path) -> None:
    write(tmp_path, {"a.tsv": ROWS})
    with pytest.raises(ArgumentError, match="given twice"):
        find_inputs([str(tmp_path / "a.tsv"), f"file://{tmp_path}"])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.tsv", None, r"a\.tsv: cannot be read \(No such file or directory\)"),
        ("a.tsv", "", r"a\.tsv: the file is empty"),
        ("a.tsv", "a\tb\n", r"a\.tsv: line 1: no column 'query'"),
        ("a.jsonl", '{"query": "q"}\n', r"a\.jsonl: no object has the key 'title'"),
        ("a.doc", ROWS, r"a\.doc: unknown suffix"),
        ("a.tsv.gz", ROWS, r"a\.tsv\.gz: the compressed data is damaged"),
    ],
)
@pytest.mark.parametrize("address", ["", "file://"])
def test_faults_of_files(
    tmp_path: Path, name: str, content: str | None, reason: str, address: str
) -> None:
    if content is not None:
        write(tmp_path, {name: content})
    if address and content is None:
        reason = f"no file at file://{tmp_path}/{name}"
    with pytest.raises(PairFileError, match=reason):
        scanned(f"{address}{tmp_path / name}")


def test_options_are_checked(tmp_path: Path) -> None:
    write(tmp_path, {"a.tsv": ROWS})
    with pytest.raises(ArgumentError, match="--grades"):
        scanned(tmp_path, options=ReaderOptions(grades="x"))


def test_a_scan_loads_no_torch_and_no_ray(tmp_path: Path) -> None:
    write(tmp_path, {"a.tsv": ROWS})
    code = (
        "import sys; from qt_bert.data.reader import ReaderOptions; from qt_bert.cluster.scanning import scan; "
        f"scan([{str(tmp_path)!r}], ReaderOptions(), 2); "
        "print({'torch', 'ray', 'transformers'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
