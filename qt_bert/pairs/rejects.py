"""The rows that were no pairs: the file that lists them, and how many are too many."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO

from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write
from qt_bert.pairs.pair import Reject

ALWAYS_TOLERATED = 10
JUDGED_EVERY = 10_000

_BREAKS = re.compile("[\t\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


_HEADER = "line\treason\ttext\n"


class RejectLog:
    """A rejects file: a header, then `line`, `reason`, `text` separated by tabs.

    It is written only when there is a reject, and finished in one step however reading ends; the
    file of an earlier run is removed where there is none. Tabs and line breaks become spaces.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stack = ExitStack()
        self._handle: IO[str] | None = None

    def __enter__(self) -> RejectLog:
        return self

    def write(self, reject: Reject) -> None:
        """Add one row."""
        if self._path is None:
            return
        if self._handle is None:
            self._handle = self._started(self._path)
        self._handle.write(f"{reject.line}\t{reject.reason}\t{one_line(reject.text)}\n")

    def _started(self, path: Path) -> IO[str]:
        try:
            with ExitStack() as stack:
                temporary = stack.enter_context(atomic_write(path))
                handle = stack.enter_context(
                    open(temporary, "w", encoding="utf-8", errors="backslashreplace", newline="\n")
                )
                self._stack = stack.pop_all()
        except OSError as error:
            raise ArgumentError(f"{path}: the rejects cannot be written here ({error})") from error
        handle.write(_HEADER)
        return handle

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Closed as if nothing had gone wrong: the list is wanted most when reading was stopped.
        self._stack.close()
        if self._path is not None and self._handle is None and _is_old_list(self._path):
            self._path.unlink(missing_ok=True)


def _is_old_list(path: Path) -> bool:
    """Whether a list of rejects stands there, and not some other file of the user's."""
    if not path.is_file():
        return False
    with open(path, "rb") as handle:
        return handle.read(len(_HEADER)) == _HEADER.encode()


def one_line(text: str) -> str:
    """`text` as a cell of such a file: tabs and line breaks become spaces."""
    return _BREAKS.sub(" ", text)


def check_share(max_rejects: float) -> float:
    """`max_rejects` itself, a share from 0 to 1; ArgumentError for anything else."""
    if not 0 <= max_rejects <= 1:
        raise ArgumentError(f"--max-rejects {max_rejects}: give a share of the rows, from 0 to 1")
    return max_rejects


def too_many(rejected: int, rows: int, max_rejects: float) -> bool:
    """Whether `rejected` of `rows` rows exceed the share; ten are always tolerated."""
    return rejected > max(ALWAYS_TOLERATED, max_rejects * rows)


def describe(reasons: Mapping[str, int], first: Reject | None) -> str:
    """One clause: the reasons by frequency, and where the first reject stands."""
    counts = ", ".join(
        f"{reason}: {count:,}" for reason, count in sorted(reasons.items(), key=lambda r: -r[1])
    )
    if first is None:
        return counts
    return f"{counts}; the first is line {first.line}, {one_line(first.text)[:80]!r}"
