"""How heads are read as word ends: their attention at each decision, thresholds set on what ships."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from qt_bert.ablation.reduction import Reduction, View
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder.heads import Head
from qt_bert.inspection.batching import in_turns
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.sources import shipped_rows
from qt_bert.pairs.sample import sample_queries
from qt_bert.probes.common.naming import ranked
from qt_bert.probes.word_ends.calibrate import Calibrated, calibrate
from qt_bert.probes.word_ends.decisions import Decisions, asked_of, decisions_of
from qt_bert.probes.word_ends.references import PRECISE, granularities
from qt_bert.probes.word_ends.texts import QUICK_PAIRS
from qt_bert.probes.word_ends.union import LEAST_DECISIONS
from qt_bert.probes.word_ends.weights import Weights, weights_of

MOST_KEPT = 6
"""Models whose readings are kept."""
TURN_TOKENS = 512
"""Tokens of the calibration that one turn computes: others wait for 0.1 s of it at most."""

_NAME = "word_ends"


@dataclass(frozen=True, eq=False)
class Calibration:
    """Every head's reading on the dev pairs that ship, as the study of word boundaries sets it.

    `best` are all heads by their balanced accuracy there, `majority` whether most of these decisions
    are word ends, `texts` what was read: a text among them is no test of the readings.
    """

    calibrated: Calibrated
    best: tuple[Head, ...]
    majority: bool
    pairs: int
    decisions: int
    texts: frozenset[str]


def weights_under(
    inspected: Inspected, decisions: Decisions, variants: Sequence[Variant] = (NONE,)
) -> list[Weights]:
    """What every head gives at each decision, under each variant; a visitor's turn a pair.

    `Weights.own`, which no reading needs, is unknown (NaN).
    """
    shape = inspected.shape
    found = np.zeros((2, len(variants), *shape.size, len(decisions)), np.float32)
    reduction = Reduction(_NAME, "attention", tuple(range(shape.layers)), _next_and_sep)
    for row, pair in enumerate(decisions.pairs):
        own = np.flatnonzero(decisions.pair == row)
        if own.size:
            seen = inspected.run([pair], variants, [reduction]).reduced[_NAME][:, 0]
            found[..., own] = np.moveaxis(seen[:, :, :, decisions.token[own]], -1, 0)
    unknown = np.full(shape.size, np.nan)
    return [Weights(following, sep, unknown) for following, sep in zip(*found, strict=True)]


def _next_and_sep(view: View) -> torch.Tensor:
    """Of one pair, what each token gives the next one and all separators [1, heads, L − 1, 2]."""
    (encoded,) = view.batch.encoded
    following = view.values.diagonal(1, -2, -1)
    separators = view.values[..., :-1, encoded.separators].sum(-1)
    return torch.stack([following, separators], -1).float()


def calibration_of(inspected: Inspected) -> Calibration:
    """The readings of a model's heads, made once a model; whoever asks for them meanwhile waits."""
    found: Calibration | None = _kept.find(inspected.key)
    if found is not None:  # also while another model is calibrated
        return found
    with _lock:
        return _kept.get(inspected.key, lambda: _calibrate(inspected))


_lock = threading.Lock()
_kept = Kept(MOST_KEPT)


def _calibrate(inspected: Inspected) -> Calibration:
    """The study's own sample and search, without its tests."""
    pairs = sample_queries(shipped_rows("dev"), QUICK_PAIRS["discovery"])
    asked = asked_of(pairs)
    decisions = decisions_of(inspected.scorer.tokenizer, asked, least=LEAST_DECISIONS)
    labels = decisions.labels(granularities(inspected.segmenter)[PRECISE])
    with in_turns(inspected.scorer, inspected.turns, TURN_TOKENS) as scorer:
        weights = weights_of(scorer, decisions)
    calibrated = calibrate(weights, decisions, labels, shifts=0, seed=0)
    return Calibration(
        # What the queries say one by one is for tests, and grows with the model.
        replace(calibrated, per_query=calibrated.per_query[:0]),
        tuple(ranked(calibrated.named.score)),
        bool(labels.size) and bool(labels.mean() >= 0.5),
        len(pairs),
        len(decisions),
        frozenset(one.text for one in asked),
    )
