"""Fields in quotes, as RFC 4180 has them: with separators, line breaks and doubled quotes inside."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

# A field is quoted only where its quote opens the field and the closing one ends it; any other quote
# is a character. A quote that opens a field and is never closed swallows no following line: the row
# ends with its line, and `split_quoted` finds no fields in it.


ROW_LINES, ROW_BYTES = 500, 2**20
"""What a row that spans lines may hold; behind that its quote counts as never closed."""

# Possessive: the text between the quotes is never given back, so a match is tried in linear time.
_INSIDE = '(?:[^"]++|"")*+'
_OPEN = re.compile(rf'"{_INSIDE}\Z')
_QUOTED = {separator: re.compile(rf'"({_INSIDE})"(?={separator}|\Z)') for separator in (",", "\t")}


def split_quoted(row: str, separator: str = ",") -> list[str] | None:
    """The fields of one row; None where the quote of a field is never closed."""
    if '"' not in row:
        return row.split(separator)
    fields: list[str] = []
    at = 0
    while True:
        quoted = _QUOTED[separator].match(row, at)
        if quoted:
            fields.append(quoted[1].replace('""', '"'))
            at = quoted.end()
        elif _OPEN.match(row, at):
            return None
        else:
            end = row.find(separator, at)
            end = len(row) if end < 0 else end
            fields.append(row[at:end])
            at = end
        if at == len(row):
            return fields
        at += 1


# The same on bytes: a quote, a comma and a line break are never part of a longer character.
_REST = rb'(?:[^"]++|"")*+'
_CLOSING = re.compile(_REST + rb'"(?=,|\r?\n?\Z)')
_STILL_OPEN = re.compile(_REST + rb"\Z")
_OPENING = re.compile(
    rb'(?:(?:"%b"(?=,|\r?\n?\Z)|(?!"%b\Z)[^,]*+),)*+"%b\Z' % (_REST, _REST, _REST)
)


def csv_rows(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Numbered lines of CSV with their ends, joined where a quoted field spans several.

    A row has the number of its first line.
    """
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
        if b'"' in row and _OPENING.match(row.removeprefix(b"\xef\xbb\xbf")):
            more = _lines_to_close(source, waiting, len(row))
            row += b"".join(waiting.popleft()[1] for _ in range(more))
        yield number, row


def _lines_to_close(
    source: Iterator[tuple[int, bytes]], waiting: deque[tuple[int, bytes]], size: int
) -> int:
    """How many lines a row takes behind one that ends inside quotes, 0 where they are never closed.

    What is read of `source` for it stands in `waiting`.
    """
    for taken in range(ROW_LINES):
        if taken == len(waiting):
            following = next(source, None)
            if following is None:
                return 0
            waiting.append(following)
        line = waiting[taken][1]
        size += len(line)
        closing = _CLOSING.match(line)
        if size > ROW_BYTES or (closing is None and not _STILL_OPEN.match(line)):
            return 0
        if closing and not _OPENING.match(line[closing.end() + 1 :]):
            return taken + 1
    return 0


# TSV has quotes that are text, as people type them, or those of a program that writes it as CSV.

SEEN_LINES = 10_000

_FIELD = re.compile(rb'("%b"(?=\t)|[^\t]*+)\t' % _REST)


def quotes_tsv(lines: Iterable[bytes]) -> bool:
    """Whether a CSV writer put the quotes into these lines of TSV, the first ones of a file.

    It did where all fields of the first line are quoted, or where some have doubled quotes inside; but
    not where a quote stands as no such writer leaves it.
    """
    whole: bool | None = None
    doubled = needless = False
    for line in lines:
        line = line.removeprefix(b"\xef\xbb\xbf")
        fields = [one for one in _FIELD.findall(line + b"\t") if one] if b'"' in line else []
        if whole is None:
            whole = bool(fields) and all(one[:1] == one[-1:] == b'"' for one in fields)
        for field in fields:
            if b'"' not in field:
                continue
            inner = field[1:-1]
            if len(field) < 2 or field[:1] + field[-1:] != b'""' or not _STILL_OPEN.match(inner):
                return False
            doubled |= b'""' in inner
            needless |= not (b'""' in inner or b"\t" in inner or b"," in inner)
    return bool(whole) or (doubled and not needless)
