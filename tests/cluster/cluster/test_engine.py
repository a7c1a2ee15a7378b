"""The engine on a private cluster: every item is answered, or it is said why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qt_bert.cluster.ray import Bounds, Cluster, EngineError, Task, cluster, run
from qt_bert.errors import ArgumentError
from tests.cluster.obedient import fault_text, obedient
from tests.cluster.rays import importable_tests

pytestmark = pytest.mark.usefixtures("alone_with_ray")

TWO = Bounds(actors=2)


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[Cluster]:
    with importable_tests(), cluster(cpus=2) as there:
        yield there


def task(folder: Path, **arguments: Any) -> Task:
    return Task(obedient, {"folder": str(folder), **arguments}, fault_text)


def test_every_item_is_answered_once_though_one_raises_and_one_kills(
    two_cpus: Cluster, tmp_path: Path
) -> None:
    items = ["raise alarm", "die here", *(f"say {i}" for i in range(30))]
    said = list(run(two_cpus, items, task(tmp_path), TWO))
    wanted = [f"{item} done in 1 thread" for item in items[1:]]
    assert sorted(said) == sorted(["raise alarm failed: alarm", *wanted])
    assert (tmp_path / "here").exists()


def test_a_worker_that_cannot_be_opened_fails_each_item(two_cpus: Cluster, tmp_path: Path) -> None:
    said = list(run(two_cpus, ["a", "b", "c"], task(tmp_path, broken="raises"), TWO))
    assert sorted(said) == [f"{item} failed: cannot be opened" for item in "abc"]


@pytest.mark.slow
def test_a_worker_that_dies_at_its_start_ends_in_an_error(
    two_cpus: Cluster, tmp_path: Path
) -> None:
    bounds = Bounds(actors=1, restarts=1, silence=60)
    with pytest.raises(EngineError, match="Actor"):
        list(run(two_cpus, ["a"], task(tmp_path, broken="dies"), bounds))


@pytest.mark.slow
def test_silence_ends_in_an_error_and_the_next_round_works(
    two_cpus: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match="Timeout"):
        list(run(two_cpus, ["sleep 600"], task(tmp_path), Bounds(actors=1, silence=2)))
    assert list(run(two_cpus, ["say so"], task(tmp_path), TWO)) == ["say so done in 1 thread"]


def test_nothing_to_do_needs_no_cluster(tmp_path: Path) -> None:
    assert list(run(Cluster(None, 2), [], task(tmp_path), TWO)) == []


def test_rounds_grow_with_the_actors_within_bounds() -> None:
    assert [Bounds(actors=n).round for n in (1, 8, 9, 100, 5000)] == [512, 512, 576, 6400, 8192]
    with pytest.raises(ArgumentError, match="0 actors"):
        Bounds(actors=0)
