"""A model read as an offline one: shared weights, the right rows, and a check that sees a fault."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.errors import EquivalenceError
from qt_bert.models.card import Offline
from qt_bert.planning import offline as moved
from qt_bert.planning.offline import counts_of, read_as
from qt_bert.scoring.bulk import Scorer
from tests.planning.offline.conftest import JobOf, TaskOf


@pytest.mark.parametrize(
    ("layers", "rows", "counts"),
    [
        (12, 3, (3, 6, 9)),
        (12, None, tuple(range(1, 12))),
        (5, 3, (1, 2, 4)),
        (4, 3, (1, 2, 3)),
        (7, 2, (2, 3, 5)),
        (2, 3, (1,)),
        (1, None, ()),
        (1, 3, ()),
    ],
)
def test_half_of_the_layers_are_always_among_the_rows(
    layers: int, rows: int | None, counts: tuple[int, ...]
) -> None:
    assert counts_of(layers, rows) == counts


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_the_same_as_the_model_opened_as_an_offline_one(task_of: TaskOf, family: str) -> None:
    task = task_of(family)
    offline = Offline(2, 12, 6)
    other = read_as(task.scorer, offline)
    assert other.encoder.layers is task.scorer.encoder.layers
    whole = Scorer(other.checkpoint)
    assert whole.encoder.offline == offline and task.scorer.encoder.offline is None
    texts = task.validation.texts
    np.testing.assert_allclose(other.logits(texts), whole.logits(texts), atol=1e-5)
    assert np.abs(other.logits(texts) - task.scorer.logits(texts)).max() > 1e-3
    assert other.counts.truncated_titles > 0 and task.scorer.counts.truncated_titles == 0


def test_the_check_holds_and_sees_a_block_that_is_not_there(
    job_of: JobOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(layers=3)
    figures = job.check()
    assert figures["unmasked"] <= figures["bound"]
    assert set(figures["variants"]) == {"cut:all@0-0", "cut:all@0-1"}

    def unread(scorer: Scorer, offline: Offline) -> Scorer:
        other = read_as(scorer, offline)
        other.encoder.offline = None
        return other

    monkeypatch.setattr(moved, "read_as", unread)
    with pytest.raises(EquivalenceError):
        job_of(layers=3).check()


def test_samples_are_of_the_effort(job_of: JobOf) -> None:
    from qt_bert.planning.task import OfflineEffort

    job = job_of(effort=OfflineEffort(pairs=6))
    assert len(job.discovery.pairs) == len(job.validation.pairs) == 6
    assert len(job_of().discovery.pairs) == 24
