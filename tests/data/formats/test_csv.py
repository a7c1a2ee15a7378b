from __future__ import annotations

import csv
import io
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qt_bert.data.formats import split_csv


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("a,b", ["a", "b"]),
        ("a,", ["a", ""]),
        (",", ["", ""]),
        ('"a,b",c', ["a,b", "c"]),
        ('"say ""hi""",c', ['say "hi"', "c"]),
        ('"",c', ["", "c"]),
        ('c,""', ["c", ""]),
        ('5" 屏幕,b', ['5" 屏幕', "b"]),
        ('"open,b', ['"open', "b"]),
        ('"a"b,c', ['"a"b', "c"]),
        ('"a" ,c', ['"a" ', "c"]),
        ('a,"b', ["a", '"b']),
        ('a,b"', ["a", 'b"']),
        ('""",b', ['"""', "b"]),
        ('""""', ['"']),
        (' "a,b"', [' "a', 'b"']),
    ],
)
def test_quotes(line: str, fields: list[str]) -> None:
    assert split_csv(line) == fields


@given(st.lists(st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8")), min_size=2))
def test_what_the_standard_library_writes_is_read_back(fields: list[str]) -> None:
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(fields)
    assert split_csv(written.getvalue()) == fields


def test_a_million_quotes_take_linear_time() -> None:
    start = time.process_time()
    assert len(split_csv('"a",' * 250_000 + '"' + '""' * 250_000)) == 250_001
    assert time.process_time() - start < 3
