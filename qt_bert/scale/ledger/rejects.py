"""The rejects of a run: a list for each partition while it goes, one list in its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from qt_bert.errors import RunFolderError
from qt_bert.pairs.pair import Reject
from qt_bert.pairs.rejects import one_line
from qt_bert.scale.ledger.layout import REJECTS_LIST, rejects_file
from qt_bert.scale.ledger.lines import Line
from qt_bert.scale.ledger.storage import Storage

HEADER = b"file\tline\treason\ttext\n"


def rejects_table(file: str, rejects: Iterable[Reject]) -> bytes:
    """The list of a partition's rejects, as it lies in `rejects/`; tabs and line breaks are spaces."""
    rows = (
        f"{one_line(file)}\t{r.line}\t{one_line(r.reason)}\t{one_line(r.text)}\n" for r in rejects
    )
    return HEADER + "".join(rows).encode("utf-8", "backslashreplace")


def wrong_rejects(storage: Storage, line: Line) -> str | None:
    """What is wrong with the list of a partition that has rejects; None where it is whole.

    Raises OSError where it is there and cannot be read.
    """
    name = rejects_file(line.partition)
    try:
        with storage.open(name) as handle:
            rows = sum(1 for row in handle if row.endswith(b"\n")) - 1
    except FileNotFoundError:
        return f"{name} is missing"
    if rows != line.rejected:
        return f"{name} holds {max(rows, 0):,} rejects, where {line.rejected:,} were found"
    return None


def joined_rejects(storage: Storage, lines: Mapping[int, Line]) -> Iterator[bytes]:
    """The bytes of the one list, in the order of the partitions.

    Raises RunFolderError where the list of a partition is missing or not as long as its line says.
    """
    yield HEADER
    for _, line in sorted(lines.items()):
        if not line.rejected:
            continue
        if wrong := wrong_rejects(storage, line):
            raise RunFolderError(f"{storage}: {wrong}; --resume does its partition again")
        with storage.open(rejects_file(line.partition)) as handle:
            yield from islice(handle, 1, None)


def part_rejects(storage: Storage, lines: Mapping[int, Line], again: Iterable[int]) -> None:
    """Take the one list apart again, but for the partitions that are done `again`.

    It must be the very list that `joined_rejects` gave for `lines`.
    """
    left_out = set(again)
    with storage.open(REJECTS_LIST) as handle:
        rows = islice(handle, 1, None)
        for number in sorted(lines):
            line = lines[number]
            mine = list(islice(rows, line.rejected))
            if mine and number not in left_out:
                storage.write(rejects_file(line.partition), [HEADER, *mine])


def first_reject(storage: Storage, lines: Mapping[int, Line]) -> tuple[str, str, str] | None:
    """File, line and text of the first reject in the order of the partitions; None where none."""
    number = min((n for n, line in lines.items() if line.rejected), default=None)
    if number is None:
        return None
    try:
        with storage.open(rejects_file(lines[number].partition)) as handle:
            row = next(islice(handle, 1, None), b"").decode("utf-8", "replace")
    except OSError:
        return None
    cells = row.rstrip("\n").split("\t")
    return (cells[0], cells[1], cells[3]) if len(cells) == 4 else None
