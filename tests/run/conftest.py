"""Small stages that count how often they ran."""

from collections.abc import Callable
from typing import Any, NamedTuple

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


class Stages(NamedTuple):
    """Two independent stages and one that reads the second's result."""

    grades: Stage
    heads: Stage
    plan: Stage


@pytest.fixture
def stages() -> Stages:
    def stage(name, order, run, output, **options):
        outputs = (output,)
        return Stage(name=name, order=order, run=run, outputs=outputs, quick_seconds=1, **options)

    return Stages(
        stage("grades", 10, write_full, "grades.json", arguments=("full",)),
        stage("heads", 20, write_seed, "seed.json", arguments=("seed",)),
        stage("plan", 30, write_plan, "plan.json", needs=("heads",)),
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
