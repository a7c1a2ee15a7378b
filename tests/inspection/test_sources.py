"""Cases, rows that ship, and uploads: every broken one refused in plain words, nothing left behind."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

import pytest

from qt_bert.data.reader import read_pairs
from qt_bert.errors import PairFileError
from qt_bert.inspection import inputs
from qt_bert.inspection.inputs import (
    MOST_BYTES,
    MOST_REJECTS,
    MOST_ROWS,
    RefusedFile,
    case,
    cases,
    rows,
    shipped_rows,
    shown_name,
    uploaded,
)
from qt_bert.shipped import DEV, shipped

TSV = "query\ttitle\tgrade\n紫熨斗\t紫熨斗好用吗\t4\n狗追猫\t猫追狗\t2\n".encode()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where uploads lie while they are read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_cases_come_in_order_and_by_name() -> None:
    found = cases()
    assert found[0].id == "article-order" and len({one.id for one in found}) == len(found)
    focus = case("article-focus")
    assert focus.query == "紫熨斗" and focus.grade is None and "2.4.3" in focus.about
    with pytest.raises(KeyError):
        case("nothing")


def test_rows_that_ship_are_those_of_the_file() -> None:
    assert list(shipped_rows("dev")) == read_pairs(shipped(DEV))
    assert shipped_rows("dev") is shipped_rows("dev")
    assert shipped_rows("test")[0].query != shipped_rows("dev")[0].query


def test_an_upload_is_read_and_gone(temporary: Path) -> None:
    found = rows(TSV, "../我的 文件.tsv")
    assert found.name == "我的 文件.tsv"
    assert [(p.query, p.title, p.label, p.line) for p in found.pairs] == [
        ("紫熨斗", "紫熨斗好用吗", "4", 2),
        ("狗追猫", "猫追狗", "2", 3),
    ]
    assert (found.total, found.rejected, found.rejects) == (2, 0, ())
    assert list(temporary.iterdir()) == []


def test_an_upload_lies_where_nobody_else_can_read() -> None:
    with uploaded(TSV, "a.tsv") as path:
        assert path.parent.stat().st_mode & 0o077 == 0
        assert path.read_bytes() == TSV
    assert not path.exists()


def test_bad_rows_are_listed_with_line_and_reason() -> None:
    data = TSV + b"only one field\n" * 150 + "尾\t行\t1\n".encode()
    found = rows(data, "a.tsv")
    assert (found.total, found.rejected, len(found.rejects)) == (3, 150, MOST_REJECTS)
    first = found.rejects[0]
    assert (first.line, first.reason, first.text) == (4, "too few fields", "only one field")


def test_more_rows_than_are_offered_are_counted() -> None:
    data = b"query\ttitle\n" + b"".join(b"q%d\tt\n" % n for n in range(MOST_ROWS + 7))
    found = rows(data, "a.tsv")
    assert (len(found.pairs), found.total) == (MOST_ROWS, MOST_ROWS + 7)
    assert found.pairs[-1].query == f"q{MOST_ROWS - 1}"


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr(zipfile.ZipInfo("pairs.tsv"), TSV)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (archive(), "pairs.tsv", "a zip archive"),
        (b"\xff\xd8\xff\xe0" * 999, "b.tsv", "header is neither UTF-8 nor GB18030"),
        (b"\x00" * 5000, "b.tsv", "binary data"),
        (b"", "b.tsv", "the file is empty"),
        (b" \n\n", "b.jsonl", "the file is empty"),
        (b"x" * (MOST_BYTES + 1), "b.tsv", "larger than 10 MB"),
        (b"x\n" * (MOST_BYTES // 2), "b.tsv", "no column 'query'"),
        (b"x" * MOST_BYTES, "b.tsv", "no column 'query'"),
        (TSV, "b.tsv.gz", "plain text files"),
        (TSV, "b.parquet", "plain text files"),
        (TSV, "b", "plain text files"),
        (b"query\ttitle\n", "b.tsv", "no rows"),
        (b"query\ttitle\nonly\n", "b.tsv", "not one of 1 rows is a pair"),
        (b"a\tb\n1\t2\n", "b.csv", "no column 'query'"),
    ],
)
def test_broken_uploads_are_refused_in_plain_words(
    temporary: Path, data: bytes, name: str, said: str
) -> None:
    with pytest.raises(PairFileError) as caught:
        rows(data, name)
    error = caught.value
    assert isinstance(error, RefusedFile)
    for words in (error.said.zh, error.said.en):
        assert name in words and str(temporary) not in words
    assert said in error.said.en and error.said.en.count(name) == 1
    assert list(temporary.iterdir()) == []


def test_names_are_safe_to_show() -> None:
    assert shown_name("/etc/<b>\x1b\n.tsv") == "<b>.tsv"
    assert shown_name("") == "upload" and len(shown_name("长" * 300)) == 80


def test_a_long_name_keeps_its_suffix_to_be_read_by() -> None:
    assert rows(TSV, "长" * 300 + ".TSV").total == 2


def test_what_the_block_says_of_something_else_passes() -> None:
    with pytest.raises(ZeroDivisionError), uploaded(TSV, "a.tsv"):
        _ = 1 / 0
    assert inputs.UPLOADED_SUFFIXES == (".tsv", ".txt", ".csv", ".jsonl", ".ndjson")
