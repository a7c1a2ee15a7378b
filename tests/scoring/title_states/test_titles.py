"""Titles from files of lines and from files of pairs."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import PairFileError
from qt_bert.scoring.title_run import open_titles


def read(path: Path, rejects: Path | None = None, **options: object) -> list[str]:
    return list(open_titles(path, ReaderOptions(**options), rejects))


@pytest.mark.parametrize(
    ("suffix", "packed"), [(".txt", bytes), (".txt.gz", gzip.compress), (".txt.xz", lzma.compress)]
)
def test_one_title_a_line(tmp_path, suffix, packed):
    path = tmp_path / f"titles{suffix}"
    path.write_bytes(packed("狗追猫\r\n\n 猫 \n狗\t猫\n".encode("gb18030")))
    assert read(path) == ["狗追猫", " 猫 ", "狗\t猫"]


def test_a_column_of_a_file_of_pairs(pair_file, tmp_path):
    assert read(pair_file)[:2] == ["衣服沾了油怎么洗掉", "红烧排骨的家常做法"]
    path = tmp_path / "p.jsonl"
    path.write_text('{"q": "狗", "name": "猫"}\n', encoding="utf-8")
    assert read(path, columns="query=q,title=name") == ["猫"]


def test_a_text_file_of_pairs_is_known_by_its_tabs_or_its_options(pair_file, tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_bytes(pair_file.read_bytes())
    assert read(path) == read(pair_file)
    path.write_text("猫\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="no column"):
        read(path, no_header=True)


def test_lines_without_a_title_are_counted_and_listed(tmp_path):
    path, rejects = tmp_path / "titles.txt", tmp_path / "rejects.tsv"
    path.write_bytes("狗\n  \n猫\0\n".encode() + b"\xff\xff\n" + "苹果\n".encode())
    titles = open_titles(path, ReaderOptions(), rejects)
    for _ in range(2):  # reading starts anew each time
        assert list(titles) == ["狗", "苹果"]
        assert titles.rejected == 3
    rows = [line.split("\t")[:2] for line in rejects.read_text(encoding="utf-8").splitlines()[1:]]
    assert rows == [["2", "empty title"], ["3", "NUL character"], ["4", "undecodable bytes"]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "the file has no titles"),
        (b" \n \n", "2 of the first 2 lines hold no title"),
        ("狗\n".encode() + b" \n" * 11, "11 of the first 12 lines"),
        (b"PK\x03\x04", "zip archive"),
    ],
)
def test_a_file_without_titles(tmp_path, content, said):
    path = tmp_path / "titles.txt"
    path.write_bytes(content)
    with pytest.raises(PairFileError, match=said):
        read(path)
