"""A folder of title states: its manifest, how it grows and survives a kill, how it is opened."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from qt_bert.codec import encode, read_result
from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_write, is_vacant, read_json, sha256_file, write_json
from qt_bert.models.card import Offline
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.progress import progress
from qt_bert.scoring.title_states import (
    Format,
    PackedStates,
    StatesPart,
    TitleStates,
    block_of,
    hidden_of,
    listed,
)

# The manifest of a folder of title states: whose they are, and the files they lie in.


MANIFEST = "title_states.json"

Array = Literal["keys", "lengths", "states", "scales"]
ARRAYS: tuple[Array, ...] = get_args(Array)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesOf:
    """What title states depend on; `name` is for the reader alone."""

    name: str
    weights: str
    config: str
    tokenizer: str
    offline: Offline
    hidden: int

    def differing(self, other: StatesOf) -> list[str]:
        """In words, what differs from `other`."""
        mine, theirs = (
            {
                "model": (one.weights, one.config, one.hidden),
                "tokenizer": one.tokenizer,
                "block": one.offline,
            }
            for one in (self, other)
        )
        return [name for name in mine if mine[name] != theirs[name]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """A file's size and hash."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFiles:
    """The files of one part, by the array that each holds."""

    keys: FileRecord
    lengths: FileRecord
    states: FileRecord
    scales: FileRecord | None = None

    def there(self) -> dict[Array, FileRecord]:
        """Those that there are."""
        files = {name: getattr(self, name) for name in ARRAYS}
        return {name: file for name, file in files.items() if file is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """One part, of `titles` titles with `tokens` tokens."""

    titles: int
    tokens: int
    files: PartFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A folder of title states, complete or not.

    `source` is the hash of the file of titles and how it was read. `rows` of its titles lie in
    `parts` by now, equal ones once; `truncated` of the latter were cut. `rejected` counts rows
    without a title, once it is complete.
    """

    schema: Literal[1] = 1
    of: StatesOf
    dtype: Format
    source: dict[str, str]
    complete: bool = False
    rows: int = 0
    rejected: int = 0
    truncated: int = 0
    titles: int = 0
    tokens: int = 0
    bytes: int = 0
    parts: tuple[PartRecord, ...] = ()

    def with_part(self, part: PartRecord, rows: int, truncated: int) -> Manifest:
        """With one more part, behind which `rows` rows lie."""
        return replace(
            self,
            rows=rows,
            truncated=truncated,
            titles=self.titles + part.titles,
            tokens=self.tokens + part.tokens,
            bytes=self.bytes + sum(file.bytes for file in part.files.there().values()),
            parts=(*self.parts, part),
        )

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Raises RunFolderError where there is none, or one that cannot be read."""
        if not (folder / MANIFEST).is_file():
            raise RunFolderError(
                f"{folder}: no title states ({MANIFEST}); make them with `qt-bert title-states`"
            )
        return read_result(cls, folder / MANIFEST)

    def write(self, folder: Path) -> None:
        """Store it, atomically."""
        write_json(folder / MANIFEST, encode(self))


def part_file(folder: Path, number: int, array: Array) -> Path:
    """Where an array of a part lies."""
    return folder / f"part-{number:05}.{array}.npy"


def states_of_checkpoint(checkpoint: Checkpoint) -> StatesOf:
    """What the states of a checkpoint depend on. Raises CheckpointError for one that is not offline."""
    return StatesOf(
        name=checkpoint.name,
        weights=checkpoint.sha256,
        config=sha256_file(checkpoint.folder / "config.json"),
        tokenizer=tokenizer_sha256(checkpoint.tokenizer),
        offline=block_of(checkpoint),
        hidden=hidden_of(checkpoint),
    )


def tokenizer_sha256(tokenizer: Any) -> str:
    """One hash for what a fast tokenizer makes of a text, however it pads and cuts at the moment."""
    stored = json.loads(tokenizer.backend_tokenizer.to_str())
    stored |= {"truncation": None, "padding": None}
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


# Opening a folder of title states: refused unless it is whole, unharmed and of this very model.


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
        StatesPart(
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


# A folder of title states that grows part by part and survives a kill at any moment.


class GrowingStates:
    """The folder at `path`; what `manifest` lists is whole and stays.

    A part's files are written one by one, each whole or not at all, and listed when all are there.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def begin(
        cls, path: Path, asked: Manifest, *, resume: bool = False, overwrite: bool = False
    ) -> GrowingStates:
        """Start in `path` with the empty manifest `asked`, or go on with what lies there.

        Raises RunFolderError where the folder holds something else, where it holds title states and
        neither flag says what to do, and where those to go on with are of another model, format or
        file, or damaged.
        """
        if not is_vacant(path) and not (path / MANIFEST).is_file():
            raise RunFolderError(f"{path} holds something else; --out names a folder of its own")
        if is_vacant(path) or overwrite:
            asked.write(path)
            grown = cls(path, asked)
        else:
            grown = cls(path, _gone_on_with(path, asked, resume))
        grown._remove_unlisted()
        return grown

    def add(self, part: StatesPart, rows: int, truncated: int) -> None:
        """Store a part behind which `rows` rows of the file lie, and list it."""
        packed = part.packed()
        with self._telling_of_space():
            files = PartFiles(
                keys=self._write("keys", part.keys),
                lengths=self._write("lengths", part.lengths),
                states=self._write("states", packed.values),
                scales=None if packed.scales is None else self._write("scales", packed.scales),
            )
            record = PartRecord(titles=len(part.keys), tokens=len(packed.values), files=files)
            manifest = self.manifest.with_part(record, rows, truncated)
            manifest.write(self.path)
        self.manifest = manifest

    def finish(self, rows: int, rejected: int) -> None:
        """Say that nothing is missing."""
        self.manifest = replace(self.manifest, rows=rows, rejected=rejected, complete=True)
        with self._telling_of_space():
            self.manifest.write(self.path)

    def keys(self) -> set[bytes]:
        """The keys of the titles that are stored."""
        numbers = range(len(self.manifest.parts))
        return {key for n in numbers for key in listed(np.load(part_file(self.path, n, "keys")))}

    def _write(self, name: Array, array: np.ndarray) -> FileRecord:
        """An array of the part that is to come."""
        return _write(part_file(self.path, len(self.manifest.parts), name), array)

    def _remove_unlisted(self) -> None:
        there = {
            part_file(self.path, number, name)
            for number, part in enumerate(self.manifest.parts)
            for name in part.files.there()
        }
        for pattern in ("part-*.npy", ".part-*.tmp", f".{MANIFEST}.*.tmp"):
            for path in self.path.glob(pattern):
                if path not in there:
                    path.unlink()

    @contextmanager
    def _telling_of_space(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            done = self.manifest
            raise RunFolderError(
                f"{self.path}: the disk is full ({done.titles:,} titles are stored, "
                f"{done.bytes / 1e6:,.0f} MB); make room and go on with --resume, or store less with "
                "--dtype float16 or int8"
            ) from error


def joined(parts: Sequence[StatesPart]) -> StatesPart:
    """Several parts as one."""
    packed = [part.packed() for part in parts]
    scales = [one.scales for one in packed if one.scales is not None]
    whole = PackedStates(
        np.concatenate([one.values for one in packed]), np.concatenate(scales) if scales else None
    )
    keys = np.concatenate([part.keys for part in parts])
    return StatesPart(keys, np.concatenate([part.lengths for part in parts]), lambda: whole)


def _gone_on_with(path: Path, asked: Manifest, resume: bool) -> Manifest:
    found = Manifest.read(path)
    if not resume:
        state = "title states" if found.complete else "title states that are not finished"
        raise RunFolderError(f"{path} holds {state}; --resume goes on, --overwrite starts anew")
    other = found.of.differing(asked.of)
    other += ["--dtype"] * (found.dtype != asked.dtype)
    other += ["file of titles"] * (found.source != asked.source)
    if other:
        raise RunFolderError(
            f"{path} was begun with another {' and '.join(other)}; resume with the same, or start "
            "anew with --overwrite"
        )
    check_sizes(path, found)
    return found


def _write(path: Path, array: np.ndarray) -> FileRecord:
    header = np.lib.format.header_data_from_array_1_0(array)
    with atomic_write(path) as temporary:
        # Not np.save, which does not say what went wrong when a disk is full.
        with open(temporary, "wb") as handle:
            np.lib.format.write_array_header_1_0(handle, header)
            handle.write(array.tobytes())
        record = FileRecord(bytes=temporary.stat().st_size, sha256=sha256_file(temporary))
    return record
