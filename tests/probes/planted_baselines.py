"""A made table of baselines in which it is known which model is better than which."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.results import baselines
from qt_bert.results.probe import PairsRef
from qt_bert.shipped import BASELINES, shipped

NOISE = {
    baselines.CROSS_ENCODER: 0.3,
    baselines.CHARACTERS: 0.8,
    baselines.WORDS: 0.8,
    baselines.NO_PAIRS: 0.8,
    baselines.LSTM: 3.0,
    baselines.LSTM_WORDS: 1.0,
    baselines.TWO_TOWER: 2.0,
    baselines.BERT_LSTM: 2.0,
    baselines.LEXICAL: 2.0,
}
"""How much a model's grades stray, as the article would have it."""


def pairs_of(queries: int = 120, titles: int = 4, seed: int = 0) -> list[Pair]:
    """Graded pairs of made queries."""
    rng = np.random.default_rng(seed)
    return [
        Pair(f"query {q}", f"title {q} {t}", (grade,), None, q * titles + t + 2, str(grade), {})
        for q in range(queries)
        for t in range(titles)
        for grade in [int(rng.integers(1, 6))]
    ]


def table(pairs: Sequence[Pair]) -> baselines.Baselines:
    """The table that ships, its outputs those of these pairs; words and characters stray alike for BERT."""
    grades = np.array([(pair.grades or (0,))[0] for pair in pairs], float)
    scores = {}
    for number, name in enumerate(baselines.MODELS):
        rng = np.random.default_rng([1, number])
        scores[name] = grades + rng.normal(0, NOISE[name], len(grades))
    scores[baselines.WORDS] = scores[baselines.CHARACTERS] + np.random.default_rng(2).normal(
        0, 0.01, len(grades)
    )
    numbers: dict[str, int] = {}
    queries = np.array([numbers.setdefault(pair.query, len(numbers)) for pair in pairs])
    whole = baselines.read_baselines(shipped(BASELINES))
    of_name = {row.name: row for row in whole.record.rows}
    record = replace(
        whole.record,
        pairs=PairsRef(
            name="test.tsv", sha256="0" * 64, n_pairs=len(pairs), n_queries=len(numbers)
        ),
        digest=baselines.digest_of((pair.query, pair.title) for pair in pairs),
        rows=tuple(replace(of_name[name], discovery=-NOISE[name]) for name in baselines.MODELS),
    )
    return baselines.Baselines(
        record,
        np.stack([_probabilities(scores[name]) for name in baselines.MODELS]),
        np.array([[grade == g for g in range(1, 6)] for grade in grades]),
        queries,
        {},
        {baselines.CHARACTERS: matching(6.0), baselines.NO_PAIRS: matching(1.5)},
    )


def matching(times: float, queries: int = 60) -> baselines.MatchingOutputs:
    """Sums of a head with `times` as much attention on matches as elsewhere, and a control of 1."""
    rng = np.random.default_rng(4)
    counts = np.tile([4.0, 20.0], (queries, 1))
    plain = counts * 0.01 * rng.uniform(0.9, 1.1, (queries, 2))
    return baselines.MatchingOutputs(plain * [times, 1.0], plain, counts)


def write(folder: Path, pairs: Sequence[Pair]) -> Path:
    """The folder of a made table."""
    table(pairs).write(folder)
    return folder


def _probabilities(scores: np.ndarray) -> np.ndarray:
    """Normal bells over the grades: the expected grade rises with the score."""
    logits = -((np.clip(scores, 0, 6)[:, None] - np.arange(1, 6)) ** 2)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))
