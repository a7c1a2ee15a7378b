"""Starting a throw-away process, listening to it, and saying how it died."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from qt_bert.results.codec import encode
from qt_bert.scale.apart.environment import child_environment
from qt_bert.scale.apart.last_words import ended_by, last_words
from qt_bert.scale.apart.request import Request

_COMMAND = [sys.executable, "-m", "qt_bert.scale.apart.alone"]
_READ = 1 << 16


class Throwaway:
    """A process that answers `request`; iterating gives what it says, up to its end.

    It inherits no open file but its three streams, which begin in `folder`, and is killed as the
    block is left. Then, or when it was silent for the job's `stall` seconds, `death` says how it
    ended. Raises OSError where it cannot be started.
    """

    def __init__(self, request: Request, folder: Path) -> None:
        self._stall = request.job.stall
        self._errors = folder / "errors.txt"
        asked = folder / "request.json"
        asked.write_text(json.dumps(encode(request)), encoding="ascii")
        with open(asked, "rb") as stdin, open(self._errors, "wb") as stderr:
            self._process = subprocess.Popen(
                _COMMAND,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=child_environment(),
                start_new_session=True,
            )
        self.death = ""

    def __enter__(self) -> Throwaway:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        out, rest = self._process.stdout, b""
        assert out is not None
        with selectors.DefaultSelector() as ready:
            ready.register(out, selectors.EVENT_READ)
            while ready.select(self._stall):
                if not (data := os.read(out.fileno(), _READ)):
                    self._see_it_end()
                    return
                *lines, rest = (rest + data).split(b"\n")
                yield from map(json.loads, lines)
        self.death = self._silent()

    def last_words(self) -> str:
        """`: ` and the last line that it wrote to standard error; nothing where there is none."""
        return last_words(self._errors.read_bytes())

    def _see_it_end(self) -> None:
        try:
            status = self._process.wait(self._stall)
        except subprocess.TimeoutExpired:
            self.death = self._silent()
        else:
            self.death = ended_by(status)

    def _silent(self) -> str:
        return f"no sign of life for {self._stall:g} seconds"

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
