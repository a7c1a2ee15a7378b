"""Holding the files of a run against its manifest: what is missing, cut short, changed or left over."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from qt_bert.files import is_temporary
from qt_bert.progress import progress
from qt_bert.scale.ledger.layout import MANIFEST, PARTS, REJECTS
from qt_bert.scale.ledger.lines import Line, OutFile
from qt_bert.scale.ledger.storage import Storage

_READERS = 4
_PART = re.compile(r"part-.+\.parquet")


def wrong_sizes(storage: Storage, lines: Mapping[int, Line]) -> dict[int, str]:
    """The partitions whose part file is missing or of another size, and what is wrong."""
    sizes = storage.sizes(PARTS)
    wrong = {}
    for number, line in lines.items():
        if line.part is None:
            continue
        found = sizes.get(line.part.name.removeprefix(f"{PARTS}/"))
        if found is None:
            wrong[number] = f"{line.part.name} is missing"
        elif found != line.part.bytes:
            wrong[number] = (
                f"{line.part.name} has {found:,} bytes, where {line.part.bytes:,} were stored"
            )
    return wrong


def wrong_contents(storage: Storage, lines: Mapping[int, Line]) -> dict[int, str]:
    """The partitions whose part file does not hold what was stored: its bytes, and its rows.

    Raises OSError where a file is there and cannot be read: it may be whole.
    """
    with_part = {number: line for number, line in lines.items() if line.part}
    wrong = {}
    with (
        progress(len(with_part), "checking the parts", "parts") as shown,
        ThreadPoolExecutor(_READERS) as pool,
    ):
        found = pool.map(lambda line: _wrong_content(storage, line), with_part.values())
        for number, fault in zip(with_part, found, strict=True):
            if fault:
                wrong[number] = fault
            shown.advance()
    return wrong


def _wrong_content(storage: Storage, line: Line) -> str | None:
    assert line.part is not None
    name = line.part.name
    try:
        with storage.open(name) as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()  # type: ignore[arg-type]
            if digest != line.part.sha256:
                return f"{name} has other bytes than were stored"
            handle.seek(0)
            rows = _rows(handle)
    except FileNotFoundError:
        return f"{name} is missing"
    except ValueError as error:  # pyarrow's error for no Parquet
        return f"{name} is no table ({error})"
    if rows != line.pairs:
        return f"{name} has {rows:,} rows, where {line.pairs:,} were stored"
    return None


def _rows(handle: Any) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(handle).num_rows)


def is_stored(storage: Storage, file: OutFile) -> bool:
    """Whether a file holds the bytes that were stored. Raises OSError where it cannot be read."""
    try:
        with storage.open(file.name) as handle:
            digest = hashlib.file_digest(handle, "sha256")  # type: ignore[arg-type]
    except FileNotFoundError:
        return False
    return digest.hexdigest() == file.sha256


def remove_strays(storage: Storage, lines: Iterable[Line]) -> int:
    """Remove parts and rejects that no line names, and what killed writers left; the parts removed."""
    kept = list(lines)
    parts = {line.part.name for line in kept if line.part}
    rejects = {f"{line.partition}.tsv" for line in kept if line.rejected}
    removed = 0
    for name in storage.sizes(PARTS):
        if _PART.fullmatch(name) and f"{PARTS}/{name}" not in parts:
            storage.remove(f"{PARTS}/{name}")
            removed += 1
    for name in storage.sizes(REJECTS):
        if name.endswith(".tsv") and name not in rejects:
            storage.remove(f"{REJECTS}/{name}")
    for folder in ("", PARTS, REJECTS, MANIFEST):
        for name in storage.sizes(folder):
            if is_temporary(name):
                storage.remove(f"{folder}/{name}" if folder else name)
    return removed
