"""What a run writes of itself: its record, partitions, lines, manifest, totals, rejects."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from sys import intern
from typing import Any, ClassVar, Literal, get_args

from qt_bert.cluster.storage import (
    MANIFEST,
    PARTITIONS,
    REJECTS_LIST,
    RUN,
    Storage,
    part_file,
    rejects_file,
)
from qt_bert.codec import decode, encode
from qt_bert.data.pairs import Reject
from qt_bert.data.parts import FilePart
from qt_bert.data.reader import JUDGED_EVERY, one_line, too_many
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.sources import installed_versions

# What an actor says of a partition: a `Line` when it is finished, a `Fault` when it is not.


How = Literal["whole", "halved", "alone"]
"""How a partition was scored: as one, in halves around a row that raises, or in a process apart."""

FaultKind = Literal["input", "disk", "memory", "model", "program"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutFile:
    """The part file of a partition: its name below the run folder, its size and hash."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesRead:
    """Pairs whose title's states were read, and those computed whole: for a long query, or for a
    title without states."""

    read: int = 0
    long_queries: int = 0
    unknown_titles: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A finished partition: a line of the manifest.

    `partition` is the part's name; `file`, `first`, `rows` and `input_sha256` are the part's own.
    `reasons` counts the rejects by reason. `part` is None where no row of it is a pair. `attempt`
    counts from 1. Raises ArgumentError for counts that contradict each other.
    """

    partition: str
    file: str
    first: int
    rows: int
    input_sha256: str
    model_sha256: str
    pairs: int
    reasons: dict[str, int] = field(default_factory=dict)
    truncated_titles: int = 0
    truncated_queries: int = 0
    bad_grades: int = 0
    states: StatesRead | None = None
    part: OutFile | None
    seconds: float
    node: str
    attempt: int = 1
    how: How = "whole"

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise ArgumentError(f"a partition is not scored {self.how!r}")
        if any(type(count) is not int for count in self.reasons.values()):
            raise ArgumentError(f"no counts of rejects: {self.reasons}")
        counts = (self.pairs, *self.reasons.values(), self.truncated_titles)
        if min(*counts, self.truncated_queries, self.bad_grades, self.seconds) < 0:
            raise ArgumentError("a count below 0")
        if not math.isfinite(self.seconds):
            raise ArgumentError(f"{self.seconds} seconds")
        if self.attempt < 1:
            raise ArgumentError(f"attempt {self.attempt}; the first one is 1")
        if self.pairs + self.rejected > self.rows:
            raise ArgumentError(
                f"{self.pairs} pairs and {self.rejected} rejects in {self.rows} rows"
            )
        if (self.part is None) != (self.pairs == 0):
            raise ArgumentError(f"{self.pairs} pairs, but part file {self.part}")
        if self.part is not None and self.part.name != part_file(self.partition):
            raise ArgumentError(f"the part file {self.part.name} is not that of {self.partition}")

    @property
    def rejected(self) -> int:
        """Rows that were rejected, for whatever reason."""
        return sum(self.reasons.values())

    def describe(self) -> dict[str, Any]:
        """As plain data; with the number of rejects, for whoever reads the manifest."""
        return encode(self) | {"rejected": self.rejected}

    @classmethod
    def from_json(cls, value: Any, where: str = "line") -> Line:
        """The line that `describe` gave. Raises RunFolderError, naming `where`, for anything else."""
        fields = _fitting(_LINE, value, where)
        part, states = fields["part"], fields["states"]
        if part is not None:
            fields["part"] = OutFile(**_fitting(_OUT_FILE, part, f"{where}: part"))
        if states is not None:
            fields["states"] = StatesRead(**_fitting(_STATES, states, f"{where}: states"))
        for name in _SHARED:
            fields[name] = intern(fields[name])
        try:
            line = cls(**fields)
        except ArgumentError as error:
            raise RunFolderError(f"{where}: {error}") from error
        if value.get("rejected") != line.rejected:
            raise RunFolderError(
                f"{where}: 'rejected' is {value.get('rejected')!r}, its reasons say {line.rejected}"
            )
        return line


# Exact types, and not by `qt_bert.codec`: a run has a hundred thousand lines.
_Types = dict[str, tuple[type, ...]]
_SHARED = ("partition", "file", "input_sha256", "model_sha256", "node", "how")
_STATES: _Types = dict.fromkeys(("read", "long_queries", "unknown_titles"), (int,))
_OUT_FILE: _Types = {"name": (str,), "bytes": (int,), "sha256": (str,)}
_LINE: _Types = {
    **dict.fromkeys(_SHARED, (str,)),
    **dict.fromkeys(("first", "rows", "pairs", "bad_grades", "attempt"), (int,)),
    **dict.fromkeys(("truncated_titles", "truncated_queries"), (int,)),
    "reasons": (dict,),
    "states": (dict, type(None)),
    "part": (dict, type(None)),
    "seconds": (float, int),
}


def _fitting(types: _Types, value: Any, where: str) -> dict[str, Any]:
    """The fields that are asked for, each of its type. Raises RunFolderError."""
    if type(value) is not dict:
        raise RunFolderError(f"{where}: no object, but {str(value)[:60]!r}")
    for name, kinds in types.items():
        if name not in value:
            raise RunFolderError(f"{where}: the key {name!r} is missing")
        if type(value[name]) not in kinds:
            raise RunFolderError(f"{where}: {name!r} cannot be {str(value[name])[:60]!r}")
    return {name: value[name] for name in types}


# No slots: a class attribute `kind` would be taken for the codec's tag.
@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why a partition is not finished. `again` says whether another attempt may go better."""

    partition: str
    kind: FaultKind
    message: str
    again: bool
    node: str = ""
    attempt: int = 1

    def describe(self) -> dict[str, Any]:
        """As plain data."""
        return dict(encode(self))

    @classmethod
    def from_json(cls, value: Any, where: str = "fault") -> Fault:
        """The fault that `describe` gave. Raises RunFolderError, naming `where`, for anything else."""
        found: Fault = decode(cls, value, where)
        return found


def to_text(said: Line | Fault) -> str:
    """One line of JSON, without its end. Half characters, which no file can hold, become `?`."""
    text = json.dumps(said.describe(), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode()


def from_text(text: str, where: str = "line") -> Line | Fault:
    """What `to_text` wrote. Raises RunFolderError, naming `where`, for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{where}: no JSON ({error})") from error
    if isinstance(value, Mapping) and "kind" in value:
        return Fault.from_json(value, where)
    return Line.from_json(value, where)


# The partitions of a run, one a line, written once; `run.json` holds their hash.


_SHARED_PARTITION = ("name", "file", "sha256", "encoding", "header")
_ADVICE = "fetch the file anew, or start anew with --overwrite"


@dataclass(frozen=True)
class Partitions:
    """The parts of a run in order, and the number of each by its name."""

    parts: Sequence[FilePart]
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, parts: Sequence[FilePart]) -> Partitions:
        """Raises ArgumentError where two parts are the same."""
        return cls._named(parts, [part.name() for part in parts])

    @classmethod
    def _named(cls, parts: Sequence[FilePart], names: Sequence[str]) -> Partitions:
        numbers = {name: number for number, name in enumerate(names)}
        if len(numbers) != len(parts):
            raise ArgumentError("two partitions are the same rows of the same file")
        return cls(parts, numbers)

    def write(self, storage: Storage) -> str:
        """Store them, atomically; the SHA-256 of the file. Raises OSError."""
        digest = hashlib.sha256()

        def lines() -> Iterator[bytes]:
            for name, part in zip(self.numbers, self.parts, strict=True):
                value = {"name": name} | part.describe()
                line = (json.dumps(value, ensure_ascii=False) + "\n").encode()
                digest.update(line)
                yield line

        storage.write(PARTITIONS, lines())
        return digest.hexdigest()

    @classmethod
    def read(cls, storage: Storage, sha256: str) -> Partitions:
        """What was stored. Raises RunFolderError where it is missing or another one."""
        where = f"{storage}/{PARTITIONS}"
        try:
            with storage.open(PARTITIONS) as handle:
                if hashlib.file_digest(handle, "sha256").hexdigest() != sha256:  # type: ignore[arg-type]
                    raise RunFolderError(f"{where}: not the partitions of this run; {_ADVICE}")
            with storage.open(PARTITIONS) as handle:
                found = list(_named_parts(handle))
        except FileNotFoundError as error:
            raise RunFolderError(f"{where}: missing; {_ADVICE}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise RunFolderError(f"{where}: not of this program ({error}); {_ADVICE}") from error
        return cls._named([part for _, part in found], [name for name, _ in found])


def _named_parts(lines: Iterable[bytes]) -> Iterator[tuple[str, FilePart]]:
    """Texts that parts, or a part and its line, have in common are kept once."""
    for line in lines:
        value = json.loads(line)
        for key in _SHARED_PARTITION:
            if isinstance(text := value[key], str):
                value[key] = intern(text)
        yield value.pop("name"), FilePart.from_json(value)


# The manifest of a run: finished partitions, in numbered files that are only ever added to.
#
# `manifest/000001.jsonl` and so on, in this order. Where files can grow, a run has one of its own;
# elsewhere each batch of lines is a file. A line without its end was cut by a kill and never
# counted.


_FILE = re.compile(r"(\d{6,})\.jsonl")


class Manifest:
    """The lines that are stored in `storage`, and those to come."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._next = 1 + max(self._numbers(), default=0)

    def __iter__(self) -> Iterator[tuple[str, Line]]:
        """Each line, behind the place where it stands. Raises RunFolderError for a damaged one."""
        for number in sorted(self._numbers()):
            name = _name(number)
            with self._storage.open(name) as handle:
                for at, raw in enumerate(handle, start=1):
                    if raw.endswith(b"\n"):
                        where = f"{self._storage}/{name}, line {at}"
                        yield where, _line(raw, where)

    def add(self, lines: Iterable[Line]) -> None:
        """Store lines; they are there to stay when this returns. Raises OSError."""
        data = "".join(to_text(line) + "\n" for line in lines).encode()
        name = _name(self._next)
        if not self._storage.appends:
            self._storage.write(name, [data])
            self._next += 1
            return
        try:
            self._storage.append(name, data)
        except BaseException:
            self._next += 1  # half a line may stand there; nothing may come behind it
            raise

    def _numbers(self) -> list[int]:
        found = (_FILE.fullmatch(name) for name in self._storage.sizes(MANIFEST))
        return [int(match[1]) for match in found if match]


def _name(number: int) -> str:
    return f"{MANIFEST}/{number:06}.jsonl"


def _line(raw: bytes, where: str) -> Line:
    try:
        said = from_text(raw.decode("utf-8"), where)
    except (RunFolderError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{_damaged(where)} ({error})") from error
    if isinstance(said, Fault):
        raise RunFolderError(f"{_damaged(where)} (a fault, which is never stored)")
    return said


def _damaged(where: str) -> str:
    return (
        f"{where}: damaged; put the file back as it was, or take this line out, so that --resume "
        "does its partition again (a finished run with rejects needs all lines), or start anew with "
        "--overwrite"
    )


# What the finished partitions of a run add up to, and whether too many of its rows are no pairs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over partitions. `seconds` are those of all workers together; `how` counts partitions."""

    pairs: int = 0
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    truncated_titles: int = 0
    truncated_queries: int = 0
    bad_grades: int = 0
    states: StatesRead | None = None
    bytes: int = 0
    seconds: float = 0.0
    how: dict[str, int] = field(default_factory=dict)


def totals_of(lines: Iterable[Line]) -> Totals:
    """The sums over `lines`; reasons by frequency, the same lines in any order giving the same."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    how: Counter[str] = Counter()
    states: Counter[str] | None = None
    seconds = []
    for line in lines:
        for name in _COUNTS:
            counts[name] += getattr(line, name)
        counts["bytes"] += line.part.bytes if line.part else 0
        reasons.update(line.reasons)
        how[line.how] += 1
        seconds.append(line.seconds)
        if line.states is not None:
            states = states if states is not None else Counter()
            states.update({name: getattr(line.states, name) for name in _TOTAL_STATES})
    return Totals(
        **counts,
        reasons=_by_frequency(reasons),
        how=_by_frequency(how),
        seconds=round(math.fsum(seconds), 3),
        states=None if states is None else StatesRead(**states),
    )


_COUNTS = ("pairs", "rejected", "truncated_titles", "truncated_queries", "bad_grades")
_TOTAL_STATES = ("read", "long_queries", "unknown_titles")


def _by_frequency(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class Judge:
    """Counts pairs and rejects while a run goes, and says when there are too many of the latter."""

    def __init__(self, max_rejects: float) -> None:
        self.max_rejects = max_rejects
        self.pairs = 0
        self.reasons: Counter[str] = Counter()
        self._judged = 0

    @property
    def rejected(self) -> int:
        """The rejects so far."""
        return self.reasons.total()

    @property
    def rows(self) -> int:
        """The rows so far that are a pair or a reject."""
        return self.pairs + self.rejected

    def take(self, line: Line) -> None:
        """Count a partition."""
        self.pairs += line.pairs
        self.reasons.update(line.reasons)

    def drop(self, line: Line) -> None:
        """Count a partition no more."""
        self.pairs -= line.pairs
        self.reasons.subtract(line.reasons)
        self.reasons = +self.reasons

    def stops(self, *, at_end: bool = False) -> bool:
        """Whether the run is to stop; judged at the end, and every 10,000 rows."""
        if not at_end and self.rows - self._judged < JUDGED_EVERY:
            return False
        self._judged = self.rows
        return too_many(self.rejected, self.rows, self.max_rejects)

    def most(self, kinds: int = 10) -> Counter[str]:
        """The reasons, the rarest as one where there are more than `kinds`."""
        found = _by_frequency(self.reasons)
        kept = Counter(dict(list(found.items())[:kinds]))
        if rest := self.rejected - kept.total():
            kept["others"] = rest
        return kept


# `run.json` of a scoring run in partitions, and what the flags say to a folder that holds one.


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


# The rejects of a run: a list for each partition while it goes, one list in its end.


HEADER = b"file\tline\treason\ttext\n"


def rejects_table(file: str, rejects: Iterable[Reject]) -> bytes:
    """The list of a partition's rejects, as it lies in `rejects/`; tabs and line breaks are spaces."""
    rows = (
        f"{one_line(file)}\t{r.line}\t{one_line(r.reason)}\t{one_line(r.text)}\n" for r in rejects
    )
    return HEADER + "".join(rows).encode("utf-8", "backslashreplace")


def wrong_rejects(storage: Storage, line: Line) -> str | None:
    """What is wrong with the list of a partition that has rejects; None where it is whole.

    Raises OSError where it is there and cannot be read.
    """
    name = rejects_file(line.partition)
    try:
        with storage.open(name) as handle:
            rows = sum(1 for row in handle if row.endswith(b"\n")) - 1
    except FileNotFoundError:
        return f"{name} is missing"
    if rows != line.rejected:
        return f"{name} holds {max(rows, 0):,} rejects, where {line.rejected:,} were found"
    return None


def joined_rejects(storage: Storage, lines: Mapping[int, Line]) -> Iterator[bytes]:
    """The bytes of the one list, in the order of the partitions.

    Raises RunFolderError where the list of a partition is missing or not as long as its line says.
    """
    yield HEADER
    for _, line in sorted(lines.items()):
        if not line.rejected:
            continue
        if wrong := wrong_rejects(storage, line):
            raise RunFolderError(f"{storage}: {wrong}; --resume does its partition again")
        with storage.open(rejects_file(line.partition)) as handle:
            yield from islice(handle, 1, None)


def part_rejects(storage: Storage, lines: Mapping[int, Line], again: Iterable[int]) -> None:
    """Take the one list apart again, but for the partitions that are done `again`.

    It must be the very list that `joined_rejects` gave for `lines`.
    """
    left_out = set(again)
    with storage.open(REJECTS_LIST) as handle:
        rows = islice(handle, 1, None)
        for number in sorted(lines):
            line = lines[number]
            mine = list(islice(rows, line.rejected))
            if mine and number not in left_out:
                storage.write(rejects_file(line.partition), [HEADER, *mine])


def first_reject(storage: Storage, lines: Mapping[int, Line]) -> tuple[str, str, str] | None:
    """File, line and text of the first reject in the order of the partitions; None where none."""
    number = min((n for n, line in lines.items() if line.rejected), default=None)
    if number is None:
        return None
    try:
        with storage.open(rejects_file(lines[number].partition)) as handle:
            row = next(islice(handle, 1, None), b"").decode("utf-8", "replace")
    except OSError:
        return None
    cells = row.rstrip("\n").split("\t")
    return (cells[0], cells[1], cells[3]) if len(cells) == 4 else None
