"""Long work of one visitor, in a thread of its own, which the page looks in on.

A rerun interrupts a page's script, so nothing long may run in it. The work waits in the queue of
`Turns`, runs in slices, and ends early where the visitor stops it or no longer looks in on it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from qt_bert.errors import QtBertError
from qt_bert.inspection.turns import Job, Turns
from qt_bert.progress import Progress

T = TypeVar("T")
Work = Callable[[Job, Progress], T]
"""Long work: takes its slices from the job, and reports what is done."""

PATIENCE = 20.0
"""Seconds after which a visitor who has not looked in counts as gone."""

_LOOK_SECONDS = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Standing:
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

    def standing(self) -> Standing:
        """How far it is. Looking in is what keeps it going."""
        self._seen = time.monotonic()
        rate = None
        if self._began is not None and self._done:
            rate = self._done / max(self._seen - self._began, 1e-9)
        left = (self._total - self._done) / rate if rate and self._total else None
        return Standing(
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
                while not job.wait(_LOOK_SECONDS):
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
