"""Whose turn it is: visitors first, jobs in a queue, and nobody keeps a turn by failing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from qt_bert.inspection.turns import Job, Stopped, Turns

SOON = 5.0


def started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def until(ready: Callable[[], bool]) -> None:
    """Wait for it, and fail where it does not come."""
    end = time.monotonic() + SOON
    while not ready():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.001)


def joined(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()


def test_visitors_go_in_the_order_they_came() -> None:
    turns, order = Turns(), []

    def visit(number: int) -> None:
        with turns.visit():
            order.append(number)

    threads = []
    with turns.visit():
        for number in range(5):
            threads.append(started(lambda number=number: visit(number)))
            until(lambda number=number: len(turns._visitors) == number + 1)
    joined(*threads)
    assert order == [0, 1, 2, 3, 4]


def test_never_two_at_once() -> None:
    turns, inside, most = Turns(), [], []

    def work(job: Job | None = None) -> None:
        for _ in range(20):
            with job.slice() if job else turns.visit():
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0002)
                inside.pop()

    def long_work() -> None:
        with turns.job() as job:
            work(job)

    joined(*[started(work) for _ in range(8)], *[started(long_work) for _ in range(3)])
    assert len(most) == 11 * 20 and set(most) == {1}


def test_a_waiting_visitor_goes_before_the_next_slice() -> None:
    turns, order = Turns(), []
    begun = threading.Event()

    def long_work() -> None:
        with turns.job() as job:
            for number in range(3):
                with job.slice():
                    order.append(f"slice {number}")
                    if number == 0:
                        begun.set()
                        until(lambda: len(turns._visitors) == 2)

    def visit() -> None:
        with turns.visit():
            order.append("visitor")

    job = started(long_work)
    assert begun.wait(SOON)
    joined(started(visit), started(visit), job)
    assert order == ["slice 0", "visitor", "visitor", "slice 1", "slice 2"]


def test_jobs_queue_and_know_their_place() -> None:
    turns = Turns()
    with turns.job() as first, turns.job() as second, turns.job() as third:
        assert [job.place for job in (first, second, third)] == [0, 1, 2]
        assert first.wait(0) and not second.wait(0.02)
    assert third.place == 0


def test_the_next_job_begins_when_the_first_leaves() -> None:
    turns, order = Turns(), []

    def long_work() -> None:
        with turns.job() as job, job.slice():
            order.append("second")

    with turns.job() as first:
        thread = started(long_work)
        until(lambda: len(turns._jobs) == 2)
        with first.slice():
            pass
        with first.slice():
            order.append("first")
    joined(thread)
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    "act", [Job.check, lambda job: job.wait(1), lambda job: job.slice().__enter__()]
)
def test_a_stopped_job_ends(act: Callable[[Job], object]) -> None:
    turns, stop = Turns(), threading.Event()
    with pytest.raises(Stopped, match="stopped"), turns.job(stop) as job:
        job.check()
        stop.set()
        act(job)
    assert turns._jobs == []


def test_a_job_is_stopped_while_it_waits_in_the_queue() -> None:
    turns, stop, ended = Turns(), threading.Event(), []

    def long_work() -> None:
        try:
            with turns.job(stop) as job, job.slice():
                ended.append("worked")
        except Stopped:
            ended.append("stopped")

    with turns.job():
        thread = started(long_work)
        until(lambda: len(turns._jobs) == 2)
        stop.set()
        joined(thread)
        assert ended == ["stopped"] and len(turns._jobs) == 1


def test_an_error_frees_the_turn() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.visit():
        _ = 1 / 0
    with pytest.raises(ZeroDivisionError), turns.job() as job, job.slice():
        _ = 1 / 0
    assert not turns.mine and turns._jobs == []
    joined(started(lambda: turns.visit().__enter__()))


def test_who_has_the_turn_goes_on_at_once() -> None:
    turns = Turns()
    with turns.visit(), turns.visit():
        assert turns.mine
    with turns.job() as job, job.slice(), turns.visit(), job.slice():
        assert turns.mine
    assert not turns.mine
