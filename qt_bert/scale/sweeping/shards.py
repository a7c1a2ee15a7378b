"""Shards of a sweep: runs of its batches that a worker computes at a time, and what it says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from qt_bert import errors
from qt_bert.errors import QtBertError
from qt_bert.results.codec import decode, encode

SHARD_RUNS = 4096
"""Variants × pairs of a shard: some ten seconds of one core with the model that ships."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive batches of a sweep, each as the places of its pairs.

    `number` counts the shards from 0; `first` is how many batches lie before it.
    """

    number: int
    first: int
    batches: tuple[tuple[int, ...], ...]

    @property
    def rows(self) -> tuple[int, ...]:
        """The places of its pairs, in the order of its logits."""
        return tuple(row for batch in self.batches for row in batch)

    @property
    def end(self) -> int:
        """How many batches lie before the shard behind it."""
        return self.first + len(self.batches)

    def describe(self) -> dict[str, Any]:
        """As plain data."""
        return dict(encode(self))

    @classmethod
    def from_json(cls, value: Any) -> Shard:
        """The shard that `describe` gave. Raises RunFolderError for anything else."""
        shard: Shard = decode(cls, value, "shard")
        return shard


def cut_shards(batches: Iterable[Sequence[int]], variants: int, runs: int) -> list[Shard]:
    """Batches, as places of pairs, in shards: each ends with the batch that makes it `runs` runs."""
    shards: list[Shard] = []
    first, held = 0, 0
    gathered: list[tuple[int, ...]] = []
    for batch in batches:
        gathered.append(tuple(int(row) for row in batch))
        held += variants * len(batch)
        if held >= runs:
            shards.append(Shard(len(shards), first, tuple(gathered)))
            first, held, gathered = first + len(gathered), 0, []
    if gathered:
        shards.append(Shard(len(shards), first, tuple(gathered)))
    return shards


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLine:
    """A finished shard, whose logits lie in the sweep's folder.

    `job` is the identity of the job that it belongs to, `rows` are the shard's, `sha256` is the hash
    of the logits' file.
    """

    kind: ClassVar[str] = "shard"
    number: int
    job: str
    rows: tuple[int, ...]
    sha256: str
    seconds: float
    node: str

    def describe(self) -> dict[str, Any]:
        """As plain data."""
        return dict(encode(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFault:
    """Why a shard was not computed: the name of a class of `qt_bert.errors`, and its message."""

    kind: ClassVar[str] = "shard-fault"
    number: int
    error: str
    message: str
    node: str

    def raised(self) -> QtBertError:
        """The error as it was raised on the worker's machine."""
        found = getattr(errors, self.error, QtBertError)
        known = isinstance(found, type) and issubclass(found, QtBertError)
        return (found if known else QtBertError)(f"{self.message} (on {self.node})")

    def describe(self) -> dict[str, Any]:
        """As plain data."""
        return dict(encode(self))


def said_from_json(value: Any, where: str = "shard") -> ShardLine | ShardFault:
    """What `describe` of either gave. Raises RunFolderError, naming `where`, for anything else."""
    said: ShardLine | ShardFault = decode(ShardLine | ShardFault, value, where)
    return said
