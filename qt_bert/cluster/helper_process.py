"""What a helper runs: `python -m qt_bert.cluster.helper_process PARENT DESCRIPTOR` calls what it is
asked to call, until nobody is there to ask."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from qt_bert.cluster.processes import die_with

_KNOWN = ("builtins", "qt_bert")


def main() -> None:
    """Answer calls: ("said", value) for each value, then ("ended", None) or ("raised", error)."""
    parent, descriptor = map(int, sys.argv[1:])
    die_with(parent)
    os.set_inheritable(descriptor, False)
    with Connection(descriptor) as asked, suppress(EOFError, OSError):
        while True:
            _answer(asked)


def _answer(asked: Connection) -> None:
    try:
        function, arguments, each = asked.recv()
        for said in _said(function, arguments, each):
            asked.send(said)
    except (EOFError, OSError):
        raise
    except Exception as error:  # what cannot go from process to process
        asked.send(("raised", _portable(error)))


def _said(
    function: Callable[..., Any], arguments: Sequence[Any], each: bool
) -> Iterator[tuple[str, Any]]:
    try:
        found = function(*arguments)
        for value in found if each else (found,):
            yield "said", value
    except Exception as error:  # the one who asked knows what it means
        yield "raised", _portable(error)
    else:
        yield "ended", None


def _portable(error: Exception) -> Exception:
    """The error, or its words where another process may not know its kind, or cannot make it anew."""
    if type(error).__module__.partition(".")[0] in _KNOWN:
        with suppress(Exception):
            pickle.loads(pickle.dumps(error))
            return error
    return RuntimeError(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
