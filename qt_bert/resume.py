"""`--resume` and `--overwrite`: what becomes of a run that lies in the output folder.

A vacant folder starts a run. A run there goes on under `--resume` and is replaced under `--overwrite`,
which wins; without a flag it is refused, and so is a folder that holds anything else. Only what the run
itself wrote is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from qt_bert.codec import read_result
from qt_bert.errors import RunFolderError

RECORD = "run.json"

T = TypeVar("T")


def read_record(kind: type[T], path: Path, name: str) -> T:
    """The `run.json` in the folder `path`; `name` is what it records, "run" or "sweep". Raises
    RunFolderError where the folder is missing or holds none of `kind`."""
    if not (path / RECORD).is_file():
        what = f"is no {name} folder" if path.is_dir() else "is no folder"
        raise RunFolderError(f"{path} {what} (no {RECORD} in it); choose another folder")
    try:
        return read_result(kind, path / RECORD)
    except RunFolderError as error:
        raise RunFolderError(
            f"{path} holds no {name} of this program ({error}); choose another folder"
        ) from error


def goes_on(path: object, name: str, *, complete: bool, resume: bool, overwrite: bool) -> bool:
    """Whether the run at `path` is resumed, not replaced. Raises RunFolderError for no flag."""
    if resume or overwrite:
        return not overwrite
    raise RunFolderError(
        f"{path} holds {'a finished' if complete else 'an unfinished'} {name}; add --resume to go on "
        "with it, --overwrite to start anew, or choose another --out"
    )


def differing(begun: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The keys whose values differ, sorted; a missing value is None."""
    return sorted(key for key in begun.keys() | now.keys() if begun.get(key) != now.get(key))


def begun_otherwise(path: object, names: Iterable[str]) -> RunFolderError:
    """The refusal to resume the run at `path`, whose inputs of these names were others."""
    return RunFolderError(
        f"{path} was begun with another {', '.join(names)}; resume with the same, start anew with "
        "--overwrite, or choose another --out"
    )
