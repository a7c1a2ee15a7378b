"""Halving: what a row that cannot be scored costs, and when it is not the row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from qt_bert.cluster.faults import (
    Answer,
    Outcome,
    Tally,
    Texts,
    WorkerIll,
    lacks_memory,
    plain,
    reason_of,
    score_halving,
)
from qt_bert.cluster.record import StatesRead

TRIAL = ("q", "trial")
Fault = Callable[[Texts], None]


class Model:
    """Logits [the title's number, number of rows in the call], and what was asked of it."""

    def __init__(self, fault: Fault = lambda rows: None) -> None:
        self.fault = fault
        self.calls: list[list[str]] = []

    def __call__(self, rows: Texts) -> Answer:
        self.calls.append([title for _, title in rows])
        self.fault(rows)
        numbers = [float(title.split()[0]) if title[0].isdigit() else -1.0 for _, title in rows]
        return Answer(np.array([[one, len(rows)] for one in numbers], np.float32), Tally(len(rows)))


def rows(count: int) -> list[tuple[str, str]]:
    return [("q", str(number)) for number in range(count)]


def raising(*bad: str, error: Exception | None = None) -> Fault:
    def fault(texts: Texts) -> None:
        if any(title in bad for _, title in texts):
            raise error or ValueError("bad row")

    return fault


def run(count: int, fault: Fault = lambda rows: None) -> tuple[Outcome, Model]:
    model = Model(fault)
    return score_halving(rows(count), model, TRIAL), model


def test_rows_without_fault_are_one_call():
    found, model = run(5)
    assert model.calls == [["0", "1", "2", "3", "4"]]
    assert found.places.tolist() == [0, 1, 2, 3, 4]
    assert found.logits[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert (found.rejected, found.halved, found.tally) == ({}, False, Tally(5))


def test_no_rows_are_no_call():
    found, model = run(0)
    assert (model.calls, len(found.places), len(found.logits)) == ([], 0, 0)


def test_the_pieces_around_a_bad_row_by_hand():
    found, model = run(8, raising("5"))
    assert model.calls == [
        ["0", "1", "2", "3", "4", "5", "6", "7"],
        ["0", "1", "2", "3"],
        ["4", "5", "6", "7"],
        ["4", "5"],
        ["4"],
        ["5"],
        ["0"],  # the longest good row, to see that it can still be scored
        ["5"],
        ["6", "7"],
    ]
    assert found.places.tolist() == [0, 1, 2, 3, 4, 6, 7]
    assert found.logits[:, 1].tolist() == [4, 4, 4, 4, 1, 2, 2]
    assert found.rejected == {5: "raises ValueError: bad row"}
    assert found.halved
    assert found.tally == Tally(7)  # 4 + 1 + 2: what a call that raised has seen does not count


@pytest.mark.parametrize("bad", [(), (0,), (6,), (0, 6), (1, 2, 3), tuple(range(7))])
def test_every_row_is_scored_or_rejected_once(bad):
    found, _ = run(7, raising(*map(str, bad)))
    assert found.places.tolist() == [row for row in range(7) if row not in bad]
    assert found.logits[:, :1].ravel().tolist() == found.places.tolist()
    assert sorted(found.rejected) == list(bad)


def test_the_same_faults_give_the_same_pieces():
    first, second = run(13, raising("2", "11")), run(13, raising("2", "11"))
    assert first[1].calls == second[1].calls
    assert first[0].logits.tobytes() == second[0].logits.tobytes()


def test_memory_for_three_rows_is_enough():
    def fault(texts: Texts) -> None:
        if len(texts) > 3:
            raise MemoryError

    found, _ = run(10, fault)
    assert found.logits[:, 0].tolist() == list(range(10))
    assert found.logits[:, 1].max() == 3
    assert found.rejected == {}


def test_logits_that_are_no_numbers_cost_their_row_alone():
    class Spoiled(Model):
        def __call__(self, rows: Texts) -> Answer:
            answer = super().__call__(rows)
            answer.logits[1, 0], answer.logits[3, 1] = np.nan, -np.inf
            return answer

    found = score_halving(rows(5), Spoiled(), TRIAL)
    assert found.rejected == {1: "no finite logits", 3: "no finite logits"}
    assert found.places.tolist() == [0, 2, 4]
    assert np.isfinite(found.logits).all()
    assert not found.halved


@pytest.mark.parametrize(("failures", "rejected"), [(2, {}), (3, {1: "raises MemoryError"})])
def test_a_row_has_two_tries_alone(failures, rejected):
    times: list[int] = []

    def fault(texts: Texts) -> None:
        if ("q", "1") in texts and len(times) < failures:
            times.append(1)
            raise MemoryError

    found, model = run(2, fault)
    assert model.calls == [["0", "1"], ["0"], ["1"], ["trial"], ["1"]]
    assert found.rejected == rejected


def test_for_want_of_memory_no_short_row_speaks():
    """The machine is short: row 1 needs more than row 0, and so would any row of its length."""

    def fault(texts: Texts) -> None:
        if list(texts) != [("q", "0")]:
            raise MemoryError

    with pytest.raises(WorkerIll, match="cannot be any more") as caught:
        run(2, fault)
    assert caught.value.memory


def test_a_worker_that_can_do_no_more_is_ill_and_rejects_nothing():
    calls: list[int] = []

    def fault(texts: Texts) -> None:
        calls.append(1)
        if len(texts) > 2 or len(calls) > 2:  # rows 0 and 1 pass, then nothing does
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    with pytest.raises(WorkerIll, match="cannot be any more.*can't allocate memory") as caught:
        run(4, fault)
    assert caught.value.memory


def test_without_a_good_row_the_trial_decides():
    with pytest.raises(WorkerIll) as caught:
        run(2, raising("0", "1", "trial"))
    assert not caught.value.memory
    found, model = run(2, raising("0", "1"))
    assert sorted(found.rejected) == [0, 1]
    assert model.calls.count(["trial"]) == 2


def test_the_longest_good_row_is_tried():
    texts = [("q", "0 long"), ("q", "1 longer"), ("q", "2"), ("q", "bad")]
    model = Model(raising("bad"))
    score_halving(texts, model, TRIAL)
    assert model.calls[-2:] == [["1 longer"], ["bad"]]


def test_a_wish_to_stop_is_no_fault_of_a_row():
    def fault(texts: Texts) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(2, fault)


def test_a_panic_of_the_tokenizer_is_one():
    PanicException = type("PanicException", (BaseException,), {})

    def fault(texts: Texts) -> None:
        if ("q", "1") in texts:
            raise PanicException("index out of bounds")

    found, _ = run(3, fault)
    assert found.rejected == {1: "raises PanicException: index out of bounds"}


def test_reasons_are_one_short_line():
    error = ValueError("first\tline \x00" + "字" * 200 + "\nsecond")
    reason = reason_of(error)
    assert reason.startswith("raises ValueError: first line  字")
    assert len(reason) == 120
    assert reason_of(ValueError()) == "raises ValueError"
    assert plain("a\ud800b\r") == "a b "


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] . DefaultCPUAllocator: not enough memory"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("out of memory"), False),
    ],
)  # fmt: skip
def test_what_lacks_memory(error, expected):
    assert lacks_memory(error) is expected


def test_tallies_add_up():
    one = Tally(1, 2, StatesRead(read=3, long_queries=4, unknown_titles=5))
    assert one + one == Tally(2, 4, StatesRead(read=6, long_queries=8, unknown_titles=10))
    assert Tally() + one == one + Tally() == one
