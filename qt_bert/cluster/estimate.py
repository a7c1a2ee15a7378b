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
from qt_bert.scoring.bulk import WINDOW
from qt_bert.scoring.judge import PairScorer

SAMPLE_ROWS, ROWS_AT_A_TIME = 512, 64
SAMPLE_SECONDS = 10.0
GPU_WINDOWS = 8
"""Windows of the sample on a GPU, its pairs over and over: small batches would not fill it."""
PLACES = 8
"""Partitions that the sample is taken from, spread over all."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run over `rows` would take: those of `scan`, or as many as were asked for.

    `sample_rows` were scored in `sample_seconds` by one worker on `device`: on `threads` threads of this
    machine, which then had taken `memory` bytes at most, and `gpu_memory` on the GPU. `workers` take
    `partitions` of the rows, whole ones: one takes all where there is no cluster.
    """

    scan: Scan
    rows: int
    sample_rows: int
    sample_seconds: float
    device: str
    threads: int
    memory: int
    gpu_memory: int | None
    partitions: int
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

    `options` are those of a cluster; without, this process would do it all. At an address the cluster is
    asked for its CPUs or GPUs; no cluster is started. `rows` stands for the number of rows there are.
    Nothing is written. The sample are 512 pairs or, where that would take more than ten seconds, as many
    as these allow, behind a first batch that is not timed. Raises as `scan` and `lent` do; PairFileError
    where the sample holds no pair.
    """
    device = scorer.describe()["device"]
    on_gpu = device != "cpu"
    machines = room = 1
    asked = options or RayOptions()
    if options is not None and options.address is not None:
        machines, room = lent(options.address, int(on_gpu))
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
    most, step = (GPU_WINDOWS * WINDOW, WINDOW) if on_gpu else (len(texts), ROWS_AT_A_TIME)
    stream = cycle(texts)
    scorer.logits(texts[:step])
    done, seconds, started = 0, 0.0, time.perf_counter()
    while done < most and seconds < SAMPLE_SECONDS:
        batch = list(islice(stream, min(step, most - done)))
        scorer.logits(batch)
        done, seconds = done + len(batch), time.perf_counter() - started
    total = found.rows if rows is None else rows
    if options is None:
        partitions = 1
    elif rows is None:
        partitions = len(found.parts)
    else:
        partitions = math.ceil(rows / asked.rows_per_partition)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Estimate(
        scan=found,
        rows=total,
        sample_rows=done,
        sample_seconds=seconds,
        device=device,
        threads=torch.get_num_threads(),
        memory=peak if sys.platform == "darwin" else peak * 1024,
        gpu_memory=torch.cuda.max_memory_reserved()
        if on_gpu and torch.cuda.is_available()
        else None,
        partitions=partitions,
        workers=min(asked.actors or room, partitions),
        machines=machines,
    )
