"""What a run on a cluster would take: partitions counted, a sample measured, the rest worked out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from qt_bert.cluster.partitions import scan
from qt_bert.cluster.ray import Engine, available_cpus
from qt_bert.cluster.score import PartScorer, RayOptions, ScoreJob, rows_of
from qt_bert.codec import encode
from qt_bert.data.parts import FilePart
from qt_bert.errors import PairFileError

SAMPLE_ROWS, FIRST_ROWS = 512, 64
SAMPLE_SECONDS = 10.0
PLACES = 8
"""Partitions that the sample is taken from, spread over all."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run would take. `sample_rows` were scored in `sample_seconds` on one thread here."""

    files: int
    skipped: int
    partitions: int
    rows_per_partition: int
    rows: int
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
        turns = math.ceil(self.partitions / self.actors)
        return turns * (self.rows / self.partitions) / self.rate

    @property
    def machine_hours(self) -> float:
        """Hours of all machines, busy or not."""
        return self.machines * self.seconds / 3600

    def cost(self, price_per_hour: float) -> float:
        """In the currency of the price of a machine and hour."""
        return self.machine_hours * price_per_hour


def estimate(inputs: Sequence[str], job: ScoreJob, options: RayOptions) -> Estimate:
    """Scan `inputs`, score a sample of them in this process, and work out the rest.

    At an address the cluster is asked for its CPUs; no cluster is started. Nothing is written. Raises
    as `scan`, `PartScorer` and `Engine` do; PairFileError where the sample holds no pair.
    """
    machines, cpus = 1, available_cpus()
    if options.address is not None:
        with Engine(options.address) as engine:
            machines, cpus = engine.machines, engine.cpus
    actors = options.actors or cpus
    found = scan(inputs, job.reader, options.rows, job.model, actors)
    rows, seconds = _measured(replace(job, columns=found.columns), found.parts)
    return Estimate(
        files=len(found.files),
        skipped=found.skipped,
        partitions=len(found.parts),
        rows_per_partition=found.rows_per_partition,
        rows=found.rows,
        sample_rows=rows,
        sample_seconds=seconds,
        actors=min(actors, len(found.parts)),
        machines=machines,
    )


def _measured(job: ScoreJob, parts: Sequence[FilePart]) -> tuple[int, float]:
    """Pairs scored as an actor scores them, and the seconds that took: 512 of them or, where that would
    take more than 10 seconds, as many as these allow."""
    scorer = PartScorer(encode(job))
    places = min(PLACES, len(parts))
    taken = [
        rows_of(parts[number * len(parts) // places], job.reader)[0][: SAMPLE_ROWS // places]
        for number in range(places)
    ]
    texts = [(pair.query, pair.title) for pairs in taken for pair in pairs]
    if not texts:
        raise PairFileError("the sample holds no pair; `qt-bert check` says what the rows are")

    def seconds_of(rows: Sequence[tuple[str, str]]) -> float:
        started = time.perf_counter()
        scorer.outputs(scorer.scorer.fresh().logits(rows))
        return max(time.perf_counter() - started, 1e-6)

    first = texts[:FIRST_ROWS]
    fit = SAMPLE_SECONDS * len(first) / seconds_of(first)
    rows = texts[: max(len(first), min(len(texts), int(fit)))]
    return len(rows), seconds_of(rows)
