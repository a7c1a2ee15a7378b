"""`qt-bert distill`: train a student by a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from qt_bert.cli import options, terminal
from qt_bert.cli.options import Overwrite, Resume
from qt_bert.errors import ArgumentError
from qt_bert.shipped import GRADED, shipped
from qt_bert.training.recipes import LossOptions, TrainingFiles, TuningOptions


@options.command(options.SMALLER)
def distill(
    out: Annotated[Path, typer.Option(help="Folder of the finished student.")],
    plan: options.PlanFile,
    files: TrainingFiles,
    how: TuningOptions,
    what: LossOptions,
    unlabelled: options.Unlabelled = None,
    model: Annotated[
        str | None, typer.Option(help="The teacher's folder. [default: the checkpoint that ships]")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="End after so many steps, whatever the epochs.")
    ] = None,
    stop_on: Annotated[
        str | None, typer.Option(help="Metric of the dev file. [qwk; of one output, spearman]")
    ] = None,
    max_length: options.MaxLength = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a smaller model to do what its teacher does, by a plan; goes on after a kill."""
    stored = files.stored()
    sources = files.sources(stored, unlabelled)
    if not sources:
        raise ArgumentError("nothing to learn from: give --pairs, --unlabelled, or --recipe FILE")
    from qt_bert.models.folder import resolve_folder
    from qt_bert.planning.distill import IMITATION, DistillJob, Student, run_distill
    from qt_bert.training.finetune import TuneSettings
    from qt_bert.training.losses import LossWeights
    from qt_bert.training.recipes import typed

    folder = resolve_folder(model if model is not None else shipped(GRADED))
    asked: dict[str, Any] = {"max_length": max_length, "stop_on": stop_on}
    values = {
        **stored.job,
        **{name: value for name, value in asked.items() if value is not None},
        "student": Student.of(plan, folder),
        "sources": tuple(sources),
        "dev": files.judge(stored),
        "loss": LossWeights.read(what.loss, stored.loss, IMITATION, f"{stored.where} [loss]"),
        "teacher": what.source(),
    }
    job = typed(DistillJob, values, f"{stored.where} [job]")
    given = how.over(stored.settings, max_steps=steps)
    settings = typed(TuneSettings, given, f"{stored.where} [settings]")
    with terminal.resumable(out):
        facts = run_distill(
            job, out, settings, device=how.device, resume=resume, overwrite=overwrite
        )
    if facts:
        terminal.note(json.dumps(facts["rows"], ensure_ascii=False))
        best = "not defined" if facts["best"] is None else f"{facts['best']:.4f}"
        terminal.note(f"best {facts['figure']} {best} at step {facts['best_step']}: {out}")
