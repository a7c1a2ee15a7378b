"""CSV by RFC 4180: a quoted field may hold commas, line breaks and doubled quotes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from qt_bert.data.lines import UTF8_BOM

# A field is quoted only where one quote opens it and another ends it; any other quote is a character. An
# unclosed quote swallows no following line: its row is the one line, a reject.


ROW_LINES, ROW_BYTES = 500, 2**20
"""Limits of a row that spans lines; beyond them its quote counts as unclosed."""

# Possessive quantifiers, for linear time.
_INSIDE = r'(?:[^"]++|"")*+'
_QUOTED = re.compile(rf'"({_INSIDE})"(?=,|\r?\n?\Z)')
_CLOSING = re.compile(rf'{_INSIDE}"(?=,|\r?\n?\Z)')
_STILL_OPEN = re.compile(rf"{_INSIDE}\Z")


def split_csv(row: str) -> list[str] | None:
    """The fields of one row; None where the last one's quote is unclosed."""
    if '"' not in row:
        return row.split(",")
    fields: list[str] = []
    at = 0
    while True:
        quoted = _QUOTED.match(row, at)
        if quoted:
            fields.append(quoted[1].replace('""', '"'))
            at = quoted.end()
        elif row.startswith('"', at) and _STILL_OPEN.match(row, at + 1):
            return None
        else:
            comma = row.find(",", at)
            end = len(row) if comma < 0 else comma
            fields.append(row[at:end])
            at = end
        if at == len(row):
            return fields
        at += 1


def csv_rows(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Join numbered lines (with their ends) that a quoted field spans; a row has its first number."""
    source, waiting = iter(lines), deque[tuple[int, bytes]]()
    while True:
        if not waiting:
            for item in source:
                if b'"' in item[1]:
                    waiting.append(item)
                    break
                yield item
            else:
                return
        number, row = waiting.popleft()
        if b'"' in row and split_csv(_text(row)) is None:
            row += b"".join(waiting.popleft()[1] for _ in range(_more_lines(source, waiting)))
        yield number, row


def _more_lines(source: Iterator[tuple[int, bytes]], waiting: deque[tuple[int, bytes]]) -> int:
    """How many next lines, put into `waiting`, an open quote spans; 0 where it never closes."""
    size = 0
    for taken in range(ROW_LINES):
        if taken == len(waiting):
            waiting.extend(islice(source, 1))
        line = _text(waiting[taken][1]) if taken < len(waiting) else ""
        size += len(line)
        closing = _CLOSING.match(line)
        if closing and split_csv(line[closing.end() + 1 :]) is not None:
            return taken + 1
        if not line or size > ROW_BYTES or not (closing or _STILL_OPEN.match(line)):
            return 0
    return 0


def _text(line: bytes) -> str:
    """The line as Latin-1: quotes, commas and line breaks are never part of a longer character."""
    return line.removeprefix(UTF8_BOM).decode("latin-1")
