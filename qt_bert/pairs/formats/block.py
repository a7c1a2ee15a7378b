"""Some lines of a text file, held as bytes: read like a whole file, with the same line numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from qt_bert.pairs.formats.opening import Location
from qt_bert.pairs.formats.source import decoded
from qt_bert.pairs.pair import Reject


@dataclass(frozen=True)
class TextBlock:
    """The lines from number `first` on whose unpacked bytes are `data`.

    `encoding` is that of the whole file, and `header` the line that says which columns there are,
    where one does: it is given as line 0, before all others.
    """

    path: Location
    data: bytes
    first: int
    encoding: str
    header: str | None = None

    def lines(self) -> Iterator[tuple[int, str] | Reject]:
        """`(line number, text)`, or the reject of a line that is not valid text."""
        if self.header is not None:
            yield 0, self.header
        yield from decoded(enumerate(BytesIO(self.data), start=self.first), self.encoding)
