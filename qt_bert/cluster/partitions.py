"""Scan the inputs of a run, and cut them into partitions of consecutive rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath

from qt_bert.cluster.places import Place
from qt_bert.data.formats import FORMAT_OF_SUFFIX, format_of
from qt_bert.data.pairs import Pair
from qt_bert.data.parts import FilePart, cut
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.progress import progress
from qt_bert.scoring.bulk import WINDOW
from qt_bert.scoring.tables import InputColumns


@dataclass(frozen=True)
class Scan:
    """The inputs of a run: `parts` of at most `rows_per_partition` rows in order, `columns` of all files,
    `files` by name, and `skipped` other files of the folders, without those hidden as in Spark, by a name
    that begins with `.` or `_`."""

    parts: list[FilePart]
    rows_per_partition: int
    columns: InputColumns
    files: list[str]
    skipped: list[str]

    @property
    def rows(self) -> int:
        """Lines and rows of all parts, rejects and empty lines included."""
        return sum(part.rows for part in self.parts)


def scan(inputs: Sequence[str], reader: ReaderOptions, rows: int) -> Scan:
    """Cut `inputs`, paths and addresses of files and folders, into parts of `rows` rows.

    Rejects are not limited here. Raises ArgumentError for no inputs, a folder without files of pairs, and
    a repeated file; PairFileError for an unreadable file.
    """
    if not inputs:
        raise ArgumentError("no input; give files of pairs, or folders that hold them")
    by_key: dict[tuple[str, str], Place] = {}
    skipped: list[str] = []
    total = 0
    for text in inputs:
        files, others = _files_of(Place.of(text))
        skipped += others
        for place, size in files:
            if (first := by_key.setdefault(place.key, place)) is not place:
                raise ArgumentError(
                    f"{place}: this file is given twice, first as {first}; name it once"
                )
            total += size
    places = list(by_key.values())
    reader = replace(reader, max_rejects=1.0)  # checked over the whole run
    columns = InputColumns.union(_columns(place, reader) for place in places)
    with progress(total, "reading the inputs", "bytes") as shown:
        parts = [
            part for place in places for part in cut(place.location, reader, rows, shown.advance)
        ]
    return Scan(parts, rows, columns, [str(place) for place in places], skipped)


def refuse_inside(out: str, inputs: Sequence[str]) -> None:
    """Raise ArgumentError where `out` lies in an input, which would read it as pairs."""
    system, path = Place.of(out).key
    for text in inputs:
        input_system, folder = Place.of(text).key
        if system == input_system and PurePosixPath(path).is_relative_to(folder):
            raise ArgumentError(f"--out {out}: lies in the input {text}; give a folder elsewhere")


def _files_of(place: Place) -> tuple[list[tuple[Place, int]], list[str]]:
    """The files of pairs at a place with their bytes, and the other files of its folder."""
    try:
        size = place.size()
        if size is None:
            raise PairFileError(f"{place}: cannot be read (No such file or directory)")
        if size >= 0:
            return [(place, size)], []
        files = [
            (place.join(name), size)
            for name, size in place.files().items()
            if not any(part.startswith((".", "_")) for part in name.split("/"))
        ]
    except OSError as error:
        raise PairFileError(f"{place}: cannot be read ({error.strerror or error})") from error
    pair_files = [(file, size) for file, size in files if _is_pair_file(file)]
    if not pair_files:
        raise ArgumentError(
            f"{place}: there is no file of pairs in this folder (other files: {len(files):,}); such "
            f"files end in {', '.join(FORMAT_OF_SUFFIX)}"
        )
    for file, _ in pair_files:
        Place.of(file.text)  # refuses a name that is not UTF-8
    return pair_files, [file.text for file, _ in files if not _is_pair_file(file)]


def _is_pair_file(file: Place) -> bool:
    try:
        format_of(file.location)
    except PairFileError:
        return False
    return True


def _columns(place: Place, reader: ReaderOptions) -> InputColumns:
    """The columns of a file, from its first window as in plain `score`."""
    rows = reader.open(place.location).rows()
    window = list(islice((row for row in rows if isinstance(row, Pair)), WINDOW))
    return InputColumns.of(window, place.location, reader)
