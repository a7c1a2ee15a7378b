from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from qt_bert.data import encodings
from qt_bert.data import lines as source_module
from qt_bert.data.lines import TextSource
from qt_bert.data.pairs import Reject
from qt_bert.errors import PairFileError


def lines(path: Path) -> list[tuple[int, str] | Reject]:
    return list(TextSource(path).lines())


def test_only_line_feeds_end_lines(write):
    text = "a\u2028b\x0bc\x85d\x1ce\r\nf\rg\r\r\n\n最后"
    assert lines(write("f", text)) == [
        (1, "a\u2028b\x0bc\x85d\x1ce"),
        (2, "f\rg\r"),
        (4, "最后"),
    ]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
@pytest.mark.parametrize(
    ("codec", "named"), [("utf-8", "utf-8"), ("utf-8-sig", "utf-8-sig"), ("gb18030", "gb18030")]
)
def test_encodings_and_packing(write, pack, codec, named):
    suffix = {gzip.compress: ".gz", lzma.compress: ".xz"}.get(pack, "")
    source = TextSource(write(f"f{suffix}", pack("查询\t𠮷😀\nx".encode(codec))))
    assert source.encoding == named
    assert list(source.lines()) == [(1, "查询\t𠮷😀"), (2, "x")]


def test_a_gb18030_byte_order_mark_is_no_text(write):
    assert lines(write("f", "\ufeff查询词".encode("gb18030"))) == [(1, "查询词")]


def test_a_damaged_line_does_not_turn_a_utf8_file_into_gb18030(write):
    damaged = "北京天气好".encode()[:-1]
    assert damaged.decode("gb18030")
    source = TextSource(write("f", "上海\n".encode() + damaged + "\n广州\n深圳".encode()))
    assert source.encoding == "utf-8"
    read = list(source.lines())
    assert read[0] == (1, "上海") and read[2:] == [(3, "广州"), (4, "深圳")]
    assert isinstance(read[1], Reject)
    assert (read[1].line, read[1].reason) == (2, "undecodable bytes")


def test_the_first_lines_decide_the_encoding(write, monkeypatch):
    monkeypatch.setattr(encodings, "ENCODING_VOTES", 2)
    path = write("f", "一\n二\n".encode() + "北京天气\n".encode("gb18030") * 9)
    assert TextSource(path).encoding == "utf-8"
    assert TextSource(write("ascii", "query\ttitle\n" * 3)).encoding == "utf-8"


def test_an_endless_line_is_refused(write, monkeypatch):
    monkeypatch.setattr(source_module, "MAX_LINE_BYTES", 10)
    with pytest.raises(PairFileError, match="line 2 is longer"):
        lines(write("f", "0123456789"[:9] + "\n" + "x" * 11))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.tsv", b"", "is empty"),
        ("zip.tsv", b"PK\x03\x04rest", "zip archive"),
        ("old.csv", b"\xd0\xcf\x11\xe0rest", "Excel"),
        ("gzip.tsv", gzip.compress(b"a", mtime=0), "must end in .gz"),
        ("xz.tsv", lzma.compress(b"a"), "must end in .xz"),
        ("parquet.tsv", b"PAR1rest", "must end in .parquet"),
        ("utf16.tsv", "query\ttitle\n".encode("utf-16"), "UTF-16"),
        ("utf16be.tsv", "query\ttitle\n".encode("utf-16-be"), "looks like UTF-16"),
        ("plain.tsv.gz", b"query\ttitle\n", "damaged or cut short"),
        ("plain.tsv.xz", b"query\ttitle\n", "damaged or cut short"),
        ("empty.tsv.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("zip.tsv.gz", gzip.compress(b"PK\x03\x04rest", mtime=0), "zip archive"),
    ],
)
def test_files_that_are_no_text(write, name, content, reason):
    with pytest.raises(PairFileError, match=reason):
        TextSource(write(name, content))


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_data_cut_short(write, suffix, pack):
    packed = pack("".join(f"查询{i}\t标题{i * i}\n" for i in range(5000)).encode())
    with pytest.raises(PairFileError, match="damaged or cut short"):
        lines(write(f"f{suffix}", packed[: len(packed) // 2]))
