"""Small stages that count how often they ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from qt_bert.results.probe import ModelRef, PairsRef
from qt_bert.run.folder import RunFolder, RunInputs
from qt_bert.run.stage import Stage, StudyContext, run_study

ARGUMENTS = {"profile": "quick", "k": 5}


def make_inputs(*, model: str = "m1", pairs: str = "p1", **arguments: Any) -> RunInputs:
    return RunInputs(
        model=ModelRef(name="graded", sha256=model),
        pairs=PairsRef(name="test.tsv", sha256=pairs),
        arguments=ARGUMENTS | arguments,
        segmenter="jieba",
    )


def write_profile(context: StudyContext) -> None:
    context.folder.file("grades.json").write_text(context.argument("profile"))


def write_k(context: StudyContext) -> None:
    context.guards["difference"] = 2e-6
    context.folder.file("k.json").write_text(str(context.argument("k")))


def write_plan(context: StudyContext) -> None:
    read = context.folder.file("k.json").read_text()
    context.folder.file("plan.json").write_text(f"plan of {read}")


@dataclass(frozen=True)
class Stages:
    """Two independent stages and one that reads the second's result."""

    grades: Stage
    heads: Stage
    plan: Stage


@pytest.fixture
def stages() -> Stages:
    return Stages(
        grades=Stage(
            name="grades",
            order=10,
            run=write_profile,
            outputs=("grades.json",),
            arguments=("profile",),
            quick_seconds=1,
        ),
        heads=Stage(
            name="heads",
            order=20,
            run=write_k,
            outputs=("k.json",),
            arguments=("k",),
            quick_seconds=1,
        ),
        plan=Stage(
            name="plan",
            order=30,
            run=write_plan,
            outputs=("plan.json",),
            needs=("heads",),
            quick_seconds=1,
        ),
    )


@pytest.fixture
def inputs() -> Callable[..., RunInputs]:
    """Inputs of a run, any of them changed by keyword."""
    return make_inputs


@pytest.fixture
def study(tmp_path, stages) -> Callable[..., tuple[str, ...]]:
    """Run stages in one folder, always going on; returns the names of those that ran."""

    def run(*chosen, **changes):
        folder = RunFolder.open(tmp_path / "run", make_inputs(**changes), resume=True)
        context = StudyContext(folder=folder, model=tmp_path, pairs=tmp_path)
        return run_study(chosen or (stages.plan, stages.grades, stages.heads), context)

    return run
