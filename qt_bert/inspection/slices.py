"""Logits of many pairs in slices, each short enough that no visitor waits long for it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from qt_bert.inspection.turns import SLICE_SECONDS, Job
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer

_AIM = 0.6 * SLICE_SECONDS
"""Seconds by the clock, which is what a visitor waits; slices of the same work differ."""
_LEAST = 0.2 * SLICE_SECONDS
"""Seconds of the thread's own work. Where other programs keep the machine busy a slice takes longer
by the clock, and ever smaller ones would only make the waits between them most of the time."""
_GROWTH = 2


def sliced_logits(
    scorer: Scorer, texts: Sequence[tuple[str, str]], job: Job, shown: Progress = silent
) -> np.ndarray:
    """Float32 logits [pair, output] of (query, title) pairs, in their order.

    The first slice holds one pair, the others as many as fit into their time at the rate of the one
    before. The longest come first, so that pairs of one length share a slice and the rate does not
    fall. `shown` counts pairs. Raises Stopped.
    """
    lengths = np.array([len(query) + len(title) for query, title in texts])
    order = np.argsort(-lengths, kind="stable")
    logits = np.empty((len(texts), scorer.checkpoint.settings.labels.logits), np.float32)
    at, size = 0, 1
    while at < len(order):
        rows = order[at : at + size]
        with job.slice():
            began, worked = time.perf_counter(), time.thread_time()
            logits[rows] = scorer.logits([texts[row] for row in rows])
            seconds, work = time.perf_counter() - began, time.thread_time() - worked
        at += len(rows)
        size = next_size(len(rows), seconds, work)
        shown.advance(len(rows))
    return logits


def next_size(pairs: int, seconds: float, work: float) -> int:
    """Pairs of the next slice, after one of `pairs` took `seconds`, of which the thread worked `work`.

    As many as fit, but enough to be worth a slice; one at least, and at most twice as many as before.
    """
    fit, worth = (
        pairs * most / max(took, 1e-6) for most, took in ((_AIM, seconds), (_LEAST, work))
    )
    return max(1, min(int(max(fit, worth)), _GROWTH * pairs))
