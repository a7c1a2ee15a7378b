"""Faults that a job plants in the workers of a cluster, as `tests.cluster.planted_ray:NAME`.

Those that end when they are mended last as long as the file `out.fault` lies beside the run.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.cluster import partition
from qt_bert.cluster.partition import ScoreJob
from qt_bert.cluster.places import Content, LocalPlace
from qt_bert.data.pairs import Pair, Reject
from qt_bert.scoring.bulk import Scorer
from tests.cluster.planted import Texts, _planted, _titles

SPACE_BYTES = 2**30
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def slow(job: ScoreJob) -> Scorer:
    """Takes its time for each partition."""
    return _planted(job, before=lambda pairs: time.sleep(0.25) if len(pairs) > 1 else None)


def slower(job: ScoreJob) -> Scorer:
    """Takes a second for each partition."""
    return _planted(job, before=lambda pairs: time.sleep(1) if len(pairs) > 1 else None)


def bounded(job: ScoreJob) -> Scorer:
    """Its process gets no more than 1 GiB of address space than it has; a title "大" asks for two."""
    if _is_worker(job):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + SPACE_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return _planted(job, before=_allocate)


def full(job: ScoreJob) -> Scorer:
    """The disk has no room for parts."""
    if _is_worker(job):
        pytest.MonkeyPatch().setattr(LocalPlace, "write", _write_or_full)
    return _planted(job)


def vanishing(job: ScoreJob) -> Scorer:
    """A folder stands where a file was."""
    if file := _claimed(job):
        file.rename(f"{file}.gone")
        file.mkdir()
    return _planted(job)


def forbidden(job: ScoreJob) -> Scorer:
    """A file may not be read, by its mode."""
    if _is_worker(job) and (fault := _fault(job)).exists():
        Path(fault.read_text()).chmod(0)
        pytest.MonkeyPatch().setattr(partition, "read_part", _read_as_anyone)
    return _planted(job)


def rewritten(job: ScoreJob) -> Scorer:
    """A file has other bytes of the same number."""
    if file := _claimed(job):
        file.write_bytes(file.read_bytes()[::-1])
    return _planted(job)


def _claimed(job: ScoreJob) -> Path | None:
    """The file that a fault is planted in; of all workers one gets it."""
    if not _is_worker(job):
        return None
    with suppress(FileNotFoundError):
        return Path(_fault(job).rename(f"{_fault(job)}.done").read_text())
    return None


def _is_worker(job: ScoreJob) -> bool:
    """The driver opens the model to fill the hash in."""
    return bool(job.model_sha256)


def _fault(job: ScoreJob) -> Path:
    return Path(f"{job.out}.fault")


def _allocate(pairs: Texts) -> None:
    if "大" in _titles(pairs):
        np.ones(2 * SPACE_BYTES, np.uint8)


_read = partition.read_part


def _read_as_anyone(*arguments: Any) -> Iterator[Pair | Reject]:
    _take_roots_rights_from_this_thread()
    yield from _read(*arguments)


def _take_roots_rights_from_this_thread() -> None:
    """The tests may run as root, who reads whatever the mode: see capset(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    version_3 = (ctypes.c_uint32 * 2)(0x20080522, 0)
    rights = (ctypes.c_uint32 * 6)()
    assert libc.capget(version_3, rights) == 0
    rights[0] &= ~(1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH)
    assert libc.capset(version_3, rights) == 0


_write = LocalPlace.write


def _write_or_full(self: LocalPlace, name: str, content: Content) -> None:
    if name.startswith("parts/") and Path(f"{self}.fault").exists():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    _write(self, name, content)
