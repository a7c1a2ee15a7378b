"""Long work in a thread: what it leaves, how it ends, and who waits for whom."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.inspection.turns import Background, Job, Stopped, Turns
from qt_bert.progress import Progress


def wait_until(what: Callable[[], bool], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def ended(job: Background) -> Background:
    wait_until(lambda: job.standing().finished)
    return job


def counting(job: Job, shown: Progress) -> str:
    for _ in range(3):
        with job.slice():
            pass
        shown.advance(2, "counting")
    return "done"


def endless(job: Job, shown: Progress) -> None:
    while True:
        with job.slice():
            time.sleep(0.01)
        shown.advance()


def test_the_result_and_how_far_it_was() -> None:
    job = ended(Background(Turns(), counting, total=6))
    assert (job.result, job.error) == ("done", None)
    standing = job.standing()
    assert (standing.done, standing.total, standing.share, standing.note) == (6, 6, 1.0, "counting")
    assert standing.left == 0.0 and standing.rate is not None and standing.rate > 0


def test_without_a_total_there_is_no_time_left() -> None:
    standing = ended(Background(Turns(), counting)).standing()
    assert (standing.share, standing.left) == (0.0, None)


def test_a_stop_ends_it_and_frees_the_queue() -> None:
    turns = Turns()
    first = Background(turns, endless)
    wait_until(lambda: first.standing().done > 0)
    second = Background(turns, counting, total=6)
    wait_until(lambda: second.standing().place == 1)
    assert not second.standing().finished
    first.stop()
    assert isinstance(ended(first).error, Stopped)
    assert ended(second).result == "done"


def test_a_stop_while_it_waits_in_the_queue() -> None:
    turns = Turns()
    first, second = Background(turns, endless), Background(turns, counting)
    wait_until(lambda: second.standing().place == 1)
    second.stop()
    assert isinstance(ended(second).error, Stopped)
    assert not first.standing().finished
    first.stop()
    ended(first)


def test_a_visitor_who_leaves_frees_the_queue() -> None:
    turns = Turns()
    gone = Background(turns, endless, patience=0.1)
    stays = Background(turns, counting)
    assert ended(stays).result == "done"
    assert isinstance(gone.error, Stopped)


def test_an_error_of_the_input_is_kept() -> None:
    def fails(job: Job, shown: Progress) -> None:
        raise ArgumentError("no such thing")

    turns = Turns()
    job = ended(Background(turns, fails))
    assert isinstance(job.error, ArgumentError) and job.result is None
    assert ended(Background(turns, counting)).result == "done"


def test_an_error_of_the_program_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails(job: Job, shown: Progress) -> None:
        raise ZeroDivisionError("a fault")

    job = ended(Background(Turns(), fails))
    assert isinstance(job.error, ZeroDivisionError)
    assert "a visitor's job failed" in caplog.text


def test_visitors_go_between_its_slices() -> None:
    turns = Turns()
    job = Background(turns, endless)
    wait_until(lambda: job.standing().done > 0)
    for _ in range(5):
        began = time.monotonic()
        with turns.visit():
            assert time.monotonic() - began < 1
    job.stop()
    ended(job)
    assert threading.active_count() < 20
