"""The ledger of a scoring run: opened or gone on with, filled, checked, ended."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from qt_bert.cluster.record import (
    Judge,
    Line,
    Manifest,
    OutFile,
    Partitions,
    RunRecord,
    check_flags,
    check_key,
    first_reject,
    joined_rejects,
    part_rejects,
    totals_of,
    versions,
    wrong_rejects,
)
from qt_bert.cluster.storage import (
    BEGUN,
    MANIFEST,
    PARTITIONS,
    PARTS,
    REJECTS,
    REJECTS_LIST,
    Storage,
    telling_of_faults,
)
from qt_bert.data.parts import FilePart
from qt_bert.data.reader import check_share, describe
from qt_bert.errors import PairFileError, RunFolderError
from qt_bert.files import is_temporary
from qt_bert.progress import progress

# Holding the files of a run against its manifest: what is missing, cut short, changed or left over.


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


# Opening the folder of a scoring run: beginning one, or finding out how far one is.


@dataclass(frozen=True, kw_only=True)
class RunRequest:
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

    parts: Sequence[FilePart]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class RunState:
    """How far a run is: its partitions, the lines of those that are done, by number, and what was
    wrong with those that are to be done again."""

    record: RunRecord
    partitions: Partitions
    lines: dict[int, Line] = field(default_factory=dict)
    put_back: dict[str, str] = field(default_factory=dict)


def begin(storage: Storage, asked: RunRequest, scanned: Scanned) -> RunState:
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
    return RunState(record, partitions)


def _clear(storage: Storage) -> None:
    for name in storage.sizes(MANIFEST):
        storage.remove(f"{MANIFEST}/{name}")
    for folder in (REJECTS, BEGUN):
        storage.remove_folder(folder)
    for name in (REJECTS_LIST, PARTITIONS):
        storage.remove(name)
    remove_strays(storage, [])


def go_on(storage: Storage, record: RunRecord, asked: RunRequest) -> RunState:
    """The run as it was left; partitions whose files are not what was stored count as not done.

    Raises RunFolderError where the partitions or the manifest are damaged, and OSError.
    """
    standing = RunState(record, Partitions.read(storage, record.partitions_sha256 or ""))
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


def _stored_lines(storage: Storage, standing: RunState) -> dict[int, Line]:
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


def number_of(line: Line, standing: RunState) -> int | None:
    """The number of the partition that a line is of; None where the run has none like it."""
    number = standing.partitions.numbers.get(line.partition)
    if number is None:
        return None
    part = standing.partitions.parts[number]
    mine = (part.file, part.first, part.rows, part.sha256)
    return number if mine == (line.file, line.first, line.rows, line.input_sha256) else None


def _wrong(storage: Storage, standing: RunState) -> dict[int, str]:
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


def _take_apart(storage: Storage, standing: RunState, wrong: Mapping[int, str]) -> None:
    """Make a finished run an unfinished one again."""
    rejects = standing.record.rejects
    if rejects and is_stored(storage, rejects):
        part_rejects(storage, standing.lines, wrong)
    standing.record = replace(standing.record, complete=False, totals=None, rejects=None)
    standing.record.write(storage)
    storage.remove(REJECTS_LIST)


# The end of a scoring run: its parts looked at once more, one list of rejects, and the totals.


def end(storage: Storage, standing: RunState, repeated: Collection[int]) -> RunRecord:
    """Write what a finished run has, and then that it is finished; its record.

    `repeated` are partitions that were done twice. Raises RunFolderError where a part or a list of
    rejects is not what was stored, and OSError.
    """
    _check_parts(storage, standing, repeated)
    rejects = _join_rejects(storage, standing)
    remove_strays(storage, standing.lines.values())
    totals = totals_of(standing.lines.values())
    record = replace(standing.record, totals=totals, rejects=rejects, complete=True)
    record.write(storage)
    remove_leftovers(storage)
    return record


def _check_parts(storage: Storage, standing: RunState, repeated: Collection[int]) -> None:
    """By size; those that were done twice, whose part may be either worker's, by their bytes."""
    twice = {number: standing.lines[number] for number in repeated}
    wrong = wrong_sizes(storage, standing.lines) or wrong_contents(storage, twice)
    if wrong:
        raise RunFolderError(
            f"{storage}: {len(wrong):,} parts are not what was stored, the first: "
            f"{next(iter(wrong.values()))}; --resume does them again"
        )


def _join_rejects(storage: Storage, standing: RunState) -> OutFile | None:
    if not any(line.rejected for line in standing.lines.values()):
        storage.remove(REJECTS_LIST)
        return None
    passed = _Passed(joined_rejects(storage, standing.lines))
    storage.write(REJECTS_LIST, passed)
    return OutFile(name=REJECTS_LIST, bytes=passed.bytes, sha256=passed.digest.hexdigest())


class _Passed:
    """Chunks, with the hash and the size of those that have passed."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.digest = hashlib.sha256()
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.digest.update(chunk)
            self.bytes += len(chunk)
            yield chunk


def too_many_rejects(storage: Storage, standing: RunState, judge: Judge) -> str:
    """Why a run stops that has more rejects than it may."""
    return (
        f"{_inputs(standing)}: {judge.rejected:,} of the first {judge.rows:,} rows are rejects, more "
        f"than --max-rejects {judge.max_rejects:g} allows ({_reasons(storage, standing, judge)}); "
        f"all are listed in {storage}/{REJECTS}; --resume goes on under a larger --max-rejects"
    )


def not_one_pair(storage: Storage, standing: RunState, judge: Judge) -> str:
    """Why a run fails that has scored nothing."""
    if not judge.rows:
        return f"{_inputs(standing)}: no rows"
    return (
        f"{_inputs(standing)}: not one of {judge.rows:,} rows is a pair "
        f"({_reasons(storage, standing, judge)}); all are listed in {storage}/{REJECTS}"
    )


def _inputs(standing: RunState) -> str:
    files = {part.file for part in standing.partitions.parts}
    return files.pop() if len(files) == 1 else f"{len(files):,} files"


def _reasons(storage: Storage, standing: RunState, judge: Judge) -> str:
    counts = describe(judge.most(), None)
    if (first := first_reject(storage, standing.lines)) is None:
        return counts
    file, line, text = first
    return f"{counts}; the first is {file}, line {line}, {text[:80]!r}"


# The ledger of a scoring run in partitions: what is done, what is missing, and how the run ends.
#
# `run.json` says what the run is, `partitions.jsonl` what there is to do; a line in `manifest/`
# says
# that a partition is done; in the end come `rejects.tsv`, and `run.json` with `complete`. A kill
# between
# any two of these leaves a folder that `resume` goes on with.


class Ledger:
    """An open run. `put_back` says of partitions that were done, by name, why they are done again."""

    def __init__(self, storage: Storage, standing: RunState, max_rejects: float) -> None:
        self.storage = storage
        self.put_back: Mapping[str, str] = standing.put_back
        self._standing = standing
        self._lines = standing.lines
        self._manifest = Manifest(storage)
        self._judge = Judge(check_share(max_rejects))
        self._rows = 0
        self._repeated: set[int] = set()
        for number, line in self._lines.items():
            self._count(number, line)

    @classmethod
    def open(
        cls,
        storage: Storage,
        scan: Callable[[], Scanned],
        asked: Callable[[Mapping[str, Any]], RunRequest],
        *,
        resume: bool = False,
        overwrite: bool = False,
    ) -> Ledger:
        """Begin a run in `storage`, or go on with the one that is there.

        `scan` is called where there are no partitions yet, before anything is written; `asked` gets
        the facts that the scan left, now or then. Raises RunFolderError where the flags do not fit
        what is there, where the run has another key, is damaged, or cannot be written; ArgumentError
        for a share of rejects that cannot be meant; whatever `scan` and `asked` raise.
        """
        record = check_flags(storage, resume=resume, overwrite=overwrite)
        if record is None or record.partitions_sha256 is None:
            scanned = scan()
            wanted = asked(scanned.facts)
            check_share(wanted.max_rejects)
            with telling_of_faults(storage):
                standing = begin(storage, wanted, scanned)
        else:
            wanted = asked(record.scan)
            check_share(wanted.max_rejects)
            check_key(storage, record.key, wanted.key)
            with telling_of_faults(storage):
                standing = go_on(storage, record, wanted)
        return cls(storage, standing, wanted.max_rejects)

    @property
    def record(self) -> RunRecord:
        """What `run.json` says."""
        return self._standing.record

    @property
    def rows_done(self) -> int:
        """The rows of the partitions that are done; `record.rows` are all."""
        return self._rows

    @property
    def pairs(self) -> int:
        """The pairs that are scored."""
        return self._judge.pairs

    @property
    def rejected(self) -> int:
        """The rows that are rejected."""
        return self._judge.rejected

    def missing(self) -> list[FilePart]:
        """The partitions that are not done, in order; none in a finished run."""
        parts = self._standing.partitions.parts
        return [part for number, part in enumerate(parts) if number not in self._lines]

    def done(self, *lines: Line) -> None:
        """Record that partitions are done; it is stored to stay when this returns.

        Of several lines of a partition the last one counts. Raises PairFileError where too many of
        the rows so far are rejects (the lines are stored, and a run that allows more goes on behind
        them); RunFolderError where a line is of no partition of this run, and where it cannot be
        stored.
        """
        numbers = [self._number(line) for line in lines]
        with telling_of_faults(self.storage, self._so_far()):
            self._manifest.add(lines)
        for number, line in zip(numbers, lines, strict=True):
            if (old := self._lines.get(number)) is not None:
                self._repeated.add(number)
                self._discount(number, old)
            self._lines[number] = line
            self._count(number, line)
        if self._judge.stops():
            raise PairFileError(too_many_rejects(self.storage, self._standing, self._judge))

    def finish(self) -> RunRecord:
        """End the run: one list of rejects, and the totals. Nothing where it has ended before.

        Raises RunFolderError where a partition is not done, or its part is not the one that was
        stored; PairFileError where too many rows are rejects, or no row is a pair.
        """
        if self.record.complete:
            return self.record
        if missing := self.missing():
            raise RunFolderError(
                f"{self.storage}: {len(missing):,} of {self.record.partitions:,} partitions are not "
                f"done, the first is {missing[0].name()}; --resume does them"
            )
        if self._judge.stops(at_end=True):
            raise PairFileError(too_many_rejects(self.storage, self._standing, self._judge))
        if not self._judge.pairs:
            raise PairFileError(not_one_pair(self.storage, self._standing, self._judge))
        with telling_of_faults(self.storage, self._so_far()):
            self._standing.record = end(self.storage, self._standing, self._repeated)
        return self.record

    def _number(self, line: Line) -> int:
        if self.record.complete:
            raise RunFolderError(f"{self.storage}: the run is finished; nothing can be added to it")
        if (number := number_of(line, self._standing)) is None:
            raise RunFolderError(
                f"{self.storage}: {line.partition!r} (line {line.first} of {line.file}) is no "
                "partition of this run; is another run's worker at work?"
            )
        return number

    def _count(self, number: int, line: Line) -> None:
        self._judge.take(line)
        self._rows += self._standing.partitions.parts[number].rows

    def _discount(self, number: int, line: Line) -> None:
        self._judge.drop(line)
        self._rows -= self._standing.partitions.parts[number].rows

    def _so_far(self) -> str:
        return f"{len(self._lines):,} of {self.record.partitions:,} partitions are done"
