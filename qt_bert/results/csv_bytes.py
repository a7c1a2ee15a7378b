"""Rows as a CSV file that a spreadsheet opens and does not run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from qt_bert.results.numbers import spreadsheet_safe


def csv_bytes(rows: Iterable[Iterable[object]]) -> bytes:
    """UTF-8 with a byte order mark, so that Excel shows Chinese.

    A text that a spreadsheet would take for a formula gets a leading apostrophe.
    """
    handle = io.StringIO(newline="")
    writer = csv.writer(handle)
    for row in rows:
        writer.writerow([spreadsheet_safe(one) if isinstance(one, str) else one for one in row])
    return handle.getvalue().encode("utf-8-sig")
