"""Weights in eight bits: a quarter of the size, and what that costs on graded pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.evaluation import compare
from qt_bert.pairs import Pair
from qt_bert.planning.export.extra import quietly
from qt_bert.planning.export.session import OnnxScorer
from qt_bert.results.codec import decode, encode
from qt_bert.results.comparison import MetricDifference
from qt_bert.results.evaluation import JudgedPairs
from qt_bert.results.export import Int8Loss
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.judge import judge_logits

METRICS = ("spearman", "qwk", "accuracy", "pairwise_accuracy")


@dataclass(frozen=True)
class GradedPairs:
    """Graded pairs of a file."""

    file: PairsRef
    pairs: Sequence[Pair]


def write_int8(exact: Path, path: Path) -> None:
    """Write the file at `exact` to `path` with weights of matrices and embeddings in eight bits.

    Every column of a matrix has a scale of its own; what flows between the operators is scaled as
    it comes (dynamic quantisation). Processors without VNNI add in 16 bits, which may saturate:
    there, measure again.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with quietly():
        quantize_dynamic(exact, path, per_channel=True, weight_type=QuantType.QInt8)


def int8_loss(
    exact: OnnxScorer, short: OnnxScorer, graded: GradedPairs, *, seed: int = 0
) -> Int8Loss:
    """The paired change of the metrics on graded pairs, as `qt-bert compare` measures it.

    Raises ArgumentError where there are no pairs, or where labels and model do not fit.
    """
    pairs = list(graded.pairs)
    if not pairs:
        raise ArgumentError(f"{graded.file.name} holds no graded pair to measure --int8 on")
    texts = [(pair.query, pair.title) for pair in pairs]
    logits = [scorer.logits(texts) for scorer in (exact, short)]
    first, second = (judge_logits(one, pairs, exact.settings.labels) for one in logits)
    found = compare(first, second, metrics=METRICS, seed=seed, most_different=0).metrics
    return Int8Loss(
        pairs=JudgedPairs(
            name=graded.file.name,
            sha256=graded.file.sha256,
            n_pairs=len(pairs),
            n_queries=first.n_queries,
        ),
        metrics={name: decode(MetricDifference, encode(one)) for name, one in found.items()},
        largest=float(np.abs(logits[1] - logits[0]).max()),
    )
