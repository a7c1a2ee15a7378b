"""Judgements to test with: one small case computed by hand, and random ones full of ties."""

from collections.abc import Callable

import numpy as np
import pytest

from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.judgements import Judgements, judge_grades

HAND_PROBABILITIES = [
    [0.00, 0.00, 0.00, 0.25, 0.75],
    [0.50, 0.25, 0.25, 0.00, 0.00],
    [0.25, 0.00, 0.50, 0.25, 0.00],
    [0.00, 0.00, 0.25, 0.50, 0.25],
    [0.00, 0.00, 0.00, 0.50, 0.50],
    [0.00, 0.50, 0.50, 0.00, 0.00],
]
HAND_LABELS = [(5,), (3,), (1,), (4,), (4,), (2,)]
HAND_QUERIES = ["洗油渍", "洗油渍", "洗油渍", "高铁票", "高铁票", "猫粮"]


@pytest.fixture
def hand() -> Judgements:
    """Six pairs, three queries; only the first has titles of different grades."""
    return judge_grades(HAND_PROBABILITIES, HAND_LABELS, HAND_QUERIES)


def tied_probabilities(generator: np.random.Generator, n: int, n_logits: int = 5) -> FloatArray:
    """Probabilities in steps of an eighth, so that scores tie often."""
    weights = generator.dirichlet(np.ones(n_logits), size=n)
    return generator.multinomial(8, weights) / 8.0


@pytest.fixture
def random_judgements() -> Callable[..., Judgements]:
    """`random_judgements(seed, n=, n_queries=)`: exact grades, tied scores."""

    def make(seed, *, n=120, n_queries=30):
        generator = np.random.default_rng(seed)
        probabilities = tied_probabilities(generator, n)
        grades = generator.integers(1, 6, n)
        queries = [f"查询{number}" for number in generator.integers(0, n_queries, n)]
        return judge_grades(probabilities, [(int(grade),) for grade in grades], queries)

    return make
