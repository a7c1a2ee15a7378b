"""The files of pairs that the arguments of a run name: folders searched, no file twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs.formats import FORMAT_OF_SUFFIX, format_of
from qt_bert.scale.places.naming import is_text, place_of, shown
from qt_bert.scale.places.place import Place, Stored


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
