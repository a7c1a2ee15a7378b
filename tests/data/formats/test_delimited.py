from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qt_bert.data.reader import PairReader, read_pairs
from qt_bert.errors import PairFileError

Write = Callable[[str, str | bytes], Path]


def test_tsv_knows_no_quotes(write: Write) -> None:
    path = write("f.tsv", 'query\ttitle\n"a\tb\n"c"\td""\n')
    assert [(p.query, p.title) for p in read_pairs(path)] == [('"a', "b"), ('"c"', 'd""')]


def test_text_that_looks_like_something_else_stays_text(write: Write) -> None:
    path = write("f.csv", "query,title,id\nNA,null,001\n1.0,nan,TRUE\n")
    read = [(p.query, p.title, p.id) for p in read_pairs(path)]
    assert read == [("NA", "null", "001"), ("1.0", "nan", "TRUE")]


def test_no_csv_row_spans_lines(write: Write) -> None:
    path = write("f.csv", 'query,title\n"open,x\ny,"z\n')
    assert [(p.query, p.title) for p in read_pairs(path)] == [('"open', "x"), ("y", '"z')]


def test_extra_columns_keep_file_order(write: Write) -> None:
    path = write("f.tsv", "field\tquery\t\ttitle\ttags\n旅游\tq\t?\tt\t\n")
    (pair,) = read_pairs(path)
    assert list(pair.extra.items()) == [("field", "旅游"), ("column_3", "?"), ("tags", "")]


def test_without_a_header_columns_have_positions(write: Write) -> None:
    path = write("f.tsv", "甲\t乙\t3\n丙\t丁\t5\n")
    pairs = read_pairs(path, header=False, columns={"query": 2, "title": 1})
    assert [(p.query, p.title, p.label, p.line) for p in pairs] == [
        ("乙", "甲", "3", 1),
        ("丁", "丙", "5", 2),
    ]


def test_too_few_and_too_many_fields_are_rejects(write: Write) -> None:
    reader = PairReader(write("f.tsv", "query\ttitle\na\n\nb\tc\td\ne\tf\n"))
    assert [(p.query, p.line) for p in reader] == [("e", 5)]
    assert reader.reasons == {"too few fields": 1, "too many fields": 1}


def test_an_undecodable_header_is_an_error(write: Write) -> None:
    with pytest.raises(PairFileError, match="line 1: the header is neither"):
        read_pairs(write("f.tsv", b"query\ttitle\xff\xff\nq\tt\n"))


def test_a_header_is_not_decoded_as_a_pair(write: Write) -> None:
    with pytest.raises(PairFileError, match=r"line 1: no column 'query'.*'甲', '乙'.*--no-header"):
        read_pairs(write("f.tsv", "甲\t乙\n"))


TEXT = st.text(st.characters(exclude_characters="\t\r\n\0", codec="utf-8"), min_size=1)
ROWS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8)


@given(rows=ROWS)
def test_no_text_merges_or_loses_a_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "f.tsv"
    body = "".join(f"{query}\t{title}\n" for query, title in [("好", "好"), *rows])
    path.write_bytes(b"query\ttitle\n" + body.encode("utf-8"))
    reader = PairReader(path)
    read = [(pair.query, pair.title) for pair in reader]
    assert read[1:] == [row for row in rows if row[0].strip() and row[1].strip()]
    assert reader.rows_read == len(rows) + 1 == reader.accepted + reader.rejected
