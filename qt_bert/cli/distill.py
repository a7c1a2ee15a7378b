"""`qt-bert distill`: train a student by a plan, or the students that say whether the plan pays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.opening import table
from qt_bert.cli.options import Overwrite, Resume
from qt_bert.cli.train import dev_of, over, recipe_of
from qt_bert.errors import ArgumentError
from qt_bert.shipped import GRADED, shipped

if TYPE_CHECKING:
    from qt_bert.planning.distill import DistillJob
    from qt_bert.training.finetune import TuneSettings
    from qt_bert.training.recipes import PairSource, Recipe


@app.command(rich_help_panel=options.SMALLER)
def distill(
    out: Annotated[Path, typer.Option(help="Folder of the finished student.")],
    plan: options.PlanFile,
    pairs: Annotated[
        list[Path] | None, typer.Option(help="Graded file (repeat it for several).")
    ] = None,
    grades: Annotated[
        list[str] | None,
        typer.Option(help="What the labels of each --pairs mean, in the same order."),
    ] = None,
    columns: options.ColumnsOfEach = None,
    unlabelled: Annotated[
        list[Path] | None,
        typer.Option(help="File with columns query and title, for what the teacher says of them."),
    ] = None,
    no_header: options.NoHeader = False,
    max_rejects: options.MaxRejects = 0.01,
    recipe: options.Recipe = None,
    data: options.DataFolder = Path("."),
    model: Annotated[
        str | None, typer.Option(help="The teacher's folder. [default: the checkpoint that ships]")
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help="Graded file that judges the run (default: a tenth of the queries)."),
    ] = None,
    dev_grades: options.DevGrades = "",
    dev_columns: options.DevColumns = "",
    epochs: options.Epochs = None,
    steps: Annotated[
        int | None, typer.Option(help="End after so many steps, whatever the epochs.")
    ] = None,
    lr: options.Rate = None,
    slots: options.Slots = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many readings without a better one; 0: never.")
    ] = None,
    stop_on: Annotated[
        str | None, typer.Option(help="Metric of the dev file. [qwk; of one output, spearman]")
    ] = None,
    max_length: options.MaxLength = None,
    dtype: options.TrainingDtype = None,
    seed: options.TrainingSeed = None,
    no_compile: options.NoCompile = False,
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
    if patience and arms:
        raise ArgumentError("--arms trains all for the same steps: leave --patience out")
    from qt_bert.training.recipes import PairSource, one_for_each, unlabelled_of

    stored = recipe_of(recipe, data)
    read: dict[str, Any] = {"no_header": no_header, "max_rejects": max_rejects}
    sources = stored.pairs + one_for_each(pairs, grades, columns, **read)
    sources += unlabelled_of(unlabelled, **read)
    if not sources:
        raise ArgumentError("nothing to learn from: give --pairs, --unlabelled, or --recipe FILE")
    judged = dev_of(stored, dev, dev_columns, dev_grades, **read)
    job = _job(stored, plan, model, sources, judged, max_length, stop_on)
    settings = _settings(
        stored,
        {
            "epochs": epochs,
            "max_steps": steps,
            "lr": lr,
            "slots": slots,
            "patience": patience,
            "dtype": dtype,
            "seed": seed,
            "compile": False if no_compile else None,
        },
    )
    with opening.resumable(out):
        if arms:
            source = PairSource(validation) if validation is not None else None
            _arms(job, out, settings, source, resume, overwrite)
        else:
            _one(job, out, settings, resume, overwrite)


def _job(
    stored: Recipe,
    plan: Path,
    model: str | None,
    sources: list[PairSource],
    dev: PairSource | None,
    max_length: int | None,
    stop_on: str | None,
) -> DistillJob:
    from qt_bert.models.folder import resolve_folder
    from qt_bert.planning.distill import DistillJob, LossWeights, Student
    from qt_bert.training.recipes import typed

    folder = resolve_folder(model if model is not None else shipped(GRADED))
    asked = {"max_length": max_length, "stop_on": stop_on}
    made = {
        "student": Student.of(plan, folder),
        "sources": tuple(sources),
        "dev": dev,
        "loss": typed(LossWeights, stored.loss, f"{stored.where} [loss]"),
    }
    return typed(DistillJob, over(stored.job, asked) | made, f"{stored.where} [job]")


def _settings(stored: Recipe, given: dict[str, Any]) -> TuneSettings:
    from qt_bert.training.finetune import TuneSettings
    from qt_bert.training.recipes import typed

    return typed(TuneSettings, over(stored.settings, given), f"{stored.where} [settings]")


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
