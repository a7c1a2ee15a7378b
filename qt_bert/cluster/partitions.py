"""The inputs of a run: found, read once, and cut into partitions of consecutive rows."""

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
    """What a run reads: `parts` of at most `rows_per_partition` rows in order, `columns` of all files,
    the `files` by name, and the other files of the folders, which are `skipped`: all but those that are
    hidden there as Spark hides them, by a name that begins with `.` or `_`."""

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

    Rejects are not counted here. Raises ArgumentError where nothing is given, a folder holds no file of
    pairs, or a file comes twice; PairFileError for a file that cannot be read.
    """
    if not inputs:
        raise ArgumentError("no input; give files of pairs, or folders that hold them")
    found: dict[tuple[str, str], Place] = {}
    skipped: list[str] = []
    size = 0
    for text in inputs:
        files, passed = _files_of(Place.of(text))
        skipped += passed
        for place, bytes_there in files:
            if (known := found.setdefault(place.key, place)) is not place:
                raise ArgumentError(
                    f"{place}: this file is given twice, first as {known}; name it once"
                )
            size += bytes_there
    places = list(found.values())
    reader = replace(reader, max_rejects=1.0)  # how many are too many is judged over the whole run
    columns = InputColumns.union(_columns(place, reader) for place in places)
    with progress(size, "reading the inputs", "bytes") as shown:
        parts = [
            part for place in places for part in cut(place.location, reader, rows, shown.advance)
        ]
    return Scan(parts, rows, columns, [str(place) for place in places], skipped)


def refuse_inside(out: str, inputs: Sequence[str]) -> None:
    """Raise ArgumentError where the folder `out` lies in one of the inputs: what a run writes would be
    read as pairs the next time."""
    system, path = Place.of(out).key
    for text in inputs:
        there, other = Place.of(text).key
        if system == there and PurePosixPath(path).is_relative_to(other):
            raise ArgumentError(f"--out {out}: lies in the input {text}; give a folder elsewhere")


def _files_of(place: Place) -> tuple[list[tuple[Place, int]], list[str]]:
    """The files of pairs that a place stands for with their bytes, and the others that its folder holds."""
    try:
        size = place.size()
        if size is None:
            raise PairFileError(f"{place}: cannot be read (No such file or directory)")
        if size >= 0:
            return [(place, size)], []
        listed = {
            name: (place.join(name), size)
            for name, size in place.files().items()
            if not any(part.startswith((".", "_")) for part in name.split("/"))
        }
    except OSError as error:
        raise PairFileError(f"{place}: cannot be read ({error.strerror or error})") from error
    found = [one for one in listed.values() if _is_taken(one[0])]
    if not found:
        raise ArgumentError(
            f"{place}: there is no file of pairs in this folder (other files: {len(listed):,}); such "
            f"files end in {', '.join(FORMAT_OF_SUFFIX)}"
        )
    for one, _ in found:
        Place.of(one.text)  # a name that is not UTF-8 is refused
    taken = {one.text for one, _ in found}
    return found, [one.text for one, _ in listed.values() if one.text not in taken]


def _is_taken(file: Place) -> bool:
    try:
        format_of(file.location)
    except PairFileError:
        return False
    return True


def _columns(place: Place, reader: ReaderOptions) -> InputColumns:
    """Those of a file, as the first window of plain `score` finds them."""
    judged = reader.open(place.location).rows()
    window = list(islice((one for one in judged if isinstance(one, Pair)), WINDOW))
    return InputColumns.of(window, place.location, reader)
