"""`run.json` of a scoring run in partitions, and what the flags say to a folder that holds one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from qt_bert.errors import RunFolderError
from qt_bert.results.codec import decode, encode
from qt_bert.scale.ledger.layout import RUN
from qt_bert.scale.ledger.lines import OutFile
from qt_bert.scale.ledger.storage import Storage
from qt_bert.scale.ledger.totals import Totals
from qt_bert.sources import installed_versions


def versions() -> dict[str, str]:
    """The versions that scored rows depend on, by name."""
    return installed_versions("tokenizers", "pyarrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The content of `run.json`.

    `key` names all that the scored rows depend on; `settings` is what they do not depend on.
    `scan` is what the scan found besides the partitions, which are `partitions` of `rows` rows in a
    file with the hash `partitions_sha256`: None until the scan is done. `totals` and the list of
    `rejects`, where there are some, are there once the run is `complete`.
    """

    kind: ClassVar[str] = "score-ray"
    schema: Literal[1] = 1
    versions: dict[str, str]
    key: dict[str, str]
    model: dict[str, Any]
    arguments: dict[str, Any]
    settings: dict[str, Any]
    scan: dict[str, Any] = field(default_factory=dict)
    partitions: int = 0
    rows: int = 0
    partitions_sha256: str | None = None
    totals: Totals | None = None
    rejects: OutFile | None = None
    complete: bool = False

    def write(self, storage: Storage) -> None:
        """Store it, atomically. Raises OSError."""
        text = json.dumps(encode(self), ensure_ascii=False, indent=1, allow_nan=False)
        storage.write(RUN, [(text + "\n").encode()])

    @classmethod
    def read(cls, storage: Storage) -> RunRecord:
        """Raises RunFolderError where there is none, or that of something else."""
        if not storage.exists(RUN):
            what = "holds no scoring run" if storage.is_folder() else "is no folder"
            raise RunFolderError(f"{storage} {what} (no {RUN} in it); choose another folder")
        try:
            with storage.open(RUN) as handle:
                found: RunRecord = decode(cls, json.load(handle), f"{storage}/{RUN}")
        except (OSError, ValueError, RecursionError, RunFolderError) as error:
            raise RunFolderError(
                f"{storage} holds no scoring run in partitions ({error}); choose another folder"
            ) from error
        return found


def check_flags(
    storage: Storage, *, resume: bool = False, overwrite: bool = False
) -> RunRecord | None:
    """The run in `storage` to go on with; None where one is to begin. Nothing is touched.

    Raises RunFolderError for a run and neither flag, and for anything but such a run.
    """
    if storage.is_vacant():
        return None
    record = RunRecord.read(storage)
    if overwrite:
        return None
    if resume:
        return record
    state = "a finished scoring run" if record.complete else "an unfinished scoring run"
    raise RunFolderError(
        f"{storage} holds {state}; add --resume to go on with it, --overwrite to start anew, or "
        "choose another folder"
    )


def check_key(storage: Storage, stored: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise RunFolderError, naming what differs, where the run was begun with another key."""
    names: Iterable[str] = dict.fromkeys((*wanted, *stored))
    other = [name for name in names if stored.get(name) != wanted.get(name)]
    if other:
        named = ", ".join(_WORDS.get(name, name) for name in other)
        raise RunFolderError(
            f"{storage} was begun with another {named}; resume with the same, start anew with "
            "--overwrite, or choose another folder"
        )


_WORDS = {"source": "version of this program"}
