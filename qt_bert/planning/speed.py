"""How fast a smaller model is against its teacher: both in one run, in turns, texts to logits.

Times on a shared machine drift; the two models take turns within a fraction of a second, and only
their ratio is kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.results.plan_evidence import Ratio, Speed
from qt_bert.scoring.bulk import Scorer

Texts = Sequence[tuple[str, str]]


class Scores(Protocol):
    """What is timed: a scorer of any kind."""

    def logits(self, pairs: Texts) -> np.ndarray:
        """Logits [pair, output]."""


WARM_UP, ROUNDS, BULK_ROUNDS = 3, 3, 5
SECONDS, LEAST_PAIRS = 4.0, 8
LEAST_FOR_INTERVAL = 5
"""Times whose smallest and largest are about a 95 % interval of their median; fewer have none."""

RESAMPLES = 1000


def measure_speed(
    teacher: Scorer, smaller: Scorer, texts: Texts, *, alone: int, seed: int = 0
) -> Speed:
    """Latency on `alone` of the pairs, one at a time, and throughput on all of `texts`.

    The latency's ratio is a median over pairs, each timed ROUNDS times by both models; its interval
    is a bootstrap over pairs, that of the throughput over BULK_ROUNDS runs. Either ends early, with
    fewer pairs or runs, once it has taken SECONDS; fewer than LEAST_FOR_INTERVAL have no interval.
    """
    scorers = teacher.fresh(), smaller.fresh()
    single = spread(texts, alone)
    # In no order of length, as the longest may never come.
    order = np.random.default_rng(seed).permutation(len(single))
    for text in single[:WARM_UP]:
        for scorer in scorers:
            scorer.logits([text])
    alone_runs = (in_turns(scorers, [single[place]], ROUNDS).min(0) for place in order)
    seconds = in_time(alone_runs, LEAST_PAIRS)
    bulk = in_time((in_turns(scorers, texts, 1, turn)[0] for turn in range(BULK_ROUNDS)), 2)
    return Speed(
        latency=ratio(seconds[:, 1] / seconds[:, 0], seed),
        throughput=ratio(bulk[:, 0] / bulk[:, 1], seed),
        teacher_ms=float(1000 * np.median(seconds[:, 0])),
        pairs=len(seconds),
        bulk_pairs=len(texts),
    )


def in_time(runs: Iterator[FloatArray], least: int) -> FloatArray:
    """The runs [n, models] until they have taken SECONDS, at least `least` of them."""
    found: list[FloatArray] = []
    start = time.perf_counter()
    for run in runs:
        found.append(run)
        if len(found) >= least and time.perf_counter() - start > SECONDS:
            break
    return np.array(found)


def in_turns(scorers: Sequence[Scores], texts: Texts, rounds: int, first: int = 0) -> FloatArray:
    """Seconds of each model [rounds, models]; who goes first changes from round to round."""
    count = len(scorers)
    seconds = np.empty((rounds, count))
    for turn in range(rounds):
        for place in ((first + turn + step) % count for step in range(count)):
            start = time.perf_counter()
            scorers[place].logits(texts)
            seconds[turn, place] = time.perf_counter() - start
    return seconds


def spread(texts: Texts, count: int) -> list[tuple[str, str]]:
    """At most `count` of the texts, of all lengths alike."""
    ordered = sorted(texts, key=lambda text: len(text[0]) + len(text[1]))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round())
    return [ordered[int(place)] for place in places]


def ratio(ratios: FloatArray, seed: int) -> Ratio:
    """The median with its bootstrap interval, where there are enough ratios for one."""
    value = float(np.median(ratios))
    if len(ratios) < LEAST_FOR_INTERVAL:
        return Ratio(value=value, low=None, high=None)
    drawn = np.random.default_rng(seed).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    ends = percentile_interval(np.median(ratios[drawn], axis=1))
    low, high = ends if ends is not None else (None, None)
    return Ratio(value=value, low=low, high=high)
