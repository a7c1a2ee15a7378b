"""What every format hands to the reader: rows whose texts are not yet judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from qt_bert.pairs.pair import Reject

NO_EXTRA: Mapping[str, str] = {}


class RawRow(NamedTuple):
    """One row as text; `text` is what a rejects file would show of it."""

    line: int
    query: str
    title: str
    grade: str | None
    id: str | None
    extra: Mapping[str, str]
    text: str


class Head(NamedTuple):
    """The line that says which columns there are; the rows stand behind the line `number`."""

    number: int
    text: str


class PairFormat(Protocol):
    """One open file of pairs, or a part of one, in one format."""

    @property
    def encoding(self) -> str:
        """The file's text encoding."""

    def find_columns(self) -> Head | None:
        """Look for the columns asked for, as far into the file as it takes; PairFileError without.

        Gives what a part of the file needs to be read alone: None where its rows say it all.
        """

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order, and the reject of each row that cannot be one."""
