"""What each model says of the pairs, and how fast, all of them in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.baselines import Labelled, LexicalFeatures, OrdinalRegression, fit_best, word_segmenter
from qt_bert.evaluation import METRICS, judge_grades
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import Pair
from qt_bert.scoring.bulk import Scorer
from qt_bert.study.baselines.folder import Arrays, BaselinesFolder
from qt_bert.study.baselines.job import BaselinesJob

ROUNDS = 5
TIMED = 200
"""Pairs of each round of the clock."""

Texts = Sequence[tuple[str, str]]
Grader = Callable[[Texts], FloatArray]
"""Texts → the probabilities of the five grades [pairs, 5]."""


def texts_of(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    """Query and title of each."""
    return [(pair.query, pair.title) for pair in pairs]


def grader(scorer: Scorer) -> Grader:
    """The probabilities that a model's five logits mean."""
    from scipy.special import softmax

    return lambda texts: softmax(scorer.logits(texts).astype(np.float64), axis=-1)


def spearman(probabilities: FloatArray, pairs: Sequence[Pair]) -> float | None:
    """Spearman's ρ of the expected grade."""
    sets, queries = [pair.grades or () for pair in pairs], [pair.query for pair in pairs]
    return METRICS["spearman"].value(judge_grades(probabilities, sets, queries))


@dataclass(frozen=True)
class Lexical:
    """The lexical baseline: its weights, its number of parameters and of training pairs."""

    features: LexicalFeatures
    model: OrdinalRegression
    n_pairs: int

    @cached_property
    def parameters(self) -> int:
        """Coefficients and thresholds."""
        return len(self.model.coefficients) + len(self.model.thresholds)

    def grade(self, texts: Texts) -> FloatArray:
        """The probabilities of the five grades [pairs, 5]."""
        return self.model.predict_proba(self.features.table(texts))


def fit_lexical(job: BaselinesJob) -> Lexical:
    """Fit on the recipe's graded pairs; the penalty is chosen on its dev file."""
    pairs: list[Pair] = []
    weights: list[float] = []
    for source in job.recipe.pairs:
        if not source.auxiliary:
            read = [pair for pair in source.read(labelled=True) if pair.grades]
            pairs += read
            weights += [source.weight] * len(read)
    dev = job.recipe.dev.read(labelled=True) if job.recipe.dev else []
    features = LexicalFeatures.fit(texts_of(pairs), word_segmenter())

    def labelled(some: Sequence[Pair], weight: FloatArray | None = None) -> Labelled:
        return Labelled(features.table(texts_of(some)), [p.grades or () for p in some], weight)

    model, _ = fit_best(labelled(pairs, np.array(weights)), labelled(dev))
    return Lexical(features, model, len(pairs))


def graded(
    name: str,
    key: Mapping[str, object],
    folder: BaselinesFolder,
    grade: Grader,
    halves: Mapping[str, Sequence[Pair]],
) -> Arrays:
    """A model's probabilities on each half [pairs, 5], made once under `key`."""

    def measure() -> Arrays:
        return {half: grade(texts_of(pairs)).astype(np.float32) for half, pairs in halves.items()}

    return folder.measured(f"graded-{name}", key, measure)


def pairs_per_second(graders: Mapping[str, Grader], texts: Texts) -> dict[str, float]:
    """The median rate of each over rounds in which all take turns, after one to warm up."""
    sample = list(texts)[:TIMED]
    rates: dict[str, list[float]] = {name: [] for name in graders}
    for turn in range(ROUNDS + 1):
        for name, grade in graders.items():
            began = time.perf_counter()
            grade(sample)
            if turn:
                rates[name].append(len(sample) / (time.perf_counter() - began))
    return {name: round(float(np.median(found)), 1) for name, found in rates.items()}
