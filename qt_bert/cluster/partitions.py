"""The inputs of a run: found, read once, and cut into partitions of consecutive rows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath

from qt_bert.cluster.places import Place, Stored
from qt_bert.data.formats import FORMAT_OF_SUFFIX, format_of
from qt_bert.data.lines import Location
from qt_bert.data.pairs import Pair
from qt_bert.data.parts import FilePart, cut
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.progress import progress
from qt_bert.scoring.bulk import WINDOW
from qt_bert.scoring.tables import InputColumns

LEAST_LARGE, LEAST_SMALL = 256, 64
MINUTE = 1.2e13
"""Operations of one core in float32 in about a minute."""
TOKENS = 32
PARTITIONS_AN_ACTOR = 4


@dataclass(frozen=True)
class Scan:
    """What a run reads: `parts` of at most `rows_per_partition` rows in order, `columns` of all files,
    the `files` by name, and how many other files of the folders were `skipped`."""

    parts: list[FilePart]
    rows_per_partition: int
    columns: InputColumns
    files: list[str]
    skipped: int

    @property
    def rows(self) -> int:
        """Lines and rows of all parts, rejects and empty lines included."""
        return sum(part.rows for part in self.parts)


def scan(
    inputs: Sequence[str], reader: ReaderOptions, rows: int | None, model: str, actors: int
) -> Scan:
    """Cut `inputs`, paths and addresses of files and folders, into parts of `rows` rows.

    Where `rows` is None a part is about a minute's work for `model`, and smaller where `actors` would be
    without work. Rejects are not counted here. Raises ArgumentError where nothing is given, a folder
    holds no file of pairs, or a file comes twice; PairFileError for a file that cannot be read.
    """
    if not inputs:
        raise ArgumentError("no input; give files of pairs, or folders that hold them")
    found: list[Stored] = []
    skipped = 0
    for text in inputs:
        files, passed = _files_of(Place.of(text))
        found, skipped = found + files, skipped + passed
    first: dict[tuple[str, str], Place] = {}
    for place, _ in found:
        if (known := first.setdefault(place.key, place)) is not place:
            raise ArgumentError(
                f"{place}: this file is given twice, first as {known}; name it once"
            )
    reader = replace(reader, max_rejects=1.0)  # how many are too many is judged over the whole run
    columns = InputColumns.union(_columns(place.location, reader) for place, _ in found)
    wanted = rows or rows_for_model(model)
    parts = _cut(found, reader, wanted)
    if rows is None:
        total = sum(part.rows for part in parts)
        share = math.ceil(total / (PARTITIONS_AN_ACTOR * actors))
        if (fewer := max(1, min(wanted, max(LEAST_SMALL, share)))) < wanted:
            parts, wanted = _cut(found, reader, fewer), fewer
    return Scan(parts, wanted, columns, [str(place) for place, _ in found], skipped)


def rows_for_model(model: str) -> int:
    """A power of two, by what the model's `config.json` says of its layers; never by the clock, for
    rows that stand in one partition share batches, and the same run shall have the same bits."""
    try:
        config = json.loads(Place.of(model).join("config.json").read())
        hidden, inner = int(config["hidden_size"]), int(config["intermediate_size"])
        weights = int(config["num_hidden_layers"]) * (4 * hidden**2 + 2 * hidden * inner)
        rows = MINUTE / (2 * weights * TOKENS)
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return WINDOW  # opening the model says what is wrong, if something is
    return min(WINDOW, max(LEAST_LARGE, 2 ** int(math.log2(max(rows, 1)))))


def refuse_inside(out: str, inputs: Sequence[str]) -> None:
    """Raise ArgumentError where the folder `out` is, holds or lies in one of the inputs: what a run
    writes would be read as pairs the next time, or replace them."""
    system, path = Place.of(out).key
    for text in inputs:
        there, other = Place.of(text).key
        if system != there:
            continue
        if PurePosixPath(path).is_relative_to(other):
            raise ArgumentError(f"--out {out}: lies in the input {text}; give a folder elsewhere")
        if PurePosixPath(other).is_relative_to(path):
            raise ArgumentError(
                f"--out {out}: the input {text} lies in it; give a folder elsewhere"
            )


def _files_of(place: Place) -> tuple[list[Stored], int]:
    """The files of pairs that a place stands for, and how many others its folder holds."""
    try:
        size = place.size()
        if size is None:
            raise PairFileError(f"{place}: cannot be read (No such file or directory)")
        if size >= 0:
            return [Stored(place, size)], 0
        listed = place.files()
    except OSError as error:
        raise PairFileError(f"{place}: cannot be read ({error.strerror or error})") from error
    found = [one for name, one in listed.items() if _is_taken(name, one.place)]
    if not found:
        raise ArgumentError(
            f"{place}: there is no file of pairs in this folder (other files: {len(listed):,}); such "
            f"files end in {', '.join(FORMAT_OF_SUFFIX)}"
        )
    for one in found:
        Place.of(one.place.text)  # a name that is not UTF-8 is refused
    return found, len(listed) - len(found)


def _is_taken(name: str, file: Place) -> bool:
    if any(part.startswith(".") for part in name.split("/")):
        return False
    try:
        format_of(file.location)
    except PairFileError:
        return False
    return True


def _columns(location: Location, reader: ReaderOptions) -> InputColumns:
    """Those of a file, as the first window of plain `score` finds them."""
    judged = reader.open(location).judged()
    window = list(islice((one for one in judged if isinstance(one, Pair)), WINDOW))
    return InputColumns.of(window, location, reader)


def _cut(found: Sequence[Stored], reader: ReaderOptions, rows: int) -> list[FilePart]:
    parts: list[FilePart] = []
    total = sum(one.size for one in found)
    with progress(total, "reading the inputs", "bytes") as shown:
        for place, _ in found:
            parts += cut(place.location, reader, rows, shown.advance)
    return parts
