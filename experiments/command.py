"""What the studies' commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from qt_bert.errors import QtBertError


@contextmanager
def one_line_faults() -> Iterator[None]:
    """Make of an input's fault one line on standard error, and exit status 2."""
    try:
        yield
    except (QtBertError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
