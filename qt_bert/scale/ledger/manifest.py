"""The manifest of a run: finished partitions, in numbered files that are only ever added to.

`manifest/000001.jsonl` and so on, in this order. Where files can grow, a run has one of its own;
elsewhere each batch of lines is a file. A line without its end was cut by a kill and never counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from qt_bert.errors import RunFolderError
from qt_bert.scale.ledger.layout import MANIFEST
from qt_bert.scale.ledger.lines import Fault, Line, from_text, to_text
from qt_bert.scale.ledger.storage import Storage

_FILE = re.compile(r"(\d{6,})\.jsonl")


class Manifest:
    """The lines that are stored in `storage`, and those to come."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._next = 1 + max(self._numbers(), default=0)

    def __iter__(self) -> Iterator[tuple[str, Line]]:
        """Each line, behind the place where it stands. Raises RunFolderError for a damaged one."""
        for number in sorted(self._numbers()):
            name = _name(number)
            with self._storage.open(name) as handle:
                for at, raw in enumerate(handle, start=1):
                    if raw.endswith(b"\n"):
                        where = f"{self._storage}/{name}, line {at}"
                        yield where, _line(raw, where)

    def add(self, lines: Iterable[Line]) -> None:
        """Store lines; they are there to stay when this returns. Raises OSError."""
        data = "".join(to_text(line) + "\n" for line in lines).encode()
        name = _name(self._next)
        if not self._storage.appends:
            self._storage.write(name, [data])
            self._next += 1
            return
        try:
            self._storage.append(name, data)
        except BaseException:
            self._next += 1  # half a line may stand there; nothing may come behind it
            raise

    def _numbers(self) -> list[int]:
        found = (_FILE.fullmatch(name) for name in self._storage.sizes(MANIFEST))
        return [int(match[1]) for match in found if match]


def _name(number: int) -> str:
    return f"{MANIFEST}/{number:06}.jsonl"


def _line(raw: bytes, where: str) -> Line:
    try:
        said = from_text(raw.decode("utf-8"), where)
    except (RunFolderError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{_damaged(where)} ({error})") from error
    if isinstance(said, Fault):
        raise RunFolderError(f"{_damaged(where)} (a fault, which is never stored)")
    return said


def _damaged(where: str) -> str:
    return (
        f"{where}: damaged; put the file back as it was, or take this line out, so that --resume "
        "does its partition again (a finished run with rejects needs all lines), or start anew with "
        "--overwrite"
    )
