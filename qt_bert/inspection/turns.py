"""One forward at a time: visitors first, and between them the slices of long work in a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from qt_bert.errors import QtBertError
from qt_bert.progress import Progress

# One forward at a time: visitors first, and between them the slices of one long job.
#
# Two passes at once on two cores take far longer than one after the other. So whoever runs the
# model
# takes a turn. Visitors go in the order they came, after the slice in progress; jobs stand in a
# queue
# of their own, and only the first of them works.


SLICE_SECONDS = 0.2
"""What a slice of a job may take: the longest that a visitor waits for it."""
_LOOK_SECONDS = 0.1


class Stopped(QtBertError):
    """A job was told to stop."""

    def __init__(self) -> None:
        super().__init__("the work was stopped")


class Turns:
    """Who may run the model. One for a process; every thread may use it.

    A thread that has the turn already goes on at once where it asks again.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: int | None = None
        self._visitors: deque[object] = deque()
        self._jobs: list[Job] = []

    @property
    def mine(self) -> bool:
        """Whether the calling thread has the turn."""
        return self._owner == threading.get_ident()

    @contextmanager
    def visit(self) -> Iterator[None]:
        """A visitor's short work; waits for the slice in progress and for earlier visitors."""
        if self.mine:
            yield
            return
        ticket = object()
        with self._changed:
            self._visitors.append(ticket)
            try:
                self._changed.wait_for(lambda: self._owner is None and self._visitors[0] is ticket)
                self._owner = threading.get_ident()
            finally:
                self._visitors.remove(ticket)
                self._changed.notify_all()
        with self._held():
            yield

    @contextmanager
    def job(self, stop: threading.Event | None = None) -> Iterator[Job]:
        """Long work, in the queue of jobs until the block ends; entering does not wait.

        Its slices wait until it is first in the queue. `stop`, once set, ends it with `Stopped` at
        the next `check` or `slice`.
        """
        job = Job(self, stop or threading.Event())
        with self._changed:
            self._jobs.append(job)
        try:
            yield job
        finally:
            with self._changed:
                self._jobs.remove(job)
                self._changed.notify_all()

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Give the turn back at the end, whatever happens."""
        try:
            yield
        finally:
            with self._changed:
                self._owner = None
                self._changed.notify_all()


class Job:
    """Long work in the queue of `Turns.job`."""

    def __init__(self, turns: Turns, stop: threading.Event) -> None:
        self._turns = turns
        self._stop = stop

    @property
    def place(self) -> int:
        """The number of jobs before it; 0 while it may work, and once it has left the queue."""
        with self._turns._changed:
            jobs = self._turns._jobs
            return jobs.index(self) if self in jobs else 0

    def check(self) -> None:
        """Raise `Stopped` once the job was told to stop."""
        if self._stop.is_set():
            raise Stopped

    def wait(self, seconds: float) -> bool:
        """Wait until no job is before it, at most so long; whether that is so. Raises `Stopped`."""
        turns = self._turns
        with turns._changed:
            first = self._wait_for(lambda: turns._jobs[0] is self, seconds)
        self.check()
        return first

    @contextmanager
    def slice(self) -> Iterator[None]:
        """One slice of at most `SLICE_SECONDS`, once this job is the first and no visitor waits.

        Raises `Stopped`, also while waiting.
        """
        turns = self._turns
        if turns.mine:
            self.check()
            yield
            return
        with turns._changed:
            self._wait_for(self._may_go)
            self.check()
            turns._owner = threading.get_ident()
        with turns._held():
            yield

    def _may_go(self) -> bool:
        turns = self._turns
        return turns._owner is None and not turns._visitors and turns._jobs[0] is self

    def _wait_for(self, ready: Callable[[], bool], seconds: float = float("inf")) -> bool:
        """Wait for `ready` or the stop, which nobody announces: it is looked for."""
        end = time.monotonic() + seconds
        while not (ready() or self._stop.is_set()) and (left := end - time.monotonic()) > 0:
            self._turns._changed.wait(min(_LOOK_SECONDS, left))
        return ready()


# Long work of one visitor, in a thread of its own, which the page looks in on.
#
# A rerun interrupts a page's script, so nothing long may run in it. The work waits in the queue of
# `Turns`, runs in slices, and ends early where the visitor stops it or no longer looks in on it.


T = TypeVar("T")
Work = Callable[[Job, Progress], T]
"""Long work: takes its slices from the job, and reports what is done."""

PATIENCE = 20.0
"""Seconds after which a visitor who has not looked in counts as gone."""

_WAIT_SECONDS = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class JobState:
    """How far the work is: `place` jobs before it (0: it runs), `done` of `total` units.

    `rate` is in units a second since it runs; `left` are seconds; `note` names the present step.
    """

    place: int
    done: int
    total: int | None
    rate: float | None
    left: float | None
    note: str
    finished: bool

    @property
    def share(self) -> float:
        """Done of total, 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total else 0.0


class Background(Generic[T]):
    """Starts `work` at once. When it is finished, one of `result` and `error` is set.

    `error` is Stopped where the visitor stopped it, or has not called `standing` for `patience`
    seconds; an error that is the program's fault is logged, and stands in `error` too.
    """

    def __init__(
        self, turns: Turns, work: Work[T], *, total: int | None = None, patience: float = PATIENCE
    ) -> None:
        self.result: T | None = None
        self.error: Exception | None = None
        self._turns, self._patience = turns, patience
        self._stop, self._finished = threading.Event(), threading.Event()
        self._total, self._done, self._note = total, 0, ""
        self._job: Job | None = None
        self._began: float | None = None
        self._seen = time.monotonic()
        # What is worked on, and all that it holds, is let go with its thread.
        threading.Thread(target=self._run, args=(work,), name="visitor's job", daemon=True).start()
        threading.Thread(target=self._watch, name="visitor's watch", daemon=True).start()

    def stop(self) -> None:
        """End the work after its present slice; it leaves the queue."""
        self._stop.set()

    @property
    def goes_on(self) -> bool:
        """Whether there is still a result to come: it has neither ended nor been told to."""
        return not (self._stop.is_set() or self._finished.is_set())

    def standing(self) -> JobState:
        """How far it is. Looking in is what keeps it going."""
        self._seen = time.monotonic()
        rate = None
        if self._began is not None and self._done:
            rate = self._done / max(self._seen - self._began, 1e-9)
        left = (self._total - self._done) / rate if rate and self._total else None
        return JobState(
            place=self._place(),
            done=self._done,
            total=self._total,
            rate=rate,
            left=None if left is None else max(left, 0.0),
            note=self._note,
            finished=self._finished.is_set(),
        )

    def _place(self) -> int:
        return 0 if self._job is None or self._began is not None else self._job.place

    def advance(self, amount: int = 1, note: str = "") -> None:
        """What the work reports to (a `Progress`). Raises Stopped once it is to end."""
        self._done += amount
        self._note = note or self._note
        if self._job is not None:
            self._job.check()

    def _run(self, work: Work[T]) -> None:
        try:
            with self._turns.job(stop=self._stop) as job:
                self._job = job
                while not job.wait(_WAIT_SECONDS):
                    pass
                self._began = time.monotonic()
                self.result = work(job, self)
        except Exception as error:
            if not isinstance(error, QtBertError):
                _log.exception("a visitor's job failed")
            self.error = error.with_traceback(None)  # whose frames hold the model
        finally:
            self._finished.set()

    def _watch(self) -> None:
        while not self._finished.wait(min(1.0, self._patience / 4)):
            if time.monotonic() - self._seen > self._patience:
                self._stop.set()
