"""A folder of title states that grows part by part and survives a kill at any moment."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_write, is_vacant, sha256_file
from qt_bert.scoring.title_states.halves import listed
from qt_bert.scoring.title_states.manifest import (
    MANIFEST,
    Array,
    FileRecord,
    Manifest,
    PartFiles,
    PartRecord,
    part_file,
)
from qt_bert.scoring.title_states.quantising import PackedStates
from qt_bert.scoring.title_states.reading import check_sizes
from qt_bert.scoring.title_states.states import Part


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

    def add(self, part: Part, rows: int, truncated: int) -> None:
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


def joined(parts: Sequence[Part]) -> Part:
    """Several parts as one."""
    packed = [part.packed() for part in parts]
    scales = [one.scales for one in packed if one.scales is not None]
    whole = PackedStates(
        np.concatenate([one.values for one in packed]), np.concatenate(scales) if scales else None
    )
    keys = np.concatenate([part.keys for part in parts])
    return Part(keys, np.concatenate([part.lengths for part in parts]), lambda: whole)


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
