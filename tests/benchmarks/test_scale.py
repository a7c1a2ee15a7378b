"""The figures of `benchmarks/scale.py` that are its own: the rate between 10 % and 90 %."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture
def benchmark() -> Any:
    return import_module("scale")


def test_the_rate_leaves_out_the_start_and_the_end(benchmark: Any) -> None:
    clock = benchmark.Clock(100)
    # 5 rows before 10 %, then ten a second until 95 rows, then nothing for long.
    clock.told = [(50.0, 5), (60.0, 10), (61.0, 20), (68.0, 90), (68.5, 95), (99.0, 100)]
    assert clock.rate() == (90 - 10) / (68.0 - 60.0)


def test_what_is_counted_is_written_down(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([1.0, 2.0, 4.0])
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: next(moments))
    clock = benchmark.Clock(10)
    with clock.progress(10, "scoring", "rows", done=0) as shown:
        for rows in (1, 2, 7):
            shown.advance(rows)
    assert clock.told == [(1.0, 1), (2.0, 3), (4.0, 10)]
    assert clock.rate() == 9 / 3.0
