from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.data.reader import PairReader, read_pairs
from qt_bert.errors import ArgumentError, PairFileError

Write = Callable[[str, str | bytes], Path]
GOOD = '{"query": "q", "title": "t"}\n'


def test_texts_survive_escapes_and_odd_separators(write: Write) -> None:
    row = {"query": '引"号\\', "title": "a\u2028b\n😀", "id": "x"}
    path = write("f.jsonl", json.dumps(row) + "\n" + json.dumps(row, ensure_ascii=False))
    assert [(p.query, p.title, p.id, p.line) for p in read_pairs(path)] == [
        ('引"号\\', "a\u2028b\n😀", "x", 1),
        ('引"号\\', "a\u2028b\n😀", "x", 2),
    ]


def test_numbers_are_taken_as_written(write: Write) -> None:
    path = write(
        "f.ndjson", '{"query": 1.50, "title": 00, "id": 7}\n{"query": 1.50, "title": 12}\n'
    )
    reader = PairReader(path)
    assert [(p.query, p.title) for p in reader] == [("1.50", "12")]
    assert reader.reasons == {"bad JSON": 1}


@pytest.mark.parametrize(
    ("grade", "label"),
    [("3", "3"), ('"3"', "3"), ("3.0", "3.0"), ("null", None), ('" "', None), ("true", "true")],
)
def test_grades(write: Write, grade: str, label: str | None) -> None:
    (pair,) = read_pairs(write("f.jsonl", f'{{"query": "q", "title": "t", "grade": {grade}}}'))
    assert pair.label == label


def test_extra_keys_keep_file_order_and_become_text(write: Write) -> None:
    path = write("f.jsonl", '{"z": 1.0, "query": "q", "a": null, "title": "t", "m": ["甲", {}]}')
    (pair,) = read_pairs(path)
    assert list(pair.extra.items()) == [("z", "1.0"), ("a", ""), ("m", '["甲", {}]')]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"query": "q", "title": ', "bad JSON"),
        ('{"query": "q", "title": NaN}', "bad JSON"),
        ('{"query": "a", "query": "b", "title": "t"}', "bad JSON"),
        ('{"query": "a\tb", "title": "t"}', "bad JSON"),
        ("[" * 100_000, "bad JSON"),
        ('["q", "t"]', "not a JSON object"),
        ('"q"', "not a JSON object"),
        ('{"title": "t"}', "missing query"),
        ('{"query": "q"}', "missing title"),
        ('{"query": null, "title": "t"}', "query is not text"),
        ('{"query": "q", "title": ["t"]}', "title is not text"),
        ('{"query": true, "title": "t"}', "query is not text"),
        ('{"query": {}, "title": "t"}', "query is not text"),
        ('{"query": "\\ud83d", "title": "t"}', "lone surrogate"),
        ('{"query": "q", "title": "t", "x": "\\uDE00"}', "lone surrogate"),
        ('{"query": "a\\u0000b", "title": "t"}', "NUL character"),
        ('{"query": " \\u3000", "title": "t"}', "empty query"),
    ],
)
def test_rejects(write: Write, line: str, reason: str) -> None:
    reader = PairReader(write("f.jsonl", GOOD + line + "\n" + GOOD))
    assert [pair.line for pair in reader] == [1, 3]
    assert reader.reasons == {reason: 1}


def test_a_key_no_object_has_is_an_error_naming_those_there_are(write: Write) -> None:
    with pytest.raises(PairFileError, match="no object has the key 'q'; the first has 'query'"):
        read_pairs(write("f.jsonl", GOOD), columns={"query": "q"})


def test_a_grade_key_asked_for_by_name_must_be_somewhere(write: Write) -> None:
    with pytest.raises(PairFileError, match="no object has the key 'lable'"):
        read_pairs(write("f.jsonl", GOOD), columns={"grade": "lable"})


def test_a_position_is_no_key(write: Write) -> None:
    with pytest.raises(ArgumentError, match="not positions"):
        PairReader(write("f.jsonl", GOOD), columns={"query": 1})


def test_no_header_means_nothing_here(write: Write) -> None:
    with pytest.raises(ArgumentError, match="--no-header is for TSV and CSV"):
        PairReader(write("f.jsonl", GOOD), header=False)
