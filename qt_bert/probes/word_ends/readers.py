"""The heads of one model at work: read on discovery, heard on validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import BoolArray, FloatArray
from qt_bert.probes.common.naming import ranked
from qt_bert.probes.word_ends.calibrate import Calibrated, calibrate
from qt_bert.probes.word_ends.judge import auc
from qt_bert.probes.word_ends.texts import Texts
from qt_bert.probes.word_ends.together import best_voters, combine
from qt_bert.probes.word_ends.weights import Float32Array, Weights, weights_of
from qt_bert.progress import Progress
from qt_bert.scoring.bulk import Scorer


class Balanced(NamedTuple):
    """Balanced accuracy of every head [layers, heads] on each half."""

    discovery: FloatArray
    validation: FloatArray


@dataclass(frozen=True, eq=False)
class Readers:
    """What every head says, [layers, heads, D] or [layers, heads], and what they say together [D].

    `said` and `known_said`: by its reading, on validation and on discovery; `by_rule`: by the
    article's rule on validation. `accuracy` and `rule_balanced`: accuracy of the reading, and
    balanced accuracy of the rule, on discovery, which order the heads. `auc`: on validation.
    `granularity`: balanced accuracy when read anew against each reference. `margin`: how far
    beyond its threshold the best head is read.
    """

    calibrated: Calibrated
    own: FloatArray
    said: BoolArray
    known_said: BoolArray
    by_rule: BoolArray
    accuracy: FloatArray
    rule_balanced: FloatArray
    auc: FloatArray
    granularity: Mapping[str, Balanced]
    voters: tuple[Head, ...]
    combined: BoolArray
    margin: Float32Array

    @property
    def best(self) -> Head:
        """The best head on discovery: a named one, where there is any."""
        return best_of(self.calibrated)

    @property
    def reached(self) -> float:
        """The best head's balanced accuracy on discovery."""
        return float(self.calibrated.named.score[self.best])

    @cached_property
    def order(self) -> list[Head]:
        """All heads by their accuracy on discovery."""
        return ranked(self.accuracy)

    @property
    def best_by_rule(self) -> Head:
        """The head that the article's rule, as it stands, reads best on discovery."""
        return ranked(self.rule_balanced)[0]


def best_of(calibrated: Calibrated) -> Head:
    """The best head on discovery: a named one, where there is any."""
    named = calibrated.named
    return (named.heads() or ranked(named.score))[0]


def read(
    scorer: Scorer, texts: Texts, reference: str, *, shifts: int, seed: int, shown: Progress
) -> Readers:
    """Two plain passes, and what is made of them; the weights themselves are let go."""
    known = weights_of(scorer, texts.discovery, shown)
    asked = weights_of(scorer, texts.validation, shown)
    labels, truth = texts.known[reference], texts.truth[reference]
    calibrated = calibrate(known, texts.discovery, labels, shifts=shifts, seed=seed)
    known_said = calibrated.say(known)
    return Readers(
        calibrated=calibrated,
        own=known.own,
        said=calibrated.say(asked),
        known_said=known_said,
        by_rule=asked.article_says(),
        accuracy=_accuracy(known_said, labels),
        rule_balanced=balanced_of(known.article_says(), labels),
        auc=auc(calibrated.values(asked), truth),
        granularity=_granularity(calibrated, reference, known, asked, texts, seed),
        voters=tuple(best_voters(known_said, labels)),
        combined=combine(known, labels, asked, seed=seed),
        margin=calibrated.margin(asked, best_of(calibrated)),
    )


def _granularity(
    calibrated: Calibrated,
    reference: str,
    known: Weights,
    asked: Weights,
    texts: Texts,
    seed: int,
) -> dict[str, Balanced]:
    """Scores alone, so that nothing need be shifted."""
    found = {}
    for name, labels in texts.known.items():
        one = (
            calibrated
            if name == reference
            else calibrate(known, texts.discovery, labels, shifts=0, seed=seed)
        )
        found[name] = Balanced(one.named.score, balanced_of(one.say(asked), texts.truth[name]))
    return found


def balanced_of(said: BoolArray, labels: BoolArray) -> FloatArray:
    """Balanced accuracy over all decisions [..., D] → [...]; NaN for labels of one kind."""
    if not labels.size or labels.all() or not labels.any():
        return np.full(said.shape[:-1], np.nan)
    return np.asarray((said[..., labels].mean(-1) + (~said[..., ~labels]).mean(-1)) / 2)


def _accuracy(said: BoolArray, labels: BoolArray) -> FloatArray:
    """[..., D] → [...]; NaN without decisions."""
    if not labels.size:
        return np.full(said.shape[:-1], np.nan)
    return np.asarray((said == labels).mean(-1))
