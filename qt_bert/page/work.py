"""One model, many visitors: a lock for every forward pass, a worker for long jobs, a cache of results."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np

from qt_bert.errors import QtBertError

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds without a look at the job after which its visitor counts as gone."""

_log = logging.getLogger(__name__)


class Stopped(QtBertError):
    """The visitor stopped the job, or left."""

    def __init__(self) -> None:
        super().__init__("the work was stopped")


class ModelLock:
    """A fair, reentrant lock, held while a model runs: two passes at once are slower than in turn.

    A thread that takes it again queues behind those that wait.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._queue = threading.Lock()
        self._owner: int | None = None
        self._depth = 0

    @property
    def mine(self) -> bool:
        """Whether the calling thread holds it."""
        return self._owner == threading.get_ident()

    def __enter__(self) -> None:
        if self.mine:
            self._lock.acquire()
        else:
            with self._queue:
                self._lock.acquire()
        self._owner, self._depth = threading.get_ident(), self._depth + 1

    def __exit__(self, *fault: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
        self._lock.release()

    def give_way(self) -> None:
        """Let a waiting thread go first, where the calling thread holds the lock once."""
        if self.mine and self._depth == 1:
            self.__exit__()
            self.__enter__()


@dataclass(frozen=True, kw_only=True)
class JobState:
    """A job's progress: `place` jobs before it, `done` of `total` units, `left` seconds, its last `note`."""

    place: int
    done: int
    total: int
    left: float | None
    note: str
    finished: bool

    @property
    def share(self) -> float:
        """Done of total, 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total else 0.0


class Job(Generic[T]):
    """Long work of one visitor. The work reports to it, as to a `Progress`; the page polls `state`.

    When it is finished, one of `result` and `error` is set. `error` is Stopped where the visitor
    stopped it or did not poll for `PATIENCE` seconds; unexpected errors are logged.
    """

    def __init__(self, worker: Worker, work: Callable[[Job[T]], T], total: int) -> None:
        self.result: T | None = None
        self.error: Exception | None = None
        self._worker, self._total, self._done, self._note = worker, total, 0, ""
        self._work: Callable[[Job[T]], T] | None = work
        self._stop, self._finished = threading.Event(), threading.Event()
        self._began: float | None = None
        self._seen = time.monotonic()

    def stop(self) -> None:
        """End the work at its next report."""
        self._stop.set()

    def state(self) -> JobState:
        """Its progress. Polling keeps the job alive."""
        self._seen = time.monotonic()
        seconds = 0.0 if self._began is None else self._seen - self._began
        rate = self._done / seconds if seconds and self._done else None
        return JobState(
            place=self._worker.place(self) if self._began is None else 0,
            done=self._done,
            total=self._total,
            left=max(self._total - self._done, 0) / rate if rate else None,
            note=self._note,
            finished=self._finished.is_set(),
        )

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count units, and let other visitors go first. Raises Stopped where the job is to end."""
        self._done += amount
        self._note = note or self._note
        if self._stop.is_set() or time.monotonic() - self._seen > PATIENCE:
            raise Stopped
        self._worker.lock.give_way()

    def run(self) -> None:
        """Do the work, in the worker's thread."""
        work, self._work = self._work, None  # frees what it holds, models too
        assert work is not None
        try:
            self.advance(0)
            self._began = time.monotonic()
            self.result = work(self)
        except Exception as error:
            if not isinstance(error, QtBertError):
                _log.exception("a visitor's job failed")
            self.error = error.with_traceback(None)  # its frames hold the model
        finally:
            self._finished.set()


class Worker:
    """One thread that does jobs one after another, in the order of their start."""

    def __init__(self, lock: ModelLock) -> None:
        self.lock = lock
        self._listed: list[Job[Any]] = []
        self._queue: SimpleQueue[Job[Any]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def start(self, work: Callable[[Job[T]], T], total: int) -> Job[T]:
        """Queue `work`, which counts `total` units."""
        job = Job(self, work, total)
        with self._starting:
            self._listed.append(job)
            self._queue.put(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="jobs", daemon=True)
                self._thread.start()
                atexit.register(self._end)
        return job

    def place(self, job: Job[Any]) -> int:
        """The number of jobs before it."""
        with suppress(ValueError):
            return self._listed.index(job)
        return 0

    def _end(self) -> None:
        """Stop all jobs: torch aborts a process that ends while it computes."""
        for job in self._listed:
            job.stop()
        for _ in range(200):
            if not self._listed:
                break
            time.sleep(0.01)

    def _serve(self) -> None:
        while True:
            job = self._queue.get()
            job.run()
            self._listed.remove(job)
            del job


class ResultCache:
    """A thread-safe cache of at most `most` results and `most_bytes` bytes; the least recently used go first.

    A result larger than an eighth of the bytes is not cached.
    """

    def __init__(self, most: int = 512, most_bytes: int = 64 << 20) -> None:
        self.most, self.most_bytes, self.bytes = most, most_bytes, 0
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def find(self, key: Hashable) -> Any | None:
        """The result under `key`, if it is cached."""
        with self._lock:
            if key not in self._results:
                return None
            self._results.move_to_end(key)
            return self._results[key][0]

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result under `key`; `compute` runs without a lock, so two threads may both compute it."""
        value: T | None = self.find(key)
        if value is None:
            value = compute()
            self.put(key, value)
        return value

    def put(self, key: Hashable, value: Any) -> None:
        """Cache `value` under `key`."""
        size = bytes_of(value)
        if size <= self.most_bytes // 8:
            with self._lock:
                if key in self._results:
                    self.bytes -= self._results.pop(key)[1]
                self._results[key] = (value, size)
                self.bytes += size
                while len(self._results) > self.most or self.bytes > self.most_bytes:
                    self.bytes -= self._results.popitem(last=False)[1][1]


def bytes_of(value: Any) -> int:
    """Bytes of a result, roughly: of its arrays and texts, in any plain objects."""
    if isinstance(value, np.ndarray):
        return value.nbytes + 128
    if isinstance(value, str | bytes):
        return 64 + 4 * len(value)
    if isinstance(value, Mapping):
        return 64 + sum(bytes_of(part) for item in value.items() for part in item)
    if isinstance(value, list | tuple | set | frozenset):
        return 64 + sum(map(bytes_of, value))
    if is_dataclass(value):
        return 64 + sum(bytes_of(getattr(value, field.name)) for field in fields(value))
    return 64
