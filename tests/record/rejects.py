"""What `check` says of files with bad rows, and of files that are none: the cases of tests/data."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

from tests.record.make import Value, command, store

TSV = "query\ttitle\n"
GOOD = '{"query": "q", "title": "t"}\n'
JSON_LINES = (
    '{"query": "q", "title": ',
    '{"query": "q", "title": NaN}',
    '{"query": "a", "query": "b", "title": "t"}',
    '{"query": "a\tb", "title": "t"}',
    "[" * 100_000,
    '["q", "t"]',
    '"q"',
    '{"title": "t"}',
    '{"query": "q"}',
    '{"query": null, "title": "t"}',
    '{"query": "q", "title": ["t"]}',
    '{"query": true, "title": "t"}',
    '{"query": {}, "title": "t"}',
    '{"query": "\\ud83d", "title": "t"}',
    '{"query": "q", "title": "t", "x": "\\uDE00"}',
    '{"query": "a\\u0000b", "title": "t"}',
    '{"query": " \\u3000", "title": "t"}',
)
DAMAGED = "北京天气好".encode()[:-1]
LINE = "北京天气预报\t预报\n".encode("gb18030")
GRADED = "query\ttitle\tgrade\nq\tt\t2\nq\tt\t\nq\tt\tgood\nq\tt\t9\n"

FILES: dict[str, tuple[str, str | bytes, tuple[str, ...]]] = {
    "fields": ("f.tsv", TSV + "a\n\nb\tc\td\ne\tf\n", ()),
    "empty_texts": ("f.tsv", TSV + "q\tt\n\tt\n\u3000 \tt\nq\t\u2003\na\0b\tt\nq\t\0\n", ()),
    "long_text": ("f.tsv", TSV + "q\tt\na\u2028\x85\r\tb\tc" + "长" * 500 + "\n", ()),
    "quotes_in_tsv": ("f.tsv", TSV + '"a\tb\n"c"\td""\n', ()),
    "quotes_in_csv": ("f.csv", 'query,title\n"open,x\ny,"z\n"a""b",c\n"a"b,c\nd,e,f\n', ()),
    "line_ends": ("f.tsv", TSV + "a\x0bb\tc\x1cd\r\nf\rg\tr\r\r\n\n最后\tt", ()),
    "grades": ("f.tsv", GRADED, ()),
    "mapped_grades": ("f.tsv", GRADED, ("--grades", "2=3-4,3=5")),
    "bad_grades_option": ("f.tsv", GRADED, ("--grades", "2=9")),
    "json": ("f.jsonl", GOOD + "".join(f"{line}\n" for line in JSON_LINES) + GOOD, ()),
    "json_without_key": ("f.jsonl", GOOD, ("--columns", "query=q")),
    "json_by_position": ("f.jsonl", GOOD, ("--columns", "query=1")),
    "no_header": ("f.tsv", "甲\t乙\t3\n丙\t丁\n戊\n", ("--no-header",)),
    "no_column": ("f.tsv", "甲\t乙\n", ()),
    "bad_columns": ("f.tsv", TSV + "q\tt\n", ("--columns", "query=title,title=title")),
    "column_twice": ("f.tsv", "query\ttitle\ttitle\nq\tt\tt\n", ()),
    "undecodable_header": ("f.tsv", b"query\ttitle\xff\xff\nq\tt\n", ()),
    "undecodable_line": (
        "f.tsv",
        TSV.encode() + "上海\tt\n".encode() + DAMAGED + "\tt\n广州\tt\n深圳\tt".encode(),
        (),
    ),
    "undecodable_gb18030": ("f.tsv", TSV.encode() + LINE * 3 + b"\xff\xff\tt\n" + LINE, ()),
    "ten_rejects": ("f.tsv", TSV + "q\tt\n" + "bad\n" * 10, ("--max-rejects", "0")),
    "eleven_rejects": ("f.tsv", TSV + "q\tt\n" + "bad\n" * 11, ("--max-rejects", "0.01")),
    "many_rejects": ("f.tsv", TSV + "bad\n" * 101 + "q\tt\n" * 20_000, ("--max-rejects", "0.01")),
    "bad_share": ("f.tsv", TSV + "q\tt\n", ("--max-rejects", "1.1")),
    "no_rows": ("f.tsv", TSV, ()),
    "no_pair": ("f.tsv", TSV + "bad\n" * 3, ("--max-rejects", "1")),
    "empty": ("empty.tsv", b"", ()),
    "zip": ("zip.tsv", b"PK\x03\x04rest", ()),
    "excel": ("old.csv", b"\xd0\xcf\x11\xe0rest", ()),
    "gzip_by_content": ("gzip.tsv", gzip.compress(b"a", mtime=0), ()),
    "xz_by_content": ("xz.tsv", lzma.compress(b"a"), ()),
    "parquet_by_content": ("parquet.tsv", b"PAR1rest", ()),
    "utf16": ("utf16.tsv", TSV.encode("utf-16"), ()),
    "utf16_without_mark": ("utf16be.tsv", TSV.encode("utf-16-be"), ()),
    "plain_gzip": ("plain.tsv.gz", TSV.encode(), ()),
    "plain_xz": ("plain.tsv.xz", TSV.encode(), ()),
    "cut_gzip": ("f.tsv.gz", gzip.compress((TSV + "查询\t标题\n" * 50).encode(), mtime=0)[:40], ()),
    "packed_zip": ("zip.tsv.gz", gzip.compress(b"PK\x03\x04rest", mtime=0), ()),
    "text_as_parquet": ("f.parquet", TSV, ()),
    "packed_parquet": ("f.parquet.gz", b"", ()),
    "unknown_suffix": ("f.docx", TSV, ()),
}
"""By name: the file's name, what it holds, the options of `check`."""


def rejects(into: Path, work: Path) -> None:
    """Status, message, counts and list of rejects of every file."""
    found: dict[str, Value] = {}
    for name, (file, content, options) in FILES.items():
        path, listed = work / file, work / "rejects.tsv"
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        asked = ("check", path, "--rejects", listed, "--json", *options)
        made = command(*asked, fails=True)
        counts = json.loads(made.out) if made.out else {}
        found[name] = {
            "status": made.status,
            "message": made.err.replace(f"{work}/", "").strip(),
            "rows": counts.get("rows"),
            "accepted": counts.get("accepted"),
            "reasons": counts.get("reasons"),
            "rejects": listed.read_text("utf-8").splitlines() if listed.exists() else None,
        }
        path.unlink()
        listed.unlink(missing_ok=True)
    store(into / "rejects.json", found)
