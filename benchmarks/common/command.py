"""What commands share: the interpreter's own `qt-bert`, a parser, and faults in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from qt_bert.errors import QtBertError

QT_BERT = (sys.executable, "-c", "from qt_bert.cli import main; main()")
"""`qt-bert` in this interpreter."""


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser that is described by the first line of a module's docstring."""
    return argparse.ArgumentParser(description=(description or "").partition("\n")[0])


@contextmanager
def one_line_faults() -> Iterator[None]:
    """Make of an input's fault one line on standard error, and exit status 2."""
    try:
        yield
    except (QtBertError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
