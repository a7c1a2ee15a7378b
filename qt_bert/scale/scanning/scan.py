"""All inputs of a run, read once before it starts: their parts, and the columns of the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from qt_bert.pairs import Pair, ReaderOptions
from qt_bert.pairs.formats.opening import Location
from qt_bert.pairs.parts import Part, cut
from qt_bert.progress import Progress, progress
from qt_bert.scale.places.place import Stored
from qt_bert.scale.scanning.inputs import find_inputs
from qt_bert.scoring.columns import InputColumns

_WINDOW = 8192
"""So many pairs of each file say which columns there are, as in the first window of `score`."""


@dataclass(frozen=True)
class ScannedFile:
    """One input: as its parts call it, its stored bytes, when it was written, and its rows."""

    file: str
    size: int
    mtime_ns: int | None
    rows: int


@dataclass(frozen=True)
class Scan:
    """What a run reads: `parts` in order, `columns` of all files, and how many files were skipped."""

    parts: list[Part]
    columns: InputColumns
    files: list[ScannedFile]
    skipped: int

    @property
    def rows(self) -> int:
        """Lines and rows of all parts, rejects and empty lines included."""
        return sum(file.rows for file in self.files)


def scan(inputs: Sequence[str], options: ReaderOptions, rows: int, *, shown: bool = True) -> Scan:
    """Cut all `inputs`, paths and addresses of files and folders, into parts of `rows` rows.

    `shown` reports progress on standard error. Rejects are not counted here. Raises ArgumentError
    for inputs and options that cannot be meant, and PairFileError for a file that cannot be read as
    asked, in the words of its reader.
    """
    # How many rejects are too many is judged over the whole run.
    options = replace(options, max_rejects=1.0)
    found = find_inputs(inputs)
    parts: list[Part] = []
    columns: list[InputColumns] = []
    files: list[ScannedFile] = []
    total = sum(stored.size for stored in found.files)
    with progress(total, "reading the inputs", "bytes", quiet=not shown) as bar:
        for stored in found.files:
            location = stored.place.location
            columns.append(_columns(location, options))
            own = _parts(stored, options, rows, bar)
            files.append(_scanned(stored, own))
            parts += own
    return Scan(parts, InputColumns.union(columns), files, found.skipped)


def _columns(location: Location, options: ReaderOptions) -> InputColumns:
    judged = options.open(location).judged()
    window = list(islice((one for one in judged if isinstance(one, Pair)), _WINDOW))
    return InputColumns.of(window, location, options)


def _parts(stored: Stored, options: ReaderOptions, rows: int, bar: Progress) -> list[Part]:
    """The parts of a file; the bar goes on by all of its stored bytes, read or not."""
    told = 0

    def advance(amount: int) -> None:
        nonlocal told
        told += amount
        bar.advance(amount)

    parts = list(cut(stored.place.location, options, rows, advance))
    bar.advance(max(stored.size - told, 0))
    return parts


def _scanned(stored: Stored, parts: Sequence[Part]) -> ScannedFile:
    rows = sum(part.rows for part in parts)
    return ScannedFile(str(stored.place), stored.size, stored.mtime_ns, rows)
