"""Early stopping by a dev metric."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.errors import PairFileError
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.metrics import METRICS
from qt_bert.training.recipes import PairSource

Judge = Callable[[Any], tuple[float, float] | None]
"""A classifier → its dev figure and the merit, the number to maximise; None where not defined."""


def sources_and_dev(
    sources: Sequence[PairSource],
    dev: PairSource | None,
    levels: int | None,
    rejects: Path | None = None,
) -> tuple[list[PairSource], list[Pair]]:
    """The sources to train on, and the dev pairs: those of `dev`, else the labelled pairs of a tenth of the
    queries, by hash, removed from all sources. `rejects` lists the rejects of `dev`. Raises PairFileError where
    there are no dev pairs."""
    if dev is not None:
        return list(sources), dev.read(levels=levels, labelled=True, rejects_path=rejects)
    left = [replace(source, tenth="left out") for source in sources]
    kept = [
        pair
        for source in sources
        if not (source.auxiliary or source.unlabelled)
        for pair in replace(source, tenth="alone").read(levels=levels, labelled=True)
    ]
    if not kept:
        raise PairFileError(
            "no query falls into the tenth kept back for early stopping; give --dev"
        )
    return left, kept


def judge_of(view: Checkpoint, dev: list[Pair], metric: str) -> Judge:
    """A judge of models by `metric` on `dev`; tokenizer and settings are those of `view`."""
    texts = [(p.query, p.title) for p in dev]

    def judge(model: Any) -> tuple[float, float] | None:
        logits = Scorer(replace(view, model=model)).logits(texts)
        return reading(logits, dev, view.settings.labels, metric)

    return judge


def reading(
    logits: np.ndarray, pairs: list[Pair], labels: ModelLabels, metric: str
) -> tuple[float, float] | None:
    """The metric of logits [n, outputs] and its merit; None where it is not defined."""
    value = METRICS[metric].value(judge_logits(logits, pairs, labels))
    return None if value is None else (value, merit_of(value, metric))


def merit_of(value: float, metric: str) -> float:
    """The number to maximise: the value, its negative, or its negative distance to 0."""
    direction = METRICS[metric].direction
    return value if direction == "higher" else -value if direction == "lower" else -abs(value)


def digest_of(dev: Sequence[Pair]) -> str:
    """One hash for pairs and labels."""
    judged = "\n".join(f"{p.query}\t{p.title}\t{p.grades}" for p in dev)
    return hashlib.sha256(judged.encode()).hexdigest()
