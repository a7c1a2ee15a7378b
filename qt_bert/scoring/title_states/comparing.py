"""What reading title states changes: beside the same model computing every pair whole."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from qt_bert.encoder import ModelLabels
from qt_bert.evaluation import compare
from qt_bert.evaluation.comparison import Difference
from qt_bert.pairs import Pair, ReaderOptions
from qt_bert.progress import progress
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import default_scheme, judge_logits

METRICS = ("accuracy", "qwk", "spearman", "ndcg_at_5")

SAMPLE = 512
"""Pairs that the smaller formats are held against the whole model on, where nobody asks for all."""


@dataclass(frozen=True)
class WholeComparison:
    """`largest` difference of a logit over `pairs` pairs.

    `metrics` has some metrics on the `graded` of them, paired as `qt-bert compare` does it, the whole
    model being A; empty where there is no grade.
    """

    pairs: int
    largest: float
    graded: int
    metrics: Mapping[str, Difference]


def compare_whole(
    path: Path, options: ReaderOptions, scorer: Scorer, *, most: int | None = SAMPLE
) -> WholeComparison:
    """The scorer, which reads title states, beside the whole model on the first `most` pairs of a
    file (None: all). Pairs without a grade, or with one that is unknown, count for no metric."""
    labels = scorer.checkpoint.settings.labels
    with closing(iter(options.open(path, default_map=default_scheme(labels)))) as rows:
        pairs = list(islice(rows, most))
    texts = [(pair.query, pair.title) for pair in pairs]
    scorers = scorer.whole(), scorer.fresh()
    with progress(2 * len(texts), "comparing with the whole model", "pairs") as shown:
        whole, read = (one.logits(texts, shown) for one in scorers)
    graded = [row for row, pair in enumerate(pairs) if pair.grades is not None]
    return WholeComparison(
        pairs=len(pairs),
        largest=float(np.abs(whole - read).max()),
        graded=len(graded),
        metrics=_metrics([pairs[row] for row in graded], whole[graded], read[graded], labels),
    )


def _metrics(
    pairs: list[Pair], whole: np.ndarray, read: np.ndarray, labels: ModelLabels
) -> Mapping[str, Difference]:
    if not pairs:
        return {}
    first, second = (judge_logits(logits, pairs, labels) for logits in (whole, read))
    return compare(first, second, metrics=METRICS, most_different=0).metrics
