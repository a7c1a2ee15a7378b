"""The plan as a stage: what it depends on, where it lies, and what it is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.planning.task import Effort
from qt_bert.report.stored import Stored
from qt_bert.results.plan import Plan
from qt_bert.results.probe import ModelRef, PairsRef
from qt_bert.run.folder import ProbeFiles, RunFolder, RunInputs
from qt_bert.run.stage import StudyContext, run_inputs, run_study
from qt_bert.run.stages import PlanRequest, plan_stage, stages
from tests.conftest import PAIRS

LEAST = Effort(
    profile="quick", choosing=12, measuring=12, heads=(0.5,), counts=1, draws=1, alone=2, bulk=4
)
Run = Callable[..., tuple[str, ...]]


@pytest.fixture
def run(checkpoint_of: Callable[..., Path], tmp_path: Path) -> Run:
    """Run the stage on a tiny model, always going on; returns the names of the stages that ran."""
    rows = [(f"{q}{copy}", t, g) for copy in range(3) for q, t, g in PAIRS]
    pairs = tmp_path / "pairs.tsv"
    text = "".join(f"{q}\t{t}\t{g}\n" for q, t, g in rows)
    pairs.write_text("query\ttitle\tgrade\n" + text, encoding="utf-8")

    def go(asked: PlanRequest, files: ProbeFiles | None = None, **changes: Any) -> Any:
        files = files or ProbeFiles()
        arguments = {
            "reader": asdict(ReaderOptions()),
            "dtype": "float32",
            "max_length": None,
            "model_grades": None,
            "resamples": 20,
            "seed": 0,
            "profile": "quick",
            **files.arguments(),
            **changes,
        }
        folder = RunFolder.open(
            tmp_path / "run", run_inputs(checkpoint_of(), pairs, arguments), resume=True
        )
        context = StudyContext(folder=folder, model=checkpoint_of(), pairs=pairs, files=files)
        return run_study([plan_stage(asked, folder="plan", quick=LEAST)], context)

    return go


def test_the_plan_lies_in_the_run_and_is_drawn_from_it(run: Run, tmp_path: Path) -> None:
    assert run(PlanRequest(budget="heads=0.5")) == ("plan",)
    folder = RunFolder.read(tmp_path / "run")
    plan = Plan.read(tmp_path / "run" / "plan" / "plan.json")
    assert plan.evidence is not None and plan.evidence.profile == "quick"
    assert folder.record.guards["plan"]["unmasked"] <= folder.record.guards["plan"]["bound"]
    offline = folder.record.guards["plan"]["offline"]
    assert plan.offline is not None and plan.offline.rows and plan.offline.guards == offline
    assert folder.record.stages["plan"].folders == ("sweeps/plan",)
    assert Stored(folder).plan
    assert run(PlanRequest(budget="heads=0.5")) == ()
    assert run(PlanRequest(budget="heads=0.5"), seed=1) == ("plan",)


def test_a_run_without_a_plan_has_no_section(tmp_path: Path) -> None:
    inputs = RunInputs(model=ModelRef(name="m", sha256="1"), pairs=PairsRef(name="p", sha256="2"))
    assert Stored(RunFolder.open(tmp_path / "empty", inputs)).plan is None


def test_queries_to_choose_on_are_none_to_test_on(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="are also in"):
        run(PlanRequest(budget="heads=0.5"), ProbeFiles(discovery=tmp_path / "pairs.tsv"))


def test_the_plan_comes_after_the_probes_that_every_run_has() -> None:
    listed = [stage for stage in stages()]
    names = [stage.name for stage in listed]
    plan = listed[names.index("plan")]
    assert plan.outputs == ("plan/plan.json",)
    assert "probe:redundancy" in plan.needs and "probe:shift" not in plan.needs
    assert all(names.index(name) < names.index("plan") for name in plan.needs)
