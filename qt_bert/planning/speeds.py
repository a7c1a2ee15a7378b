"""Speed: of a smaller model against its teacher, and of one query by percentiles.

Times on a shared machine drift, so models alternate within a fraction of a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from qt_bert.results.plan import Ratio
from qt_bert.scoring.judge import PairScorer
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import percentile_interval

TextPairs = Sequence[tuple[str, str]]

SECONDS, LEAST_REQUESTS = 4.0, 3
LEAST_FOR_INTERVAL = 5
"""Fewer ratios have no interval: of five, the extremes are about a 95 % interval of the median."""

RESAMPLES = 1000


def requests_of(texts: TextPairs, titles: int, count: int, seed: int = 0) -> list[TextPairs]:
    """`count` queries with `titles` titles each, drawn from the texts: the query's own, then others."""
    rng = np.random.default_rng(seed)
    own: dict[str, list[str]] = {}
    for query, title in texts:
        own.setdefault(query, []).append(title)
    requests: list[TextPairs] = []
    for place in rng.permutation(max(count, len(own)))[:count] % len(own):
        query = list(own)[place]
        others = [texts[row][1] for row in rng.integers(len(texts), size=titles)]
        requests.append([(query, title) for title in (own[query] + others)[:titles]])
    return requests


def seconds_of(scorers: Sequence[PairScorer], requests: Sequence[TextPairs]) -> FloatArray:
    """Seconds of each request [requests, scorers], in turns after a warm-up; it ends early after SECONDS
    a model, with at least LEAST_REQUESTS."""
    in_turns(scorers, requests[0], 1)
    rows, start = list[FloatArray](), time.perf_counter()
    for turn, request in enumerate(requests):
        rows.append(in_turns(scorers, request, 1, turn)[0])
        if len(rows) >= LEAST_REQUESTS and time.perf_counter() - start > SECONDS * len(scorers):
            break
    return np.array(rows)


def in_turns(
    scorers: Sequence[PairScorer], texts: TextPairs, rounds: int, first: int = 0
) -> FloatArray:
    """Seconds of each model [rounds, models]; the first model changes from round to round."""
    count = len(scorers)
    seconds = np.empty((rounds, count))
    for turn in range(rounds):
        for place in ((first + turn + step) % count for step in range(count)):
            start = time.perf_counter()
            scorers[place].logits(texts)
            seconds[turn, place] = time.perf_counter() - start
    return seconds


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """torch runs on `count` threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ratio(ratios: FloatArray, seed: int) -> Ratio:
    """The median with its bootstrap interval, if there are LEAST_FOR_INTERVAL ratios."""
    value = float(np.median(ratios))
    if len(ratios) < LEAST_FOR_INTERVAL:
        return Ratio(value=value, low=None, high=None)
    drawn = np.random.default_rng(seed).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    ends = percentile_interval(np.median(ratios[drawn], axis=1))
    low, high = ends if ends is not None else (None, None)
    return Ratio(value=value, low=low, high=high)
