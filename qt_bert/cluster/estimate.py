"""What a run of `score` would take, on any engine: rows counted, a sample measured, the rest worked out."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import torch

from qt_bert.cluster.partitions import Scan, scan
from qt_bert.cluster.ray import RayOptions, available_cpus, lent
from qt_bert.cluster.score import rows_of
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import PairFileError
from qt_bert.scoring.judge import PairScorer

SAMPLE_ROWS, FIRST_ROWS = 512, 16
SAMPLE_SECONDS = 2.0
PLACES = 8
"""Partitions that the sample is taken from, spread over all."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run over `rows` would take: those of `scan`, or as many as were asked for.

    `sample_rows` were scored in `sample_seconds` by one worker on `device` of this machine, which then
    had taken `memory` bytes at most, and `gpu_memory` on the GPU. `workers` take whole `partitions`.
    """

    scan: Scan
    rows: int
    partitions: int
    sample_rows: int
    sample_seconds: float
    device: str
    memory: int
    gpu_memory: int
    workers: int
    machines: int

    @property
    def rate(self) -> float:
        """Rows a second that one worker scores, if it is as fast as this machine."""
        return self.sample_rows / self.sample_seconds

    @property
    def seconds(self) -> float:
        """Until the last partition is done."""
        turns = math.ceil(self.partitions / self.workers)
        return turns * (self.rows / self.partitions) / self.rate

    @property
    def machine_hours(self) -> float:
        """Hours of all machines, busy or not; times a price an hour it is the bill."""
        return self.machines * self.seconds / 3600


def estimate(
    inputs: Sequence[str],
    reader: ReaderOptions,
    scorer: PairScorer,
    options: RayOptions | None = None,
    *,
    rows: int | None = None,
) -> Estimate:
    """Scan `inputs`, score a sample of them in this process with `scorer`, and work out the rest.

    `options` are those of a cluster, which is asked for its CPUs or GPUs but not started; without, this
    process would do it all. `rows` stands for the rows there are. 512 pairs are scored over and over,
    twice as many each time, until it takes two seconds: a GPU is filled, and the first rounds warm up.
    Raises as `scan` and `lent` do; PairFileError where the sample holds no pair.
    """
    device = scorer.describe()["device"]
    on_gpu = device != "cpu"
    machines = room = 1
    asked = options or RayOptions()
    if asked.address is not None:
        machines, room = lent(asked.address, int(on_gpu))
    elif options is not None:
        room = torch.cuda.device_count() if on_gpu else available_cpus()
    found = scan(inputs, reader, asked.rows_per_partition)
    places = min(PLACES, len(found.parts))
    taken = [found.parts[place * len(found.parts) // places] for place in range(places)]
    texts = [
        (pair.query, pair.title)
        for part in taken
        for pair in rows_of(part, reader)[0][: SAMPLE_ROWS // places]
    ]
    if not texts:
        raise PairFileError("the sample holds no pair; `qt-bert check` says what the rows are")
    done, seconds = FIRST_ROWS, 0.0
    while seconds < SAMPLE_SECONDS:
        done *= 2
        started = time.perf_counter()
        scorer.logits(list(islice(cycle(texts), done)))
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = rows or found.rows
    # Of rows that are not there yet it is not known how files would part them.
    partitions = math.ceil(rows / asked.rows_per_partition) if rows else len(found.parts)
    return Estimate(
        scan=found,
        rows=total,
        partitions=partitions,
        sample_rows=done,
        sample_seconds=seconds,
        device=device,
        memory=peak if sys.platform == "darwin" else peak * 1024,
        gpu_memory=torch.cuda.max_memory_reserved(),
        workers=min(asked.actors or room, partitions),
        machines=machines,
    )
