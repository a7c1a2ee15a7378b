"""The figures of `benchmarks/scale_faults.py` that are its own: kills, memory, what differs."""

from __future__ import annotations

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.common.nodes import is_actor
from qt_bert.data.reader import ReaderOptions


@pytest.fixture
def benchmark() -> Any:
    return import_module("scale_faults")


def test_a_seed_draws_the_same_ten_kills(benchmark: Any) -> None:
    kills = benchmark.drawn(3)
    assert Counter(kill.what for kill in kills) == {"actor": 7, "worker": 2, "command": 1}
    assert [kill.share for kill in kills] == sorted(kill.share for kill in kills)
    assert all(0 < kill.share <= benchmark.LATEST for kill in kills)
    assert all(0 <= kill.pause <= benchmark.PAUSE for kill in kills)
    assert benchmark.drawn(3) == kills != benchmark.drawn(4)


def test_memory_grows_from_a_tenth_of_the_rows_to_nine_tenths(benchmark: Any) -> None:
    memory = [(0.0, 900.0), (0.09, 100.0), (0.1, 120.0), (0.11, 110.0), (0.5, 400.0)]
    seen = benchmark.Watched([*memory, (0.89, 150.0), (0.9, 170.0), (1.0, 999.0)])
    found = seen.describe()
    assert found["mebibytes"] == {"at 10 %": 110.0, "at 90 %": 160.0, "most": 400.0}
    assert found["growth"] == {"at 90 %": 50.0, "most": 290.0}


def test_memory_where_rows_come_in_leaps_is_that_of_the_nearest_look(benchmark: Any) -> None:
    seen = benchmark.Watched([(0.0, 1.0), (0.4, 2.0), (0.7, 3.0), (1.0, 5.0)])
    assert seen.near(0.1) == 1.0
    assert seen.near(0.9) == 5.0


def test_rows_are_counted_by_partition_without_half_a_line(benchmark: Any, tmp_path: Path) -> None:
    assert benchmark.rows_done(tmp_path) == 0
    lines = [{"partition": name, "rows": rows} for name, rows in (("a", 5), ("b", 7), ("a", 5))]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "manifest").mkdir()
    (tmp_path / "manifest" / "000001.jsonl").write_text(text + '{"partition": "c", "rows": 9')
    assert benchmark.rows_done(tmp_path) == 12


def test_a_row_that_is_there_twice_is_told(benchmark: Any, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    pq.write_table(pa.table({"file": ["a", "b"], "line": [2, 2]}), parts / "1.parquet")
    assert benchmark.rows_in(tmp_path) == {("a", 2), ("b", 2)}
    pq.write_table(pa.table({"file": ["a"], "line": [2]}), parts / "2.parquet")
    with pytest.raises(SystemExit, match="1 rows are there twice"):
        benchmark.rows_in(tmp_path)


def test_the_rows_of_a_day_are_the_texts_again_and_again(benchmark: Any, tmp_path: Path) -> None:
    texts = [(f"q{number}", f"t{number}") for number in range(7)]
    day = benchmark.write_day(tmp_path / "day", texts, 23)
    options = ReaderOptions()
    found = [(p.query, p.title) for f in sorted(day.iterdir()) for p in options.open(f)]
    assert found == [texts[number % 7] for number in range(23)]
    assert len(list(day.iterdir())) == 10


def test_this_process_is_no_actor() -> None:
    assert not is_actor(psutil.Process())
