"""The rows as a whole: the planted number of layers, the same after a kill, and models without rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.planning.offline import offline_plan
from qt_bert.planning.task import OfflineEffort
from qt_bert.results.plan import OfflinePlan
from tests.planning.offline.conftest import TaskOf


def test_a_model_whose_lower_layers_never_mix_returns_them(task_of: TaskOf, unmixed: Path) -> None:
    found = offline_plan(task_of(checkpoint=unmixed, pairs=60))
    assert found.reason is None and found.metric == "accuracy"
    assert [row.layers for row in found.rows] == [1, 2, 3]
    assert found.chosen == 2 and found.retrain == 2
    assert found.positions["accuracy"].change == 0
    for row in found.rows[:2]:
        assert row.both["accuracy"].change == row.block["accuracy"].change == 0
        assert row.may_lose("accuracy") == 0
    assert found.at is found.rows[1]
    assert all(row.speed is not None for row in found.rows)
    assert found.discovery is not None and found.discovery.name == "dev.tsv"
    assert found.validation is not None and found.validation.n_pairs == 60
    assert found.guards["unmasked"] <= found.guards["bound"]


def test_where_all_layers_mix_half_of_them_are_to_be_retrained(task_of: TaskOf) -> None:
    found = offline_plan(task_of(layers=4, pairs=60, effort=OfflineEffort(rows=1, queries=2)))
    assert [row.layers for row in found.rows] == [2]
    assert found.chosen is None and found.retrain == 2 and found.at is found.rows[0]
    assert found.titles is not None and found.timed is not None
    assert found.title_start + found.title_tokens == 64 - 1


def test_a_second_time_everything_is_there(task_of: TaskOf) -> None:
    first = offline_plan(task_of())
    assert offline_plan(task_of()) == first


def test_of_one_logit_the_order_decides(task_of: TaskOf) -> None:
    found = offline_plan(task_of(labels=1))
    assert found.metric == "pairwise_accuracy"
    assert set(found.rows[0].both) >= {"spearman", "pairwise_accuracy"}


@pytest.mark.parametrize("family", ["xlm-roberta", "electra"])
def test_other_families(task_of: TaskOf, family: str) -> None:
    found = offline_plan(task_of(family, layers=2))
    assert [row.layers for row in found.rows] == [1] and found.retrain == 1


def test_models_without_rows_have_a_reason(
    task_of: TaskOf, offline_checkpoint_of: Callable[..., Path]
) -> None:
    offline = offline_checkpoint_of("bert", layers=3)
    reasons = {
        "offline": task_of(checkpoint=offline),
        "one layer": task_of(layers=1),
        "no room": task_of(max_length=8),
    }
    for reason, task in reasons.items():
        layers = task.form.layers
        assert offline_plan(task) == OfflinePlan(layers=layers, reason=reason)  # type: ignore[arg-type]
