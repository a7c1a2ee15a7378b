"""`qt-bert distill`: train a student by a plan, or the students that say whether the plan pays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qt_bert.cli import opening, options
from qt_bert.cli.opening import table
from qt_bert.cli.options import Overwrite, Resume
from qt_bert.errors import ArgumentError
from qt_bert.shipped import GRADED, shipped
from qt_bert.training.recipes import TrainingFiles, TuningOptions

if TYPE_CHECKING:
    from qt_bert.planning.distill import DistillJob
    from qt_bert.training.finetune import TuneSettings
    from qt_bert.training.recipes import PairSource


@options.command(options.SMALLER)
def distill(
    out: Annotated[Path, typer.Option(help="Folder of the finished student.")],
    plan: options.PlanFile,
    files: TrainingFiles,
    how: TuningOptions,
    unlabelled: Annotated[
        list[Path] | None,
        typer.Option(help="File with columns query and title, for what the teacher says of them."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The teacher's folder. [default: the checkpoint that ships]")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="End after so many steps, whatever the epochs.")
    ] = None,
    stop_on: Annotated[
        str | None, typer.Option(help="Metric of the dev file. [qwk; of one output, spearman]")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens a pair may take; the title is cut first.")
    ] = None,
    arms: Annotated[
        bool,
        typer.Option(
            "--arms",
            help="Does the plan pay? Train it and three rivals of one size on the same data and "
            "steps, 16 runs, and compare them; needs --dev.",
        ),
    ] = False,
    validation: Annotated[
        Path | None,
        typer.Option(help="With --arms: graded pairs, columns query, title, grade, for the end."),
    ] = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a smaller model to do what its teacher does, by a plan; goes on after a kill."""
    if validation is not None and not arms:
        raise ArgumentError("--validation goes with --arms")
    if how.patience and arms:
        raise ArgumentError("--arms trains all for the same steps: leave --patience out")
    stored = files.stored()
    sources = files.sources(stored, unlabelled)
    if not sources:
        raise ArgumentError("nothing to learn from: give --pairs, --unlabelled, or --recipe FILE")
    from qt_bert.models.folder import resolve_folder
    from qt_bert.planning.distill import DistillJob, LossWeights, Student
    from qt_bert.training.finetune import TuneSettings
    from qt_bert.training.recipes import PairSource, typed

    folder = resolve_folder(model if model is not None else shipped(GRADED))
    asked: dict[str, Any] = {"max_length": max_length, "stop_on": stop_on}
    values = {
        **stored.job,
        **{name: value for name, value in asked.items() if value is not None},
        "student": Student.of(plan, folder),
        "sources": tuple(sources),
        "dev": files.judge(stored),
        "loss": typed(LossWeights, stored.loss, f"{stored.where} [loss]"),
    }
    job = typed(DistillJob, values, f"{stored.where} [job]")
    given = how.over(stored.settings, max_steps=steps)
    settings = typed(TuneSettings, given, f"{stored.where} [settings]")
    with opening.resumable(out):
        if arms:
            source = PairSource(validation) if validation is not None else None
            _arms(job, out, settings, source, resume, overwrite)
        else:
            _one(job, out, settings, resume, overwrite)


def _one(job: DistillJob, out: Path, settings: TuneSettings, resume: bool, overwrite: bool) -> None:
    from qt_bert.planning.distill import run_distill

    facts = run_distill(job, out, settings, resume=resume, overwrite=overwrite)
    if facts:
        opening.say(json.dumps(facts["rows"], ensure_ascii=False))
        best = "not defined" if facts["best"] is None else f"{facts['best']:.4f}"
        opening.say(f"best {facts['figure']} {best} at step {facts['best_step']}: {out}")


def _arms(
    job: DistillJob,
    out: Path,
    settings: TuneSettings,
    validation: PairSource | None,
    resume: bool,
    overwrite: bool,
) -> None:
    from qt_bert.planning.arms import ARMS_FILE, rows_of, run_arms

    found = run_arms(job, out, settings, validation=validation, resume=resume, overwrite=overwrite)
    typer.echo(table(rows_of(found), left=3))
    typer.echo(f"\n{found.summary.en}\n{out / ARMS_FILE}")
