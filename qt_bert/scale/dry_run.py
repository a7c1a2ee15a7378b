"""What a scoring run would take: its partitions counted, a sample measured, the rest worked out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from qt_bert.errors import PairFileError
from qt_bert.pairs import Pair
from qt_bert.pairs.parts import Part
from qt_bert.scale.cluster.cluster import cluster
from qt_bert.scale.partition.halving import score_halving
from qt_bert.scale.partition.job import ScoreJob
from qt_bert.scale.score import RayOptions, actors_of, cut_inputs

SAMPLE_ROWS = 512
SAMPLE_SECONDS = 10.0
_FIRST_ROWS = 64
_PLACES = 8
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
    as `scan`, `PairModel`, `cluster` and `actors_of` do; PairFileError where the sample holds no pair.
    """
    actors, machines = _at_hand(options)
    found, rows = cut_inputs(inputs, job, options.rows, actors)
    job = replace(job, columns=found.columns)
    sample_rows, seconds = _measure(job, found.parts)
    return Estimate(
        files=len(found.files),
        skipped=found.skipped,
        partitions=len(found.parts),
        rows_per_partition=rows,
        rows=found.rows,
        sample_rows=sample_rows,
        sample_seconds=seconds,
        actors=min(actors, len(found.parts)),
        machines=machines,
    )


def _at_hand(options: RayOptions) -> tuple[int, int]:
    """Actors and machines."""
    if options.address is None:
        return actors_of(options, None), 1
    with cluster(options.address) as there:
        return actors_of(options, there), len(there.nodes)


def _measure(job: ScoreJob, parts: Sequence[Part]) -> tuple[int, float]:
    """Pairs scored as a worker scores them, and the seconds that took.

    512 of them or, where that would take more than 10 seconds, as many as these allow.
    """
    from qt_bert.scale.partition.made import texts_of
    from qt_bert.scale.partition.model import PairModel

    model = PairModel(job)
    texts = texts_of(_sample(job, parts))

    def seconds_of(rows: Sequence[tuple[str, str]]) -> float:
        started = time.perf_counter()
        model.outputs(score_halving(rows, model.answer, model.trial).logits)
        return max(time.perf_counter() - started, 1e-6)

    first = texts[:_FIRST_ROWS]
    fit = SAMPLE_SECONDS * len(first) / seconds_of(first)
    rows = texts[: max(len(first), min(len(texts), int(fit)))]
    return len(rows), seconds_of(rows)


def _sample(job: ScoreJob, parts: Sequence[Part]) -> list[Pair]:
    """Pairs from partitions spread over all, in turns; one window after the other would be of a day's
    hour."""
    from qt_bert.scale.partition.made import rows_of

    places = min(_PLACES, len(parts))
    chosen = [parts[number * len(parts) // places] for number in range(places)]
    taken = [rows_of(part, job)[0] for part in chosen]
    share = math.ceil(SAMPLE_ROWS / max(1, len(taken)))
    pairs = [pair for one in taken for pair in one[:share]]
    pairs += [pair for one in taken for pair in one[share:]][: max(0, SAMPLE_ROWS - len(pairs))]
    if not pairs:
        raise PairFileError("the sample holds no pair; `qt-bert check` says what the rows are")
    return pairs[:SAMPLE_ROWS]
