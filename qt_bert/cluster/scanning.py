"""The inputs of a run, found, read once, and cut into partitions."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from qt_bert.cluster.places import Place, Stored, is_text, place_of, shown
from qt_bert.data.formats import FORMAT_OF_SUFFIX, format_of
from qt_bert.data.lines import Location
from qt_bert.data.pairs import Pair
from qt_bert.data.parts import FilePart, cut
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.progress import Progress, progress
from qt_bert.scoring.tables import InputColumns

# How many rows a partition has, where nobody says: work for about a minute, and enough for all.


MOST_ROWS = 8192
"""As many as plain `score` holds at a time."""

_LEAST_LARGE, _LEAST_SMALL = 256, 64
_OPERATIONS = 1.2e13
"""A minute, more or less, of one core in float32."""

_TOKENS = 32
_PARTITIONS_AN_ACTOR = 4


def rows_for_model(model: str) -> int:
    """A power of two, by what the model's `config.json` says of its layers; never by the clock, for
    rows that stand in one partition share batches, and the same run shall have the same bits."""
    try:
        config = json.loads(place_of(model).read_text("config.json"))
        hidden, inner = int(config["hidden_size"]), int(config["intermediate_size"])
        weights = int(config["num_hidden_layers"]) * (4 * hidden**2 + 2 * hidden * inner)
        rows = _OPERATIONS / (2 * weights * _TOKENS)
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return MOST_ROWS  # opening the model says what is wrong, if something is
    return min(MOST_ROWS, max(_LEAST_LARGE, 2 ** int(math.log2(max(rows, 1)))))


def rows_for_few(rows: int, wanted: int, actors: int) -> int:
    """At most `wanted` a partition, and less where `rows` in all would leave `actors` without work."""
    return max(1, min(wanted, max(_LEAST_SMALL, math.ceil(rows / (_PARTITIONS_AN_ACTOR * actors)))))


# The files of pairs that the arguments of a run name: folders searched, no file twice.


class Inputs(NamedTuple):
    """The files in the order of the arguments, those of a folder by path; `skipped` are no pairs."""

    files: list[Stored]
    skipped: int


def find_inputs(given: Sequence[str]) -> Inputs:
    """The files that paths and addresses name; a folder stands for the files of pairs in it.

    In a folder hidden files, those in hidden folders and those of an unknown suffix are skipped, and
    counted; a file named itself is always taken. Raises ArgumentError where nothing is given, a
    folder holds no file of pairs, or a file comes twice; PairFileError where one cannot be read, or
    one in a folder has a name that is not UTF-8.
    """
    if not given:
        raise ArgumentError("no input; give files of pairs, or folders that hold them")
    files: list[Stored] = []
    skipped = 0
    for text in given:
        found, passed = _files_of(place_of(text))
        files += found
        skipped += passed
    _refuse_twice(files)
    return Inputs(files, skipped)


def check_inputs(
    given: Sequence[str], scanned: Sequence[Mapping[str, Any]], needed: Collection[str]
) -> list[str]:
    """See that the `needed` ones of the `scanned` files (`file`, `size`) are there as they were.

    What they hold is checked as it is read; this tells before anything starts. Others may be gone:
    they are done. Gives the files of pairs that are there now and were not scanned. Raises
    PairFileError.
    """
    known = {one["file"]: one["size"] for one in scanned}
    for file in (name for name in known if name in needed):
        if (found := _size(file)) != known[file]:
            what = "gone" if found is None else "changed"
            raise PairFileError(
                f"{file}: {what} since it was scanned; put it back as it was and go on with --resume, "
                "or start anew with --overwrite"
            )
    return [name for name in _there(given) if name not in known]


def refuse_inside(out: str, given: Sequence[str]) -> None:
    """Raise ArgumentError where the folder `out` is, or lies in, one of the inputs: what a run writes
    would be read as pairs the next time. So also where an input lies in `out`, which would replace it.
    """
    *where, path = place_of(out).key
    for text in given:
        *there, other = place_of(text).key
        if where != there:
            continue
        if PurePosixPath(path).is_relative_to(other):
            raise ArgumentError(f"--out {out}: lies in the input {text}; give a folder elsewhere")
        if PurePosixPath(other).is_relative_to(path):
            raise ArgumentError(
                f"--out {out}: the input {text} lies in it; give a folder elsewhere"
            )


def _size(file: str) -> int | None:
    """The bytes of a file; None where it is gone."""
    try:
        return place_of(file).size()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(file, error) from error


def _there(given: Sequence[str]) -> list[str]:
    """The files of pairs that can be listed now."""
    found: list[str] = []
    for text in given:
        with suppress(ArgumentError, PairFileError):  # all of it may be done, and gone
            found += [str(stored.place) for stored in _files_of(place_of(text))[0]]
    return found


def _files_of(place: Place) -> tuple[list[Stored], int]:
    try:
        if not place.is_folder():
            return [place.stat()], 0
        all_files = place.list()
    except OSError as error:
        raise _unreadable(place, error) from error
    found = [one for name, one in all_files.items() if _is_taken(name, one.place)]
    for name in (str(one.place) for one in found):
        if not is_text(name):
            raise PairFileError(f"{shown(name)}: this name is not UTF-8; rename the file")
    if not found:
        raise ArgumentError(
            f"{place}: there is no file of pairs in this folder (other files: "
            f"{len(all_files):,}); such files end in {', '.join(FORMAT_OF_SUFFIX)}"
        )
    return found, len(all_files) - len(found)


def _unreadable(file: Place | str, error: OSError) -> PairFileError:
    return PairFileError(f"{file}: cannot be read ({error.strerror or error})")


def _is_taken(name: str, file: Place) -> bool:
    if any(part.startswith(".") for part in name.split("/")):
        return False
    try:
        format_of(file.location)
    except PairFileError:
        return False
    return True


def _refuse_twice(files: Sequence[Stored]) -> None:
    seen: dict[tuple[str, ...], Place] = {}
    for place, _, _ in files:
        if (first := seen.setdefault(place.key, place)) is not place:
            raise ArgumentError(
                f"{place}: this file is given twice, first as {first}; name it once"
            )


# All inputs of a run, read once before it starts: their parts, and the columns of the output.


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

    parts: list[FilePart]
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
    parts: list[FilePart] = []
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


def _parts(stored: Stored, options: ReaderOptions, rows: int, bar: Progress) -> list[FilePart]:
    """The parts of a file; the bar goes on by all of its stored bytes, read or not."""
    told = 0

    def advance(amount: int) -> None:
        nonlocal told
        told += amount
        bar.advance(amount)

    parts = list(cut(stored.place.location, options, rows, advance))
    bar.advance(max(stored.size - told, 0))
    return parts


def _scanned(stored: Stored, parts: Sequence[FilePart]) -> ScannedFile:
    rows = sum(part.rows for part in parts)
    return ScannedFile(str(stored.place), stored.size, stored.mtime_ns, rows)
