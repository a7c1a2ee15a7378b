"""A plan alone in a folder of the user's: `plan.json`, and what it takes to go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from qt_bert.errors import ArgumentError
from qt_bert.planning.budget import count_kept, parse_budget
from qt_bert.results.plan import Plan
from qt_bert.study.context import StudyContext
from qt_bert.study.plan_stage import ASKED, PlanAsked, plan_stage
from qt_bert.study.probe_files import ProbeFiles
from qt_bert.study.record import RunInputs
from qt_bert.study.run_folder import RunFolder
from qt_bert.study.study import run_study

PAGE = "plan.html"
"""The plan to read, drawn once it is made."""


def run_plan(
    asked: PlanAsked,
    out: Path,
    inputs: RunInputs,
    *,
    model: Path,
    pairs: Path,
    files: ProbeFiles,
    resume: bool = False,
    overwrite: bool = False,
) -> Plan:
    """Make the plan in the folder `out`, or under `resume` go on with it, and return it.

    The folder is a run of one stage: `run.json` says what it was made from, `sweeps/` holds what
    survives a kill. Raises RunFolderError where the flags do not fit what lies there, ArgumentError
    for a budget that cannot be meant or met and for retrained models that cannot be compared,
    PairFileError for a file that cannot be read.
    """
    _check_budget(asked.budget, model)
    _check_retrained(asked)
    stage = plan_stage(asked, arguments=(ASKED,))
    if not stage.applies(inputs):
        raise ArgumentError(f"{model} was pruned itself; make the plan from its teacher")
    arguments: Mapping[str, object] = {**inputs.arguments, ASKED: asked.arguments(model)}
    folder = RunFolder.open(
        out, replace(inputs, arguments=arguments), resume=resume, overwrite=overwrite
    )
    # What is drawn there may be of another plan, and must not outlive this one's being stopped.
    folder.file(PAGE).unlink(missing_ok=True)
    context = StudyContext(folder=folder, model=model, pairs=pairs, files=files)
    run_study([stage], context)
    return Plan.read(folder.file("plan.json"))


def _check_retrained(asked: PlanAsked) -> None:
    """Refuse models that were not trained alike before a folder is made."""
    from qt_bert.planning.offline.recipe import check_same_recipe

    if asked.retrained is not None:
        check_same_recipe(*asked.retrained)


def _check_budget(asked: str, model: Path) -> None:
    """Refuse a number of heads or layers that the model does not have before a folder is made."""
    from qt_bert.encoder.loading import load_config

    budget, config = parse_budget(asked), load_config(model)
    layers = int(config.num_hidden_layers)
    totals = {"heads": layers * int(config.num_attention_heads), "layers": layers}
    if budget.kind_of in totals:
        count_kept(budget, totals[budget.kind_of])
