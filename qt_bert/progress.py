"""Progress of long work: a bar with rate and time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Where long-running functions report; `silent` ignores it, `progress` shows it."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count `amount` more units done, with an optional short note (a loss, a file)."""


_noted: set[str] = set()


def note_once(line: str) -> None:
    """Print a line to stderr, once in a process."""
    if line not in _noted:
        _noted.add(line)
        print(line, file=sys.stderr, flush=True)


class _Silent:
    def advance(self, amount: int = 1, note: str = "") -> None:
        return None


silent: Progress = _Silent()


EVERY = 15.0
"""Seconds between two lines."""


class _Lines:
    """One line every `EVERY` seconds: done, total, rate, time left."""

    def __init__(self, total: int | None, label: str, unit: str, done: int) -> None:
        self.total, self.label, self.unit = total, label, unit
        self.done, self.printed = done, time.monotonic()
        self.marks = [(done, self.printed)]

    def advance(self, amount: int = 1, note: str = "") -> None:
        now = time.monotonic()
        self.done += amount
        if self.total and len(self.marks) == 1:  # warmed up: the rate is that of later steps
            self.marks.append((self.done, now))
        if now - self.printed >= EVERY:
            self.printed = now
            self.print_line(note)

    def print_line(self, note: str = "") -> None:
        first, start = self.marks[-1]
        if self.done == first:  # one step so far
            first, start = self.marks[0]
        rate = (self.done - first) / max(time.monotonic() - start, 1e-9)
        text = f"{self.label}: {self.done:,}"
        if self.total:
            left = (self.total - self.done) / rate if rate else float("inf")
            text += f"/{self.total:,} {self.unit}, {rate:,.1f}/s, {_clock(left)} left"
        else:
            text += f" {self.unit}, {rate:,.1f}/s"
        print(f"{text}{'  ' + note if note else ''}", file=sys.stderr, flush=True)


class _Bar:
    """A tqdm bar behind the same two-method interface."""

    def __init__(self, total: int | None, label: str, unit: str, done: int) -> None:
        from tqdm import tqdm

        self.bar = tqdm(
            total=total, desc=label, unit=f" {unit}", initial=done, dynamic_ncols=True, leave=False
        )

    def advance(self, amount: int = 1, note: str = "") -> None:
        if note:
            self.bar.set_postfix_str(note, refresh=False)
        self.bar.update(amount)


@contextmanager
def progress(
    total: int | None, label: str, unit: str, *, done: int = 0, quiet: bool = False
) -> Iterator[Progress]:
    """Report progress on standard error while the block runs.

    `total` may be None when it is not known; `done` units were finished before (a resumed run) and do
    not count for rate and time left. `quiet` reports nothing.
    """
    if quiet:
        yield silent
        return
    if sys.stderr.isatty():
        shown = _Bar(total, label, unit, done)
        try:
            yield shown
        finally:
            shown.bar.close()
        return
    lines = _Lines(total, label, unit, done)
    try:
        yield lines
    finally:
        first, start = lines.marks[0]
        if lines.done > first and time.monotonic() - start > 2:
            lines.print_line()


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
