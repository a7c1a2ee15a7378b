"""What a run on a cluster would take: partitions counted, a sample measured, the rest worked out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from qt_bert.cluster.partitions import Scan, scan
from qt_bert.cluster.ray import RayOptions, available_cpus, lent
from qt_bert.cluster.score import PartScorer, ScoreJob, rows_of
from qt_bert.codec import encode
from qt_bert.errors import PairFileError

SAMPLE_ROWS, ROWS_AT_A_TIME = 512, 64
SAMPLE_SECONDS = 10.0
PLACES = 8
"""Partitions that the sample is taken from, spread over all."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run of `scan` would take. `sample_rows` were scored in `sample_seconds` on one thread here."""

    scan: Scan
    sample_rows: int
    sample_seconds: float
    actors: int
    machines: int

    @property
    def rate(self) -> float:
        """Rows a second that one actor scores, if it is as fast as this machine's thread."""
        return self.sample_rows / self.sample_seconds

    @property
    def seconds(self) -> float:
        """Until the last partition is done; the actors take whole partitions."""
        partitions = len(self.scan.parts)
        return math.ceil(partitions / self.actors) * (self.scan.rows / partitions) / self.rate

    @property
    def machine_hours(self) -> float:
        """Hours of all machines, busy or not; times a price an hour it is the bill."""
        return self.machines * self.seconds / 3600


def estimate(inputs: Sequence[str], job: ScoreJob, options: RayOptions) -> Estimate:
    """Scan `inputs`, score a sample of them in this process, and work out the rest.

    At an address the cluster is asked for its CPUs or GPUs; no cluster is started. Nothing is written. The sample
    are 512 pairs or, where that would take more than ten seconds, as many as these allow. Raises as `scan`,
    `PartScorer` and `lent` do; PairFileError where the sample holds no pair.
    """
    gpus = int(job.device != "cpu")
    if options.address is not None:
        machines, room = lent(options.address, gpus)
    else:
        machines, room = 1, torch.cuda.device_count() if gpus else available_cpus()
    found = scan(inputs, job.reader, options.rows_per_partition)
    scorer = PartScorer(encode(replace(job, columns=found.columns)))
    places = min(PLACES, len(found.parts))
    taken = [found.parts[place * len(found.parts) // places] for place in range(places)]
    texts = [
        (pair.query, pair.title)
        for part in taken
        for pair in rows_of(part, job.reader)[0][: SAMPLE_ROWS // places]
    ]
    if not texts:
        raise PairFileError("the sample holds no pair; `qt-bert check` says what the rows are")

    started, rows, seconds = time.perf_counter(), 0, 0.0
    while rows < len(texts) and seconds < SAMPLE_SECONDS:
        batch = texts[rows : rows + ROWS_AT_A_TIME]
        scorer.outputs(scorer.scorer.fresh().logits(batch))
        rows, seconds = rows + len(batch), time.perf_counter() - started
    return Estimate(
        scan=found,
        sample_rows=rows,
        sample_seconds=seconds,
        actors=min(options.actors or room, len(found.parts)),
        machines=machines,
    )
