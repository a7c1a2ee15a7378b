"""A retrained offline model beside its control: figures by hand, and pairs that are none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.planning.offline import retrained_of
from qt_bert.planning.task import PlanTask, RetrainedPair
from qt_bert.scoring.bulk import Scorer
from tests.planning.offline.conftest import TaskOf

Folder = Callable[..., Path]


def with_facts(folder: Path, place: Path) -> Path:
    """A copy that says how it was trained."""
    shutil.copytree(folder, place)
    facts = {"schema": 1, "asked": {"seed": 0}, "texts_sha256": "t"}
    (place / "training.json").write_text(json.dumps(facts), encoding="utf-8")
    return place


@pytest.fixture
def pair_of(
    checkpoint_of: Folder, offline_checkpoint_of: Folder, tmp_path: Path
) -> Callable[..., RetrainedPair]:
    def build(**shape: int) -> RetrainedPair:
        shape = {"layers": 3} | shape
        return RetrainedPair(
            with_facts(offline_checkpoint_of("bert", below=2, **shape), tmp_path / "offline"),
            with_facts(checkpoint_of("bert", **shape), tmp_path / "control"),
        )

    return build


def qwk(task: PlanTask, folder: Path) -> float:
    """QWK of a folder's grades on validation, from its definition."""
    truth = np.array([one.grades[0] for one in task.validation.pairs if one.grades])
    given = Scorer(open_checkpoint(folder)).logits(task.validation.texts).argmax(1) + 1
    every = np.subtract.outer(truth, given) ** 2
    return float(1 - ((truth - given) ** 2).mean() / every.mean())


def test_the_offline_model_against_its_control(task_of: TaskOf, pair_of: Callable) -> None:
    task = task_of(pairs=60)
    task.retrained = pair_of()
    found = retrained_of(task)
    assert found is not None
    assert (found.layers, found.title_start, found.title_tokens) == (2, 12, 20)
    assert found.name == "offline" and found.control == "control"
    assert set(found.measured) == {"spearman", "qwk", "accuracy"}
    one = found.measured["qwk"]
    assert one.base == pytest.approx(qwk(task, task.retrained.control))
    assert one.value == pytest.approx(qwk(task, task.retrained.offline))
    assert one.change == pytest.approx(one.value - one.base)
    assert one.ci_low is not None and one.ci_low <= one.change <= (one.ci_high or 0)
    if one.base > 0:
        assert found.kept is not None and found.kept.value == pytest.approx(one.value / one.base)
    else:
        assert found.kept is None


def test_the_same_model_twice_keeps_everything(
    task_of: TaskOf, pair_of: Callable, offline_checkpoint_of: Folder, tmp_path: Path
) -> None:
    """A block that begins where no title is moved, of no layers: the control again."""
    task = task_of(pairs=60)
    control = pair_of().control
    same = offline_checkpoint_of("bert", below=0, start=3, tokens=40, layers=3)
    task.retrained = RetrainedPair(with_facts(same, tmp_path / "same"), control)
    found = retrained_of(task)
    assert found is not None
    assert all((o.change, o.ci_low, o.ci_high) == (0, 0, 0) for o in found.measured.values())


def test_of_one_logit_there_is_no_share_of_qwk(task_of: TaskOf, pair_of: Callable) -> None:
    task = task_of(labels=1)
    task.retrained = pair_of(labels=1)
    found = retrained_of(task)
    assert found is not None and found.kept is None and "spearman" in found.measured


def test_without_folders_there_is_nothing(task_of: TaskOf) -> None:
    assert retrained_of(task_of()) is None


@pytest.mark.parametrize(
    ("swap", "shape", "said"),
    [
        ("both", {}, "--offline .* has no offline layers"),
        ("control", {}, "--offline-control .* has 2 offline layers itself"),
        ("", {"layers": 2}, "2 layers of 2 heads and 5 outputs, and .* another shape"),
        ("", {"labels": 3}, "3 outputs"),
    ],
)
def test_pairs_that_are_none(
    task_of: TaskOf, pair_of: Callable, swap: str, shape: dict[str, int], said: str
) -> None:
    task, pair = task_of(), pair_of(**shape)
    task.retrained = {
        "both": RetrainedPair(pair.control, pair.control),
        "control": RetrainedPair(pair.offline, pair.offline),
        "": pair,
    }[swap]
    with pytest.raises(ArgumentError, match=said):
        retrained_of(task)
