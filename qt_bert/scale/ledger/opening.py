"""Opening the folder of a scoring run: beginning one, or finding out how far one is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qt_bert.errors import RunFolderError
from qt_bert.pairs.parts import Part
from qt_bert.scale.ledger.checking import is_stored, remove_strays, wrong_contents, wrong_sizes
from qt_bert.scale.ledger.layout import BEGUN, MANIFEST, PARTITIONS, REJECTS, REJECTS_LIST
from qt_bert.scale.ledger.lines import Line
from qt_bert.scale.ledger.manifest import Manifest
from qt_bert.scale.ledger.partitions import Partitions
from qt_bert.scale.ledger.record import RunRecord, versions
from qt_bert.scale.ledger.rejects import part_rejects, wrong_rejects
from qt_bert.scale.ledger.storage import Storage


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a run is to be. `key` names all that the scored rows depend on; `model`, `arguments` and
    `settings` (actors, restarts, retries, …) are recorded, and may differ when it goes on."""

    key: Mapping[str, str]
    model: Mapping[str, Any]
    arguments: Mapping[str, Any]
    settings: Mapping[str, Any]
    max_rejects: float = 0.01

    def recorded(self, record: RunRecord | None = None) -> RunRecord:
        """As a new record, or in place of what `record` says."""
        said: dict[str, Any] = {
            "versions": versions(),
            "key": dict(self.key),
            "model": dict(self.model),
            "arguments": dict(self.arguments),
            "settings": dict(self.settings),
        }
        return RunRecord(**said) if record is None else replace(record, **said)


@dataclass(frozen=True)
class Scanned:
    """What the scan of the inputs found: the partitions, and plain data to be kept in `run.json`."""

    parts: Sequence[Part]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Standing:
    """How far a run is: its partitions, the lines of those that are done, by number, and what was
    wrong with those that are to be done again."""

    record: RunRecord
    partitions: Partitions
    lines: dict[int, Line] = field(default_factory=dict)
    put_back: dict[str, str] = field(default_factory=dict)


def begin(storage: Storage, asked: Asked, scanned: Scanned) -> Standing:
    """Start a run; what an earlier one left is removed, other files stay. Raises OSError."""
    partitions = Partitions.of(scanned.parts)
    record = asked.recorded()
    record.write(storage)
    _clear(storage)
    record = replace(
        record,
        scan=dict(scanned.facts),
        partitions=len(scanned.parts),
        rows=sum(part.rows for part in scanned.parts),
        partitions_sha256=partitions.write(storage),
    )
    record.write(storage)
    return Standing(record, partitions)


def _clear(storage: Storage) -> None:
    for name in storage.sizes(MANIFEST):
        storage.remove(f"{MANIFEST}/{name}")
    for folder in (REJECTS, BEGUN):
        storage.remove_folder(folder)
    for name in (REJECTS_LIST, PARTITIONS):
        storage.remove(name)
    remove_strays(storage, [])


def go_on(storage: Storage, record: RunRecord, asked: Asked) -> Standing:
    """The run as it was left; partitions whose files are not what was stored count as not done.

    Raises RunFolderError where the partitions or the manifest are damaged, and OSError.
    """
    standing = Standing(record, Partitions.read(storage, record.partitions_sha256 or ""))
    standing.lines = _stored_lines(storage, standing)
    wrong = _wrong(storage, standing)
    if record.complete and (wrong or len(standing.lines) < record.partitions):
        _take_apart(storage, standing, wrong)
    for number, fault in wrong.items():
        standing.put_back[standing.lines.pop(number).partition] = fault
    if not standing.record.complete:
        standing.record = asked.recorded(standing.record)
        standing.record.write(storage)
    remove_strays(storage, standing.lines.values())
    if standing.record.complete:
        remove_leftovers(storage)
    return standing


def remove_leftovers(storage: Storage) -> None:
    """Remove what only an unfinished run needs."""
    for folder in (REJECTS, BEGUN):
        storage.remove_folder(folder)


def _stored_lines(storage: Storage, standing: Standing) -> dict[int, Line]:
    """The last line of each partition.

    A finished run needs all of them where it has rejects, of which one list is left, and some else.
    """
    lines: dict[int, Line] = {}
    for where, line in Manifest(storage):
        if (number := number_of(line, standing)) is None:
            raise RunFolderError(
                f"{where}: {line.partition!r} is no partition of this run; take the line out, or "
                "start anew with --overwrite"
            )
        lines[number] = line
    lost = standing.record.partitions - len(lines) if standing.record.complete else 0
    if lost and (standing.record.rejects or not lines):
        raise RunFolderError(
            f"{storage}/{MANIFEST}: the lines of {lost:,} of {standing.record.partitions:,} "
            "partitions of this finished run are gone; put the folder back as it was, or start anew "
            "with --overwrite"
        )
    return lines


def number_of(line: Line, standing: Standing) -> int | None:
    """The number of the partition that a line is of; None where the run has none like it."""
    number = standing.partitions.numbers.get(line.partition)
    if number is None:
        return None
    part = standing.partitions.parts[number]
    mine = (part.file, part.first, part.rows, part.sha256)
    return number if mine == (line.file, line.first, line.rows, line.input_sha256) else None


def _wrong(storage: Storage, standing: Standing) -> dict[int, str]:
    """The partitions whose files are not what was stored, by what is wrong first; cheap checks first."""
    lines = standing.lines
    wrong = wrong_sizes(storage, lines)
    wrong |= wrong_contents(storage, {n: line for n, line in lines.items() if n not in wrong})
    listed = standing.record.complete
    lost = listed and standing.record.rejects and not is_stored(storage, standing.record.rejects)
    for number, line in lines.items():
        if number in wrong or not line.rejected:
            continue
        fault = f"{REJECTS_LIST} is missing or was changed" if lost else None
        if fault or (not listed and (fault := wrong_rejects(storage, line))):
            wrong[number] = fault
    return wrong


def _take_apart(storage: Storage, standing: Standing, wrong: Mapping[int, str]) -> None:
    """Make a finished run an unfinished one again."""
    rejects = standing.record.rejects
    if rejects and is_stored(storage, rejects):
        part_rejects(storage, standing.lines, wrong)
    standing.record = replace(standing.record, complete=False, totals=None, rejects=None)
    standing.record.write(storage)
    storage.remove(REJECTS_LIST)
