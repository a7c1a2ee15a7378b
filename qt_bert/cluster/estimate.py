"""Estimate the time of a `score` run on any engine: count the rows, time a sample, extrapolate."""

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
from qt_bert.cluster.ray import RayOptions, available_cpus, cluster_size
from qt_bert.cluster.score import rows_of
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import PairFileError
from qt_bert.scoring.judge import PairScorer

SAMPLE_ROWS, FIRST_ROWS = 512, 16
SAMPLE_SECONDS = 2.0
PLACES = 8
"""Partitions that the sample is from, spread over all."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimate for a run over `rows`: those of `scan`, or as many as requested.

    `sample_rows` were scored in `sample_seconds` by one worker on `device` of this machine, at a peak of
    `memory` bytes, and `gpu_memory` on the GPU. `workers` score whole `partitions`.
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
        """Rows a second of one worker, if it is as fast as this machine."""
        return self.sample_rows / self.sample_seconds

    @property
    def seconds(self) -> float:
        """Seconds until the last partition is done."""
        rounds = math.ceil(self.partitions / self.workers)
        return rounds * (self.rows / self.partitions) / self.rate

    @property
    def machine_hours(self) -> float:
        """Hours of all machines, busy or idle."""
        return self.machines * self.seconds / 3600


def estimate(
    inputs: Sequence[str],
    reader: ReaderOptions,
    scorer: PairScorer,
    options: RayOptions | None = None,
    *,
    rows: int | None = None,
) -> Estimate:
    """Scan `inputs`, time a sample of them in this process with `scorer`, and extrapolate.

    `options` are those of a cluster, whose CPUs or GPUs are counted; without them, this process would do
    it all. `rows` replaces the number of rows. Up to 512 pairs are scored repeatedly, twice as many each
    time, until a round takes two seconds: this fills a GPU, and the first rounds warm up. Raises as `scan`
    and `cluster_size`; PairFileError for a sample without pairs.
    """
    device = scorer.describe()["device"]
    on_gpu = device != "cpu"
    machines = capacity = 1
    ray = options or RayOptions()
    if ray.address is not None:
        machines, capacity = cluster_size(ray.address, int(on_gpu))
    elif options is not None:
        capacity = torch.cuda.device_count() if on_gpu else ray.actors or available_cpus()
    scanned = scan(inputs, reader, ray.rows_per_partition)
    places = min(PLACES, len(scanned.parts))
    sample = [scanned.parts[place * len(scanned.parts) // places] for place in range(places)]
    texts = [
        (pair.query, pair.title)
        for part in sample
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
    # How files would divide other rows is unknown.
    partitions = math.ceil(rows / ray.rows_per_partition) if rows else len(scanned.parts)
    return Estimate(
        scan=scanned,
        rows=rows or scanned.rows,
        partitions=partitions,
        sample_rows=done,
        sample_seconds=seconds,
        device=device,
        memory=peak if sys.platform == "darwin" else peak * 1024,
        gpu_memory=torch.cuda.max_memory_reserved(),
        workers=min(ray.actors or capacity, capacity, partitions),
        machines=machines,
    )
