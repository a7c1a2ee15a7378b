"""Small scoring runs for the tests of the ledger: partitions, the work of a worker, and kills."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qt_bert.cluster.ledger import Ledger, RunRequest, Scanned
from qt_bert.cluster.record import Line, OutFile, rejects_table
from qt_bert.cluster.storage import LocalStorage, Storage, part_file, rejects_file
from qt_bert.data.pairs import Reject
from qt_bert.data.parts import FilePart

KEY = {"model": "m1", "--dtype": "float32", "source": "s1"}


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@dataclass(frozen=True)
class Mortal(LocalStorage):
    """A folder whose user is killed at the change number `at`; `torn`: a growing file got half of it."""

    at: int = 10**9
    torn: bool = False
    appends: bool = True  # type: ignore[misc]
    changes: list[str] = field(default_factory=list)

    def _change(self, what: str) -> None:
        self.changes.append(what)
        if len(self.changes) > self.at:
            raise Killed(what)

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        self._change(f"write {name}")
        super().write(name, chunks)

    def append(self, name: str, data: bytes) -> None:
        if self.torn and len(self.changes) == self.at:
            super().append(name, data[: len(data) // 2])
        self._change(f"append {name}")
        super().append(name, data)

    def remove(self, name: str) -> None:
        self._change(f"remove {name}")
        super().remove(name)

    def remove_folder(self, name: str) -> None:
        self._change(f"remove {name}/")
        super().remove_folder(name)


def some_parts(number: int, rows: int = 4, file: str = "day/a.tsv") -> list[FilePart]:
    """`number` parts of a file with a header."""
    hashes = [hashlib.sha256(b"%d" % i).hexdigest() for i in range(number)]
    return [
        FilePart(file, 2 + i * rows, rows, i * 50, 50, digest, "utf-8", "query\ttitle")
        for i, digest in enumerate(hashes)
    ]


def asked(key: Mapping[str, str] = KEY, **changes: Any) -> RunRequest:
    """What a run is asked to be."""
    said: dict[str, Any] = {
        "model": {"name": "tiny"},
        "arguments": {},
        "settings": {"actors": 2},
        "max_rejects": 0.5,
    }
    return RunRequest(key=key, **(said | changes))


def open_run(storage: Storage | Path, parts: Sequence[FilePart], **options: Any) -> Ledger:
    """A ledger on a folder; `key`, `max_rejects`, `settings` as in `asked`, the rest are flags."""
    storage = LocalStorage(storage) if isinstance(storage, Path) else storage
    flags = {name: options.pop(name) for name in ("resume", "overwrite") if name in options}
    scanned = Scanned(parts, {"columns": ["query"]})
    return Ledger.open(storage, lambda: scanned, lambda facts: asked(**options), **flags)


def parquet(rows: int, seed: str = "") -> bytes:
    """A part file of `rows` rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.table({"query": [f"{seed}{i}" for i in range(rows)]}), sink)
    return sink.getvalue()


def rejects_of(part: FilePart, rejected: int) -> list[Reject]:
    """The first `rejected` rows of a part, as rejects."""
    return [Reject(part.first + i, "empty title", f"q{part.first + i}\t") for i in range(rejected)]


def work(out: Path, part: FilePart, rejected: int = 0, **changes: Any) -> Line:
    """Do what a worker does: leave the part and its rejects in `out`, and say so."""
    name, pairs = part.name(), part.rows - rejected
    storage, made = LocalStorage(out), None
    if pairs:
        data = parquet(pairs, part.file)
        storage.write(part_file(name), [data])
        made = OutFile(
            name=part_file(name), bytes=len(data), sha256=hashlib.sha256(data).hexdigest()
        )
    if rejected:
        table = rejects_table(part.file, rejects_of(part, rejected))
        storage.write(rejects_file(name), [table])
    said: dict[str, Any] = {
        "partition": name,
        "file": part.file,
        "first": part.first,
        "rows": part.rows,
        "input_sha256": part.sha256,
        "model_sha256": "f" * 64,
        "pairs": pairs,
        "reasons": {"empty title": rejected} if rejected else {},
        "part": made,
        "seconds": 1.5,
        "node": "n1",
    }
    return Line(**(said | changes))


def complete(ledger: Ledger, out: Path, rejected: Mapping[int, int]) -> None:
    """Do all that is missing and finish; `rejected` rows by the number of the first line."""
    for part in ledger.missing():
        ledger.done(work(out, part, rejected.get(part.first, 0)))
    ledger.finish()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the manifest, whose files depend on how often a run was begun."""
    found = {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }
    return {n: path.read_bytes() for n, path in found.items() if not n.startswith("manifest/")}
