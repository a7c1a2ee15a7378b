"""Opening a folder of title states: refused unless it is whole, unharmed and of this very model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.encoder import Checkpoint
from qt_bert.errors import RunFolderError
from qt_bert.files import read_json, sha256_file, write_json
from qt_bert.progress import progress
from qt_bert.scoring.title_states.manifest import (
    MANIFEST,
    Array,
    FileRecord,
    Manifest,
    part_file,
    states_of_checkpoint,
)
from qt_bert.scoring.title_states.quantising import PackedStates
from qt_bert.scoring.title_states.states import Part, TitleStates

CHECKED = ".checked.json"
"""Files whose hashes were found right, with size, time of change and hash: not hashed again."""

_OPEN_PARTS = 128
"""Parts mapped into memory at a time: each holds a file open."""

_ADVICE = "make the states anew: qt-bert title-states … --overwrite"


def open_states(folder: Path, checkpoint: Checkpoint) -> TitleStates:
    """The title states in `folder`, mapped into memory.

    Sizes are always checked, hashes the first time a file is opened. Raises RunFolderError for a
    folder without title states, for states that are unfinished or damaged, and for those of another
    model, tokenizer or block; CheckpointError where the model is no offline one.
    """
    wanted = states_of_checkpoint(checkpoint)
    manifest = Manifest.read(folder)
    if not manifest.complete:
        raise RunFolderError(
            f"{folder}: the title states are not finished; run the same `qt-bert title-states` again "
            "with --resume"
        )
    if other := manifest.of.differing(wanted):
        raise RunFolderError(
            f"{folder}: these title states are of {manifest.of.name}, with another "
            f"{' and '.join(other)} than {checkpoint.name}; {_ADVICE}"
        )
    check_sizes(folder, manifest)
    _check_hashes(folder, manifest)
    packed = lru_cache(_OPEN_PARTS)(partial(_packed, folder, manifest))
    parts = tuple(
        Part(
            _load(folder, number, "keys"), _load(folder, number, "lengths"), partial(packed, number)
        )
        for number in range(len(manifest.parts))
    )
    return TitleStates(
        wanted.offline, manifest.dtype, wanted.hidden, parts, sha256_file(folder / MANIFEST)
    )


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Raise RunFolderError where a file is missing, or longer or shorter than when it was stored."""
    for path, record in _files(folder, manifest):
        if not path.is_file():
            raise RunFolderError(f"{path} is missing, though {MANIFEST} lists it; {_ADVICE}")
        if (size := path.stat().st_size) != record.bytes:
            raise RunFolderError(
                f"{path}: {size:,} bytes, where {record.bytes:,} were stored: the file was cut short "
                f"or changed; fetch it anew, or {_ADVICE}"
            )


def _check_hashes(folder: Path, manifest: Manifest) -> None:
    """Raise RunFolderError where a file that was not hashed before is not what was stored."""
    checked = _checked(folder)
    new = [
        (path, record)
        for path, record in _files(folder, manifest)
        if checked.get(path.name) != _stamp(path, record)
    ]
    if not new:
        return
    with progress(len(new), "checking title states", "files") as shown:
        for path, record in new:
            if sha256_file(path) != record.sha256:
                raise RunFolderError(
                    f"{path}: the bytes differ from those that were stored; fetch the file anew, or "
                    f"{_ADVICE}"
                )
            checked[path.name] = _stamp(path, record)
            shown.advance()
    try:
        write_json(folder / CHECKED, checked)
    except OSError:  # a folder that may only be read is hashed every time
        return


def _checked(folder: Path) -> dict[str, Any]:
    try:
        found = read_json(folder / CHECKED)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _stamp(path: Path, record: FileRecord) -> list[int | str]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, record.sha256]


def _files(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, FileRecord]]:
    for number, part in enumerate(manifest.parts):
        for name, record in part.files.there().items():
            yield part_file(folder, number, name), record


def _packed(folder: Path, manifest: Manifest, number: int) -> PackedStates:
    scaled = manifest.parts[number].files.scales is not None
    scales = _load(folder, number, "scales") if scaled else None
    return PackedStates(_load(folder, number, "states", mapped=True), scales)


def _load(folder: Path, number: int, array: Array, *, mapped: bool = False) -> np.ndarray:
    path = part_file(folder, number, array)
    return np.asarray(np.load(path, mmap_mode="r" if mapped else None))
