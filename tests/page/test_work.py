"""The lock, the worker's jobs, the cache."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.page import work
from qt_bert.page.model import SharedScorer
from qt_bert.page.work import Job, ModelLock, ResultCache, Stopped, Worker

SOON = 5.0


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def ended(job: Job[Any]) -> Job[Any]:
    until(lambda: job.state().finished)
    return job


def counting(job: Job[str]) -> str:
    for _ in range(3):
        job.advance(2, "counting")
    return "done"


def endless(job: Job[None]) -> None:
    while True:
        time.sleep(0.005)
        job.advance()


@pytest.fixture
def worker():
    return Worker(ModelLock())


def test_the_lock_is_exclusive_and_reentrant():
    lock, inside, most = ModelLock(), [], []

    def hold() -> None:
        for _ in range(20):
            with lock, lock:
                assert lock.mine
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0002)
                inside.pop()

    threads = ThreadPoolExecutor(6)
    for thread in [threads.submit(hold) for _ in range(6)]:
        thread.result(SOON)
    assert set(most) == {1} and len(most) == 120 and not lock.mine


def test_a_waiting_thread_goes_first_where_a_job_gives_way():
    lock, order = ModelLock(), []

    def visit() -> None:
        with lock:
            order.append("visitor")

    with lock:
        thread = threading.Thread(target=visit)
        thread.start()
        until(lambda: lock._queue.locked())
        with lock:
            lock.give_way()  # held twice: no other thread may see the middle
            order.append("inner")
        lock.give_way()
        order.append("job")
    thread.join(SOON)
    assert order == ["inner", "visitor", "job"]


def test_a_shared_scorer_gives_equal_scores_in_small_batches_under_the_lock(pool):
    scorer, texts = pool.open("tuned").scorer, [("狗追猫", "猫" * n) for n in range(1, 30)]
    shared = SharedScorer(scorer, pool.lock, 64)
    np.testing.assert_allclose(shared.logits(texts), scorer.fresh().logits(texts), atol=1e-5)
    sizes = []
    for batch in shared.batches(texts, 10_000):
        sizes.append(batch.input_ids.numel())
        assert pool.lock.mine
    assert not pool.lock.mine and len(sizes) > 5 and max(sizes) <= 64
    assert shared.counts is not scorer.counts


def test_result_and_progress(worker):
    job = ended(worker.start(counting, 6))
    assert (job.result, job.error) == ("done", None)
    state = job.state()
    assert (state.done, state.total, state.share, state.note) == (6, 6, 1.0, "counting")
    assert state.left == 0.0


def test_jobs_queue_and_a_stop_frees_the_queue(worker):
    first = worker.start(endless, 0)
    until(lambda: first.state().done > 0)
    second, third = worker.start(counting, 6), worker.start(counting, 6)
    assert [job.state().place for job in (first, second, third)] == [0, 1, 2]
    second.stop()
    first.stop()
    assert isinstance(ended(first).error, Stopped) and isinstance(ended(second).error, Stopped)
    assert ended(third).result == "done"


def test_a_visitor_who_leaves_frees_the_queue(worker, monkeypatch):
    monkeypatch.setattr(work, "PATIENCE", 0.1)
    gone, stays = worker.start(endless, 0), worker.start(counting, 6)
    assert ended(stays).result == "done"
    assert isinstance(gone.error, Stopped)


def test_an_input_error_is_stored_and_an_unexpected_one_logged(worker, caplog):
    def refuses(job: Job[None]) -> None:
        raise ArgumentError("no such thing")

    def fails(job: Job[None]) -> None:
        raise ZeroDivisionError("a fault")

    job = ended(worker.start(refuses, 0))
    assert isinstance(job.error, ArgumentError) and job.result is None and not caplog.text
    assert isinstance(ended(worker.start(fails, 0)).error, ZeroDivisionError)
    assert "a visitor's job failed" in caplog.text
    assert ended(worker.start(counting, 0)).result == "done"


def test_a_result_is_computed_once_while_it_is_cached():
    kept, made = ResultCache(most=2), []

    def value(key: str) -> str:
        return kept.get(key, lambda: made.append(key) or key.upper())

    assert [value(key) for key in "abab"] == list("ABAB") and made == ["a", "b"]
    value("c")  # forgets a, the least recently used
    assert value("b") == "B" and made == ["a", "b", "c"]
    assert value("a") == "A" and made == ["a", "b", "c", "a"] and len(kept._results) == 2


def test_bytes_are_bounded():
    kept = ResultCache(most_bytes=80_000)
    for key in range(100):
        kept.get(key, lambda: np.zeros(1_000))
    before = len(kept._results)
    assert kept.bytes <= 80_000 and 5 <= before <= 10
    kept.get("large", lambda: np.zeros(10_000))
    assert len(kept._results) == before


def test_many_threads_share_the_cache():
    kept = ResultCache(most=3)

    def results(_: int) -> list[int]:
        return [kept.get(turn % 7, lambda key=turn % 7: key) for turn in range(300)]

    with ThreadPoolExecutor(8) as threads:
        every = list(threads.map(results, range(8)))
    assert every == [[turn % 7 for turn in range(300)]] * 8 and len(kept._results) <= 3
