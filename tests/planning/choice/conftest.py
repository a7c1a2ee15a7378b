"""Tasks of small models, with graded pairs of several queries."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.task import QUICK, PlanTask, Sample
from qt_bert.scoring.bulk import Scorer
from tests.planning.made_pairs import sample


def graded(count: int = 24) -> list[Pair]:
    return sample("dev.tsv", count, 1).pairs


@pytest.fixture
def scorer_of(checkpoint_of) -> Callable[..., Scorer]:
    def build(family="bert", **options):
        shape = {"layers": 3, "heads": 2, "hidden": 16} | options
        return Scorer(open_checkpoint(checkpoint_of(family, **shape)))

    return build


@pytest.fixture
def task_of(scorer_of, tmp_path) -> Callable[..., PlanTask]:
    """`task_of(pairs, heads=4)`: a plan to choose on these pairs."""

    def build(pairs=None, **shape):
        discovery = Sample.of("dev.tsv", "0", pairs or graded())
        return PlanTask(
            scorer=scorer_of(**shape),
            discovery=discovery,
            validation=discovery,
            work=tmp_path / "work",
            effort=replace(QUICK, rounds=3),
        )

    return build
