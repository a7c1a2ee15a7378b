"""What an actor says of a partition: a `Line` when it is finished, a `Fault` when it is not."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Literal, get_args

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.results.codec import decode, encode
from qt_bert.scale.ledger.layout import part_file

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


# Exact types, and not by `qt_bert.results.codec`: a run has a hundred thousand lines.
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
