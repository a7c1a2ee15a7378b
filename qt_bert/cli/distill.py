"""`qt-bert distill`: train a student by a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qt_bert.cli import options
from qt_bert.cli.options import Overwrite, Resume
from qt_bert.cli.train import tune
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
        int | None, typer.Option(help="End after so many steps, over any number of epochs.")
    ] = None,
    stop_on: Annotated[
        str | None, typer.Option(help="Metric of the dev file. [qwk; of one output, spearman]")
    ] = None,
    max_length: options.MaxLength = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a smaller model to imitate its teacher, by a plan; resumes after a kill."""
    from qt_bert.models.folder import resolve_folder
    from qt_bert.planning.distill import DistillJob, Student

    folder = resolve_folder(model if model is not None else shipped(GRADED))
    tune(
        DistillJob,
        out,
        files,
        how,
        what,
        unlabelled,
        student=Student.of(plan, folder),
        stop_on=stop_on,
        max_length=max_length,
        steps=steps,
        resume=resume,
        overwrite=overwrite,
    )
