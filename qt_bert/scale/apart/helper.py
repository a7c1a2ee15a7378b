"""A helper: a process that calls functions for this one, so that what ends it ends nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from multiprocessing import Pipe
from types import TracebackType
from typing import Any

from qt_bert.scale.apart.environment import child_environment
from qt_bert.scale.apart.last_words import ended_by, last_words

_MODULE = "qt_bert.scale.apart.helper_process"
_END_SECONDS = 30.0


class HelperGoneError(Exception):
    """The helper ended before it had answered; the text says how."""


class Helper:
    """One process, which answers one call at a time, and dies with the thread that started it.

    It works in the folder of this process, finds modules where this one does, and is in no terminal's
    hand: Ctrl-C does not reach it. As the block is left it ends by itself, so that what it called can
    clean up, and is killed after 30 seconds; at once where the block raised. Raises OSError where it
    cannot be started.
    """

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the helper lives
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(os.getpid()), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=child_environment(),
                start_new_session=True,
            )

    def __enter__(self) -> Helper:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS if error is None else 0)
        self._kill()
        self._errors.close()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked again."""
        return self._process.poll() is None

    def call(
        self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None
    ) -> Any:
        """What a function of a module gives for `arguments`, called in the helper.

        Raises what it raises, and HelperGoneError where the helper ends before, or has not answered
        within some `seconds`: it is ended then.
        """
        [value] = self._answers(function, arguments, each=False, seconds=seconds)
        return value

    def stream(
        self, function: Callable[..., Iterable[Any]], *arguments: Any
    ) -> Generator[Any, None, None]:
        """As `call`, but value by value, as they come. Closed before its end it ends the helper."""
        return self._answers(function, arguments, each=True)

    def _answers(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        *,
        each: bool,
        seconds: float | None = None,
    ) -> Generator[Any, None, None]:
        through = False
        try:
            self._connection.send((function, arguments, each))
            while True:
                if not self._connection.poll(seconds):
                    raise HelperGoneError(f"no answer within {seconds:g} seconds")
                kind, value = self._connection.recv()
                through = kind != "said"
                if kind == "raised":
                    raise value
                if through:
                    return
                yield value
        except (EOFError, OSError) as error:
            if through:
                raise
            raise HelperGoneError(self._end()) from error
        finally:
            if not through:
                self._kill()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _end(self) -> str:
        """How it ended; its voice goes first, and it shortly behind."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._kill()
        self._errors.seek(0)
        return ended_by(self._process.returncode) + last_words(self._errors.read())
