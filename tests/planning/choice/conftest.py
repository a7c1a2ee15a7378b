"""Tasks of small models with pairs of several queries, and the loss by hand."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.task import QUICK, PlanTask, Sample
from qt_bert.scoring.bulk import Scorer
from tests.conftest import PAIRS

QUERIES = ("北京到上海高铁", "苹果多少钱", "红烧排骨怎么做", "狗追猫", "假期电影", "手机开不开")


class Counted:
    """Counts what is advanced."""

    def __init__(self) -> None:
        self.done = 0

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.done += amount


def pair(line: int, query: str, title: str, grades: tuple[int, ...] | None) -> Pair:
    return Pair(query, title, grades, str(line), line, None, {})


def graded(count: int = 24) -> list[Pair]:
    """`count` pairs of six queries; titles and grades take turns."""
    titles = [title for _, title, _ in PAIRS]
    return [
        pair(n + 2, QUERIES[n % 6], titles[n % 8] + "吃" * (n // 8), (1 + n * 2 % 5,))
        for n in range(count)
    ]


@pytest.fixture
def scorer_of(checkpoint_of) -> Callable[..., Scorer]:
    def build(family="bert", dtype="float32", **options):
        shape = {"layers": 3, "heads": 2, "hidden": 16} | options
        return Scorer(open_checkpoint(checkpoint_of(family, **shape), dtype=dtype))

    return build


@pytest.fixture
def task_of(scorer_of, tmp_path) -> Callable[..., PlanTask]:
    """`task_of(pairs, heads=4)`: a plan to choose on these pairs."""

    def build(pairs=None, *, resamples=50, **shape):
        sample = Sample.of("dev.tsv", "0", pairs or graded())
        return PlanTask(
            scorer=scorer_of(**shape),
            discovery=sample,
            validation=sample,
            work=tmp_path / "work",
            effort=replace(QUICK, rounds=3),
            resamples=resamples,
        )

    return build


def loss_by_hand(logits: np.ndarray, pairs: list[Pair]) -> float:
    """The mean of 1 − Σ p over each pair's label, by softmax and sums."""
    losses = []
    for row, labelled in zip(logits.astype(np.float64), pairs, strict=True):
        p = np.exp(row) / np.exp(row).sum()
        losses.append(1 - sum(p[grade - 1] for grade in labelled.grades or ()))
    return float(np.mean(losses))
