"""Typed texts, default titles and uploaded files."""

import io
import tempfile
import zipfile

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import read_pairs
from qt_bert.errors import PairFileError
from qt_bert.page import pairs

TSV = "query\ttitle\tgrade\n紫熨斗\t紫熨斗好用吗\t4\n狗追猫\t猫追狗\t2\n".encode()


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The folder of uploads while they are read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


ROWS = [
    Pair(query, title, None, "1", 1, label, {})
    for query, title, label in (
        ("甲", "一", "5"),
        ("甲", "二", None),
        ("乙", "三", "4"),
        ("丙", "四", "3"),
        ("丙", "五", None),
    )
]


def test_the_titles_that_rows_have_for_a_query():
    assert [(t.title, t.label) for t in pairs.default_titles("甲", "二", ROWS, 0)] == [
        ("一", "5"),
        ("二", None),
    ]
    assert [t.title for t in pairs.default_titles("甲", "新", ROWS, 0)] == ["新", "一", "二"]


def test_an_unknown_query_gets_titles_of_others_without_labels():
    titles = pairs.default_titles("丁", "四", ROWS, 0)
    assert titles[0].title == "四" and len({one.title for one in titles}) == len(titles) == 5
    assert {one.label for one in titles} == {None} and {one.query for one in titles} == {"丁"}
    assert [one.title for one in pairs.default_titles("丁", "六", [], 0)] == ["六"]


def read(data: bytes, name: str) -> list[Pair]:
    """The pairs of an upload."""
    with pairs.uploaded(data, name) as path:
        return read_pairs(path)


def test_an_upload_is_read_and_deleted(temporary):
    assert [(p.query, p.title, p.label, p.line) for p in read(TSV, "../我的 文件.tsv")] == [
        ("紫熨斗", "紫熨斗好用吗", "4", 2),
        ("狗追猫", "猫追狗", "2", 3),
    ]
    assert list(temporary.iterdir()) == []


def test_only_this_user_can_read_an_upload():
    with pairs.uploaded(TSV, "a.tsv") as path:
        assert path.parent.stat().st_mode & 0o077 == 0
        assert path.read_bytes() == TSV
    assert not path.exists()


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr(zipfile.ZipInfo("pairs.tsv"), TSV)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (archive(), "pairs.tsv", "a zip archive"),
        (b"\xff\xd8\xff\xe0" * 999, "b.tsv", "header is neither UTF-8 nor GB18030"),
        (b"\x00" * 5000, "b.tsv", "binary data"),
        (b"", "b.tsv", "the file is empty"),
        (b" \n\n", "b.jsonl", "the file is empty"),
        (b"x" * (pairs.MOST_BYTES + 1), "b.tsv", "larger than 10 MB"),
        (b"x\n" * (pairs.MOST_BYTES // 2), "b.tsv", "no column 'query'"),
        (b"x" * pairs.MOST_BYTES, "b.tsv", "no column 'query'"),
        (TSV, "b.tsv.gz", "plain text files"),
        (TSV, "b.parquet", "plain text files"),
        (TSV, "b", "plain text files"),
        (b"query\ttitle\n", "b.tsv", "no rows"),
        (b"query\ttitle\nonly\n", "b.tsv", "not one of 1 rows is a pair"),
        (b"a\tb\n1\t2\n", "b.csv", "no column 'query'"),
    ],
)
def test_broken_uploads_are_refused_in_both_languages(temporary, data, name, message):
    with pytest.raises(PairFileError) as caught:
        read(data, name)
    error = caught.value
    assert isinstance(error, pairs.RefusedFile)
    for words in (error.message.zh, error.message.en):
        assert name in words and str(temporary) not in words
    assert message in error.message.en and error.message.en.count(name) == 1
    assert list(temporary.iterdir()) == []


def test_names_are_safe_to_show():
    assert pairs.shown_name("/etc/<b>\x1b\n.tsv") == "<b>.tsv"
    assert pairs.shown_name("") == "upload" and len(pairs.shown_name("长" * 300)) == 80
    assert len(read(TSV, "长" * 300 + ".TSV")) == 2


def test_control_characters_are_removed_and_line_breaks_become_spaces():
    query, title, (fault,) = pairs.clean_texts("a\x00b\x1b[1m\ud800", "第一行\n第二行\tc\u2028d")
    assert (query, title) == ("ab[1m", "第一行 第二行 c d")
    assert "控制字符" in fault.zh and "control characters" in fault.en
    kept = ("<img src=x onerror=alert(1)>", "👨‍👩‍👧 “紫熨斗” 好用吗")
    assert pairs.clean_texts(*kept) == (*kept, [])


@pytest.mark.parametrize(
    ("lengths", "left"),
    [
        ((1000, 1000), (1000, 1000)),
        ((10, 5000), (10, 1990)),
        ((5000, 10), (1990, 10)),
        ((5000, 5000), (1000, 1000)),
        ((1500, 800), (1200, 800)),
    ],
)
def test_both_texts_keep_two_thousand_characters(lengths, left):
    query, title, faults = pairs.clean_texts("查" * lengths[0], "题" * lengths[1])
    assert (len(query), len(title)) == left
    assert [("2,000" in fault.en, "2,000" in fault.zh) for fault in faults] == (
        [(True, True)] if lengths != left else []
    )


def test_empty_texts_are_reported():
    assert [fault.en for fault in pairs.clean_texts(" ", "")[2]] == [
        "the query is empty: there is no pair to run",
        "the title is empty: there is no pair to run",
    ]
