"""Speed: the right things in turns, each query once, ratios by hand, kept for a resumed plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from qt_bert.planning import offline
from qt_bert.planning.offline import OfflineTask, Speedups, speedups
from qt_bert.planning.timing import Scores, Texts
from tests.planning.offline.conftest import JobOf

Calls = list[tuple[Sequence[Scores], Texts]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Times made by hand: 1 s for the model, a half and a quarter for one and two offline layers."""
    seen: Calls = []

    def timed(scorers: Sequence[Scores], texts: Texts, rounds: int, first: int) -> np.ndarray:
        seen.append((scorers, texts))
        return np.array([[1.0, 0.5, 0.25]]) * (100 if len(seen) == 1 else 1)

    monkeypatch.setattr(offline, "in_turns", timed)
    return seen


def measured(job: OfflineTask) -> Speedups:
    found = speedups(job)
    assert found is not None
    return found


def test_how_many_times_as_fast(job_of: JobOf, calls: Calls) -> None:
    job = job_of()
    found = measured(job)
    assert [one.value for one in found.ratios] == [2.0, 4.0]
    timed = found.timed
    assert (timed.queries, timed.whole_ms, timed.states) == (3, 1000.0, "float16")
    assert timed.titles == len({pair.title for pair in job.task.validation.pairs})


def test_a_query_is_timed_once_and_ends_before_its_titles(job_of: JobOf, calls: Calls) -> None:
    job = job_of()
    measured(job)
    queries = [{query for query, _ in texts} for _, texts in calls]
    assert all(len(one) == 1 for one in queries)
    asked = [one.pop() for one in queries]
    assert len(set(asked)) == 4  # the first warms up
    start = job.layout.offline.title_start
    assert all(len(query) + 2 <= start for query in asked)


def test_a_resumed_plan_has_the_same_times(job_of: JobOf, calls: Calls) -> None:
    first = measured(job_of())
    count = len(calls)
    assert measured(job_of()) == first and len(calls) == count
    measured(job_of(max_length=40))  # other titles
    assert len(calls) > count


def test_one_query_is_not_enough(job_of: JobOf, calls: Calls) -> None:
    assert speedups(job_of(pairs=2)) is None


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_what_is_timed_reads_states_and_gives_the_offline_models_logits(
    job_of: JobOf, calls: Calls, family: str
) -> None:
    job = job_of(family)
    measured(job)
    scorers, texts = calls[1]
    whole = [job.task.scorer, *(job.reading(layers) for layers in (1, 2))]
    for timed, expected in zip(scorers, whole, strict=True):
        np.testing.assert_allclose(timed.logits(texts), expected.logits(texts), atol=0.02)
    for reading in scorers[1:]:
        assert reading.split.counts.read == len(texts)  # type: ignore[attr-defined]
        assert reading.split.counts.unknown_titles == 0  # type: ignore[attr-defined]


def test_real_times_are_ratios(job_of: JobOf) -> None:
    found = measured(job_of())
    assert all(one.value > 0 for one in found.ratios) and found.timed.whole_ms > 0
