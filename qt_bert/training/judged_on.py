"""What a run is judged on while it trains: the pairs, and one metric of the model's logits on them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qt_bert.encoder import Checkpoint, ModelLabels
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.evaluation import METRICS
from qt_bert.pairs import Pair
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.training.sources import PairSource

Judge = Callable[[Any], tuple[float, float] | None]
"""A classifier → its dev figure and the merit, the number to maximise; None where not defined."""


def check_metric(name: str) -> None:
    """Raise ArgumentError where no metric is called `name`."""
    if name not in METRICS:
        raise ArgumentError(f"--stop-on {name!r}: choose from {', '.join(METRICS)}")


def sources_and_dev(
    sources: Sequence[PairSource], dev: PairSource | None, levels: int | None
) -> tuple[list[PairSource], list[Pair]]:
    """The sources to train on, and the pairs the run is judged on.

    Without `dev`, these are the labelled pairs of a tenth of the queries, by hash, which no source
    keeps. Raises PairFileError where there are none.
    """
    if dev is not None:
        return list(sources), dev.read(levels=levels, labelled=True)
    left = [replace(source, tenth="left out") for source in sources]
    found = [
        pair
        for source in sources
        if not (source.auxiliary or source.unlabelled)
        for pair in replace(source, tenth="alone").read(levels=levels, labelled=True)
    ]
    if not found:
        raise PairFileError(
            "no query falls into the tenth kept back for early stopping; give --dev"
        )
    return left, found


def judge_of(view: Checkpoint, dev: list[Pair], metric: str) -> Judge:
    """Judges a model that is otherwise as `view` says by `metric` on `dev`."""
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
    """The number to maximise: the value, or the less of it, or of its distance to 0, the more."""
    merit: dict[str, Callable[[float], float]] = {
        "higher": lambda value: value,
        "lower": lambda value: -value,
        "zero": lambda value: -abs(value),
    }
    return merit[METRICS[metric].direction](value)


def digest_of(dev: Sequence[Pair]) -> str:
    """One hash for pairs and labels."""
    judged = "\n".join(f"{p.query}\t{p.title}\t{p.grades}" for p in dev)
    return hashlib.sha256(judged.encode()).hexdigest()
