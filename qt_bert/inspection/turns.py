"""One forward at a time: visitors first, and between them the slices of one long job.

Two passes at once on two cores take far longer than one after the other. So whoever runs the model
takes a turn. Visitors go in the order they came, after the slice in progress; jobs stand in a queue
of their own, and only the first of them works.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from qt_bert.errors import QtBertError

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
