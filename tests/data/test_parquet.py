import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qt_bert.data.reader import PairReader, read_pairs
from qt_bert.errors import PairFileError


def table(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()],
    ids=str,
)
def test_every_kind_of_text(tmp_path, kind):
    texts = pa.array(["标题"], pa.string()).cast(pa.binary()).cast(kind)
    (pair,) = read_pairs(table(tmp_path / "f.parquet", {"query": texts, "title": texts}))
    assert (pair.query, pair.title) == ("标题", "标题")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (7, pa.int64(), "7"),
        (0.1, pa.float32(), "0.1"),
        (True, pa.bool_(), "true"),
        (datetime.date(2024, 5, 1), pa.date32(), "2024-05-01"),
        (None, pa.string(), ""),
        (float("nan"), pa.float64(), ""),
        ([1, 2], pa.list_(pa.int64()), "[1, 2]"),
        (None, pa.null(), ""),
        (b"\xff" * 16, pa.uuid(), "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        (675849302817.0, pa.float64(), "675849302817"),
        (-2.5e10, pa.float64(), "-25000000000"),
        (12345678901.5, pa.float64(), "1.23456789015e+10"),
        (1e300, pa.float64(), "1e+300"),
        (0.0, pa.float64(), "0"),
    ],
)
def test_other_columns_become_text(tmp_path, value, kind, text):
    columns = {"query": ["q"], "title": ["t"], "x": pa.array([value], kind)}
    (pair,) = read_pairs(table(tmp_path / "f.parquet", columns))
    assert pair.extra == {"x": text}


def test_a_column_that_arrow_cannot_write_out_is_named(tmp_path):
    zoned = pa.array([0], pa.timestamp("us", "Foo/Bar"))
    path = table(tmp_path / "f.parquet", {"query": ["q"], "title": ["t"], "x": zoned})
    with pytest.raises(PairFileError, match="the column 'x', timestamp.*leave it out .*Foo/Bar"):
        read_pairs(path)


def test_null_and_undecodable_texts_are_rejects(tmp_path):
    path = table(
        tmp_path / "f.parquet",
        {
            "query": pa.array([b"q", None, b"\xff\xfe", b"q"], pa.binary()),
            "title": ["t", "t", "t", None],
        },
    )
    reader = PairReader(path)
    assert [pair.line for pair in reader] == [1]
    assert reader.reasons == {"missing query": 1, "undecodable bytes": 1, "missing title": 1}


def test_an_undecodable_part_of_a_title_is_a_reject(tmp_path):
    more = pa.array([b"\xff\xfe", None, "摘要".encode()], pa.binary())
    columns = {"query": ["q"] * 3, "title": ["t"] * 3, "abstract": more}
    path = table(tmp_path / "f.parquet", columns)
    reader = PairReader(path, columns={"title": "title+abstract"})
    assert [(pair.line, pair.title) for pair in reader] == [(2, "t"), (3, "t 摘要")]
    assert reader.reasons == {"undecodable bytes": 1}


def test_a_nested_query_is_refused(tmp_path):
    path = table(tmp_path / "f.parquet", {"query": [["q"]], "title": ["t"]})
    with pytest.raises(PairFileError, match="'query' holds list"):
        PairReader(path)


def test_damaged_pages(tmp_path):
    texts = [f"查询{i}" for i in range(500)]
    path = table(tmp_path / "f.parquet", {"query": texts, "title": texts})
    data = path.read_bytes()
    path.write_bytes(data[:40] + b"\xff" * 360 + data[400:])
    with pytest.raises(PairFileError, match="damaged or cut short"):
        read_pairs(path)
