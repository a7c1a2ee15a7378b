"""The figures of `benchmarks/scale.py` that are its own: the rate between 10 % and 90 %."""

import csv
from importlib import import_module
from typing import Any

import pytest

from benchmarks.common.runs import differences, texts_of, write_rows


@pytest.fixture
def benchmark() -> Any:
    return import_module("scale")


def test_the_rate_leaves_out_the_start_and_the_end(benchmark):
    clock = benchmark.Clock(100)
    # 5 rows before 10 %, then ten a second until 95 rows, then nothing for long.
    clock.marks = [(50.0, 5), (60.0, 10), (61.0, 20), (68.0, 90), (68.5, 95), (99.0, 100)]
    assert clock.rate() == (90 - 10) / (68.0 - 60.0)


def test_few_texts_are_begun_again(tmp_path):
    path, texts = tmp_path / "rows.csv", [("a", "b"), ('c,"', "d")]
    write_rows(path, texts, 5)
    with open(path, encoding="utf-8", newline="") as handle:
        head, *rows = [tuple(row) for row in csv.reader(handle)]
    assert head == ("query", "title")
    assert rows == [*texts, *texts, texts[0]] == texts_of([path], None)


def test_parts_differ_by_a_byte_and_by_being_there(tmp_path):
    for out, parts in (
        ("one", {"same": b"1", "other": b"1", "mine": b""}),
        ("two", {"same": b"1", "other": b"2"}),
    ):
        (tmp_path / out / "parts").mkdir(parents=True)
        for name, data in parts.items():
            (tmp_path / out / "parts" / name).write_bytes(data)
    assert differences(tmp_path / "one", tmp_path / "two") == ["mine", "other"]
    assert differences(tmp_path / "two", tmp_path / "one") == ["mine", "other"]
    assert differences(tmp_path / "one", tmp_path / "one") == []
