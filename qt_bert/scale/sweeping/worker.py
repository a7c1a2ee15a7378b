"""A sweep on a Ray cluster: shards go to actors, and their lines come back."""

from __future__ import annotations

import json
import platform
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.scale.cluster.cluster import Cluster, available_cpus, cluster, cpus_of
from qt_bert.scale.cluster.engine import Bounds, Task, run
from qt_bert.scale.partition.raised import plain
from qt_bert.scale.sweeping.filler import ShardFiller
from qt_bert.scale.sweeping.job import SweepJob
from qt_bert.scale.sweeping.shards import Shard, ShardFault, ShardLine, said_from_json


class SweepWorker:
    """A `ShardSweeper` that speaks JSON text."""

    def __init__(self, job: SweepJob) -> None:
        from qt_bert.scale.sweeping.sweeper import ShardSweeper

        self._sweeper = ShardSweeper(job)

    def answer(self, item: str) -> str:
        """Compute a shard; a line or a fault."""
        return json.dumps(self._sweeper.answer(json.loads(item)))


def fault_text(item: str, error: BaseException) -> str:
    """What a worker says of a shard for which it raised, or for which it could not be started."""
    fault = ShardFault(
        number=Shard.from_json(json.loads(item)).number,
        error=RunFolderError.__name__,
        message=f"{type(error).__name__}: {plain(str(error))}",
        node=platform.node(),
    )
    return json.dumps(fault.describe())


@dataclass(frozen=True)
class RaySweep:
    """Dispatches shards to actors of a cluster."""

    there: Cluster
    bounds: Bounds

    def dispatch(
        self, job: SweepJob, shards: Sequence[Shard]
    ) -> Generator[ShardLine | ShardFault, None, None]:
        """What the actors say of each shard, in any order; EngineError where Ray gives up."""
        items = [json.dumps(shard.describe()) for shard in shards]
        task = Task(SweepWorker, {"job": job}, fault_text)
        for start in range(0, len(items), self.bounds.round):
            for text in run(
                self.there, items[start : start + self.bounds.round], task, self.bounds
            ):
                yield said_from_json(json.loads(text))


@contextmanager
def sweeping(
    address: str | None = None, actors: int | None = None, model: str | None = None
) -> Iterator[ShardFiller]:
    """A `Filler` of `run_sweep` that works while the block runs.

    `address` of a cluster (None: a private one on this machine), `actors` of one CPU each (None: all
    its CPUs), `model` where every machine finds it (None: where it was opened). Raises ArgumentError
    as `cluster` does, and for a number of actors that cannot be meant.
    """
    if actors is not None and actors < 1:
        raise ArgumentError(f"--actors {actors}: give at least 1")
    with cluster(address, cpus=actors or available_cpus()) as there:
        known = cpus_of(there)
        bounds = Bounds(actors=actors or known)
        yield ShardFiller(RaySweep(there, bounds).dispatch, model)
