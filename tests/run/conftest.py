"""Small stages that count how often they ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from qt_bert.request import Request
from qt_bert.results.probe import ModelRef, PairsRef
from qt_bert.run.folder import RunFolder, RunInputs, Stage, StageContext, run_stages

ARGUMENTS = {"full": False, "seed": 5}


def make_inputs(*, model: str = "m1", pairs: str = "p1", **arguments: Any) -> RunInputs:
    return RunInputs(
        model=ModelRef(name="graded", sha256=model),
        pairs=PairsRef(name="test.tsv", sha256=pairs),
        arguments=ARGUMENTS | arguments,
    )


def write_full(context: StageContext) -> None:
    context.folder.file("grades.json").write_text(str(context.request.full))


def write_seed(context: StageContext) -> None:
    context.guards["difference"] = 2e-6
    context.folder.file("seed.json").write_text(str(context.request.seed))


def write_plan(context: StageContext) -> None:
    read = context.folder.file("seed.json").read_text()
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
            run=write_full,
            outputs=("grades.json",),
            arguments=("full",),
            quick_seconds=1,
        ),
        heads=Stage(
            name="heads",
            order=20,
            run=write_seed,
            outputs=("seed.json",),
            arguments=("seed",),
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
        inputs = make_inputs(**changes)
        folder = RunFolder.open(tmp_path / "run", inputs, resume=True)
        request = Request(full=inputs.arguments["full"], seed=inputs.arguments["seed"])
        context = StageContext(folder=folder, request=request)
        return run_stages(chosen or (stages.plan, stages.grades, stages.heads), context)

    return run
