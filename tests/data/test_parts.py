import gzip
import hashlib
import json
import lzma
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qt_bert.codec import decode
from qt_bert.data import parquet
from qt_bert.data.lines import PartChanged
from qt_bert.data.pairs import Pair, Reject
from qt_bert.data.parts import FilePart, cut, read_part
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import PairFileError

PLAIN = ReaderOptions(max_rejects=1)
HEADERLESS = ReaderOptions(no_header=True, max_rejects=1)
GRADED = ReaderOptions(grades="0=1-2,1=3,2=5", max_rejects=1)
SIZES = (1, 3, 1000)

TSV = (
    "id\tquery\ttitle\tgrade\tfield\n"
    "a1\t北京 天气\t北京天气预报\t2\t旅游\n"
    "\tq\tt\t\t\n"
    "\n"
    "x\t \tt\t1\tf\n"
    "x\tq\t\u3000\t1\tf\n"
    "x\tq\tt\n"
    "x\tq\tt\t1\tf\tmore\n"
    "x\ta\0b\tt\t1\tf\n"
    " \tq\u2028r\t't\"\tbad\tf\n"
    "\n"
    "z\tq\tlast\t0\tf"
)
CSV = 'query,title,grade\n"a,b",t,1\n"open,x,0\n\na,b\n"say ""hi""",\u3000,2\nq,t,\n,t,\n'
BREAKS = '"query",title\nq,"a\n\nb, ""c"""\n"x\ny","z"\nopen,"never\nq,"closed, x"\nq,12" x\n\nlast,"a\nb"'
CRLF_BREAKS = BREAKS.replace("\n", "\r\n").encode("utf-8-sig")
LISTS = (
    '{"query": "q", "pos": ["a", "b"], "neg": ["c"], "id": 7, "pos_scores": [1, 2], "p": 1}\n'
    '{"query": "q", "pos": "a"}\n{"query": "q", "neg": []}\n{"pos": ["a"]}\n'
    '{"query": "q", "pos": ["", null, 3, NaN], "neg": ["d"]}\n'
)
JSONL = "\n".join(
    [
        '{"query": "q", "title": "t", "grade": 2, "m": {"深": [1.50, null, "x"]}, "id": 7}',
        "",
        '{"query": "q", "title": "t", "n": 1e3}',
        '{"query": "q"}',
        '{"title": "t"}',
        '{"query": null, "title": "t"}',
        '{"query": "q", "title": ["t"]}',
        '["q", "t"]',
        '{"query": "q", ',
        '{"query": "\\ud83d", "title": "t"}',
        '{"query": "a\\u0000b", "title": "t"}',
        '{"query": "q", "title": "t", "grade": "bad", "m": true}',
    ]
)
UNDECODABLE = b"query\ttitle\n" + "上海\t天气\n".encode() + b"\xff\xff\tt\n" + "广州\tt\n".encode()

FILES: dict[str, tuple[str, bytes, ReaderOptions]] = {
    "tsv": ("f.tsv", TSV.encode(), GRADED),
    "crlf": ("f.txt", TSV.replace("\n", "\r\n").encode(), GRADED),
    "bom": ("f.tsv", TSV.encode("utf-8-sig"), GRADED),
    "gb18030": ("f.tsv", TSV.encode("gb18030"), GRADED),
    "gz": ("f.tsv.gz", gzip.compress(TSV.encode(), mtime=0), GRADED),
    "xz": ("f.tsv.xz", lzma.compress(TSV.encode()), GRADED),
    "late header": ("f.tsv", b"\n\r\n" + TSV.encode(), PLAIN),
    "undecodable": ("f.tsv", UNDECODABLE, PLAIN),
    "csv": ("f.csv", CSV.encode(), GRADED),
    "csv breaks": ("f.csv", BREAKS.encode(), GRADED),
    "csv breaks, bom, crlf": ("f.csv.gz", gzip.compress(CRLF_BREAKS), PLAIN),
    "lists of titles": ("f.jsonl", LISTS.encode(), replace(GRADED, grades="pos=4-5,neg=1-3")),
    "no header": (
        "f.tsv",
        "\n甲\t乙\t3\nq\tt\n丙\t丁\t5\n甲\t乙\t3\t4".encode(),
        replace(HEADERLESS, columns="query=2,title=1"),
    ),
    "no header, csv, bom": ("f.csv", "\ufeff甲,乙\n丙,丁\n戊".encode(), HEADERLESS),
    "no header, first line no text": (
        "f.tsv",
        b"\xff\xff\n" + "甲\t乙\nq\nq\tt\n".encode(),
        HEADERLESS,
    ),
    "jsonl": ("f.jsonl", JSONL.encode(), GRADED),
    "jsonl bom gz": ("f.ndjson.gz", gzip.compress(JSONL.encode("utf-8-sig"), mtime=0), GRADED),
    "jsonl keys": (
        "f.jsonl",
        b'{"q": "a", "title": "b"}\n{"x": 1}\n{"q": "a", "title": "b", "g": 1, "no": 5}\n',
        replace(PLAIN, columns="query=q,grade=g,id=no"),
    ),
    "header alone": ("f.tsv", b"query\ttitle\n", PLAIN),
    "blank lines alone": ("f.tsv", b"\n\n\n", PLAIN),
}


def joined(parts: list[FilePart], options: ReaderOptions) -> list[Pair | Reject]:
    return [row for part in parts for row in read_part(part, options)]


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("case", FILES)
def test_parts_together_are_the_file(write, case, rows):
    name, content, options = FILES[case]
    path = write(name, content)
    parts = list(cut(path, options, rows))
    assert joined(parts, options) == list(options.open(path).rows())
    assert "breaks" in case or all(part.rows == rows for part in parts[:-1])


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("group", [1, 4, 1000])
def test_parquet_parts_together_are_the_file(tmp_path, monkeypatch, rows, group):
    monkeypatch.setattr(parquet, "_BATCH_ROWS", 3)
    path = parquet_file(tmp_path, group)
    parts = list(cut(path, GRADED, rows))
    assert joined(parts, GRADED) == list(GRADED.open(path).rows())
    assert [part.first for part in parts] == list(range(1, 12, rows))
    assert sum(part.rows for part in parts) == 11


def parquet_file(folder: Path, group: int, last: str = "末") -> Path:
    path = folder / "f.parquet"
    texts = [f"查询{i}".encode() for i in range(10)]
    columns: dict[str, Any] = {
        "query": pa.array([None, b"\xff\xfe", b"", *texts[:7], last.encode()], pa.binary()),
        "title": ["t", "t", "t", None, "\0", *texts[:6]],
        "grade": [0, 1, 2, 3, None] * 2 + [2],
        "x": [0.5, None, float("nan")] * 3 + [1.0, 2.0],
        "kind": pa.array(["甲", "乙"] * 5 + ["丙"]).dictionary_encode(),
        "more": [[i] for i in range(11)],
    }
    columns["title"] = pa.array(
        [v.encode() if isinstance(v, str) else v for v in columns["title"]], pa.binary()
    )
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


LINE = st.sampled_from(
    [b"q\tt", b"\xe5\x8c\x97\tt", b"\xff\tt", b"", b"\r", b"q", b"\tt", b"a\tb\tc", b"q\r\tt\r"]
)


@given(lines=st.lists(LINE, max_size=12), end=st.booleans(), rows=st.integers(1, 13))
def test_any_lines_in_parts_of_any_size(tmp_path_factory, lines, end, rows):
    path = tmp_path_factory.mktemp("parts") / "f.tsv"
    path.write_bytes(b"\n".join([b"query\ttitle", *lines]) + (b"\n" if end else b""))
    parts = list(cut(path, PLAIN, rows))
    assert joined(parts, PLAIN) == list(PLAIN.open(path).rows())
    assert b"query\ttitle\n" + b"".join(
        path.read_bytes()[part.offset : part.offset + part.length] for part in parts
    ) == path.read_bytes() + (b"" if lines or end else b"\n")


def test_fields_of_a_part(write):
    path = write("日志 1.tsv", "query\ttitle\r\n甲\t乙\r\n\r\nq\tt")
    first, second = list(cut(path, PLAIN, 2))
    content = "甲\t乙\r\n\r\n".encode()
    digest = hashlib.sha256(content).hexdigest()
    assert first == FilePart(str(path), 2, 2, 13, 10 + 1, digest, "utf-8", "query\ttitle")
    assert (second.first, second.rows, second.offset, second.length) == (4, 1, 24, 3)


@pytest.mark.parametrize("new", [b"q3\tX3", b"q3\tt33", b"q3"])
@pytest.mark.parametrize("name", ["f.tsv", "f.tsv.gz", "f.tsv.xz"])
def test_a_rewritten_part_is_refused_and_those_before_it_are_not(write, name, new):
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(name).suffix, bytes)
    content = b"query\ttitle\n" + b"".join(b"q%d\tt%d\n" % (i, i) for i in range(6))
    parts = list(cut(write(name, pack(content)), PLAIN, 2))
    write(name, pack(content.replace(b"q3\tt3", new)))
    assert len(list(read_part(parts[0], PLAIN))) == 2
    rows = read_part(parts[1], PLAIN)
    with pytest.raises(PartChanged, match=r"f\.tsv.*: changed since it was scanned \(lines 4 to 5"):
        next(rows)


def test_a_damaged_row_group_is_the_fault_of_its_parts_alone(tmp_path):
    path = parquet_file(tmp_path, 4)
    parts = list(cut(path, GRADED, 4))
    sound = list(GRADED.open(path).rows())
    content = bytearray(path.read_bytes())
    content[pq.read_metadata(path).row_group(1).column(0).data_page_offset + 3] ^= 255
    path.write_bytes(bytes(content))
    for part, rows in ((parts[0], slice(0, 4)), (parts[2], slice(8, 11))):
        assert list(read_part(part, GRADED)) == sound[rows]
    with pytest.raises(PartChanged):
        list(read_part(parts[1], GRADED))


@pytest.mark.parametrize(
    ("name", "content", "options", "reason"),
    [
        ("f.tsv", b"", PLAIN, "is empty"),
        ("f.tsv", b"a\tb\nq\tt\n", PLAIN, "line 1: no column 'query'"),
        ("f.tsv", b"query\xff\ttitle\xff\nq\tt\n", PLAIN, "the header is neither"),
        ("f.tsv", b"q\nq\tt\n", HEADERLESS, "no column 2 for the title"),
        ("f.jsonl", b'{"query": "q"}\n{"a": 1}\n', PLAIN, "no object has the key 'title'"),
        ("f.jsonl", JSONL.encode(), replace(PLAIN, columns="grade=lable"), "the key 'lable'"),
        ("f.tsv.gz", gzip.compress(TSV.encode() * 999)[:-99], PLAIN, "damaged or cut short"),
        ("f.tsv.xz", lzma.compress(TSV.encode() * 999)[:-99], PLAIN, "damaged or cut short"),
        ("f.parquet", b"PAR1", PLAIN, "damaged or cut short"),
        ("f.doc", b"q", PLAIN, "unknown suffix"),
    ],
)
def test_faults_of_a_file_read_as_in_the_reader(write, name, content, options, reason):
    path = write(name, content)
    with pytest.raises(PairFileError, match=reason) as result:
        list(cut(path, options, 3))
    with pytest.raises(PairFileError) as message:
        list(options.open(path))
    assert str(result.value) == str(message.value)


def test_names_are_safe_and_unique(write):
    part = FilePart("s3://b/日 志/../a?x=/y", 7, 1, 0, 5, "00", "utf-8", None)
    others = [
        replace(part, file="s3://c/a"),
        replace(part, first=8),
        replace(part, sha256="01"),
        replace(part, header="a"),
    ]
    names = {each.name() for each in [part, *others]}
    assert len(names) == 5
    assert part.name().startswith("a.l000000007.")
    hidden = replace(part, file="x/.tsv").name()
    assert hidden.startswith("part.l") and "/" not in part.name() + hidden
    assert len(replace(part, file="长" * 200 + ".tsv").name().encode()) < 160


def test_a_part_survives_json(write):
    for part in list(cut(write("f.tsv", TSV), GRADED, 2)):
        assert decode(FilePart, json.loads(json.dumps(asdict(part))), "part") == part


class InMemory:
    """A file that is no path."""

    name = "f.tsv.gz"

    def __str__(self) -> str:
        return "mem://f.tsv.gz"

    def open_input(self) -> IO[bytes]:
        return BytesIO(gzip.compress(TSV.encode()))


def test_what_lies_at_an_address_is_read_like_a_file(write):
    parts = list(cut(InMemory(), GRADED, 3))
    assert {part.file for part in parts} == {"mem://f.tsv.gz"}
    rows = [row for part in parts for row in read_part(part, GRADED, InMemory())]
    assert rows == list(GRADED.open(write("f.tsv", TSV)).rows())


@pytest.mark.parametrize("group", [4, 1000])
@pytest.mark.parametrize("last", ["其他", "终"])  # another length, and the same
def test_a_rewritten_parquet_file_is_refused(tmp_path, group, last):
    parts = list(cut(parquet_file(tmp_path, group), GRADED, 3))
    parquet_file(tmp_path, group, last=last)
    with pytest.raises(PartChanged, match="lines 10 to 11"):
        list(read_part(parts[-1], GRADED))
