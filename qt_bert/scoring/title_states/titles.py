"""The titles of a file: one a line of a text file, or a column of a file of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from qt_bert.errors import PairFileError
from qt_bert.pairs import PairReader, ReaderOptions
from qt_bert.pairs.formats.source import PACKED_SUFFIXES, TextSource
from qt_bert.pairs.pair import Reason, Reject
from qt_bert.pairs.rejects import JUDGED_EVERY, RejectLog, check_share, describe, too_many


class Titles(Protocol):
    """The titles of a file in its order; `rejected` rows held none."""

    @property
    def rejected(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


def open_titles(path: Path, options: ReaderOptions, rejects_path: Path | None = None) -> Titles:
    """The titles of a file, whose rejects are listed in `rejects_path`.

    A `.txt` (plain, .gz or .xz) has a title a line, unless there is a tab in its first line or
    `options` name its columns; any other file is one of pairs, as `PairReader` reads it. Raises
    PairFileError for a file that cannot be read so, while iterating too.
    """
    if _is_text(path) and not (options.columns or options.no_header or _has_tab(path)):
        return _Lines(path, options.max_rejects, rejects_path)
    return _Column(options.open(path, rejects_path=rejects_path))


def _is_text(path: Path) -> bool:
    packed = path.suffix.lower() in PACKED_SUFFIXES
    return (Path(path.stem) if packed else path).suffix.lower() == ".txt"


def _has_tab(path: Path) -> bool:
    for item in TextSource(path).lines():
        return "\t" in (item.text if isinstance(item, Reject) else item[1])
    return False


class _Column:
    """The titles of a file of pairs."""

    def __init__(self, reader: PairReader) -> None:
        self._reader = reader

    @property
    def rejected(self) -> int:
        return self._reader.rejected

    def __iter__(self) -> Iterator[str]:
        return (pair.title for pair in self._reader)


class _Lines:
    """One title a line; a line of blanks, of bytes that are no text or with a NUL is a reject."""

    def __init__(self, path: Path, max_rejects: float, rejects_path: Path | None) -> None:
        self._source = TextSource(path)
        self._max_rejects = check_share(max_rejects)
        self._rejects_path = rejects_path
        self._reasons: Counter[str] = Counter()

    @property
    def rejected(self) -> int:
        return self._reasons.total()

    def __iter__(self) -> Iterator[str]:
        self._reasons = Counter()
        rows, first = 0, None
        with RejectLog(self._rejects_path) as log:
            for item in self._source.lines():
                rows += 1
                title = item if isinstance(item, Reject) else _title(*item)
                if isinstance(title, str):
                    yield title
                else:
                    self._reasons[title.reason] += 1
                    first = first or title
                    log.write(title)
                if rows % JUDGED_EVERY == 0:
                    self._judge(rows, first)
            self._judge(rows, first)

    def _judge(self, rows: int, first: Reject | None) -> None:
        """Raise PairFileError where all of the lines so far are rejects, or too many."""
        if not rows:
            raise PairFileError(f"{self._source.path}: the file has no titles")
        if rows == self.rejected or too_many(self.rejected, rows, self._max_rejects):
            raise PairFileError(
                f"{self._source.path}: {self.rejected:,} of the first {rows:,} lines hold no title, "
                f"more than --max-rejects {self._max_rejects:g} allows "
                f"({describe(self._reasons, first)})"
            )


def _title(line: int, text: str) -> str | Reject:
    if text.isspace():
        return Reject.of(line, Reason.EMPTY_TITLE, text)
    return Reject.of(line, Reason.NUL, text) if "\0" in text else text
