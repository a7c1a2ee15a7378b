"""`qt-bert report`: the main job."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.pairs.options import ReaderOptions
from qt_bert.shipped import GRADED, shipped


@app.command(rich_help_panel=options.STUDY)
def report(
    model: options.Model = None,
    pairs: options.Pairs = None,
    out: Annotated[Path, typer.Option(help="Run folder.")] = Path("report"),
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of queries.")] = 2000,
    seed: options.Seed = 0,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Evaluate a model on graded pairs and draw the report: report.html, report.json, tables."""
    path = opening.pairs_or_test(pairs)
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    asked.open(path)
    from qt_bert.encoder.checkpoint import resolve_folder
    from qt_bert.report import render
    from qt_bert.study import RunFolder, StudyContext, run_study
    from qt_bert.study.inputs import run_inputs
    from qt_bert.study.stages import stages

    folder = resolve_folder(model if model is not None else shipped(GRADED))
    arguments = {
        "reader": asdict(asked),
        "dtype": dtype,
        "max_length": max_length,
        "model_grades": model_grades,
        "resamples": resamples,
        "seed": seed,
    }
    run = RunFolder.open(
        out, run_inputs(folder, path, arguments), resume=resume, overwrite=overwrite
    )
    context = StudyContext(folder=run, model=folder, pairs=path)
    registered = list(stages())
    from qt_bert.progress import progress

    with opening.resumable(), progress(len(registered), "report", "stages") as shown:
        ran = run_study(registered, context, shown)
    page = render(out)
    opening.say("nothing changed since the last run" if not ran else f"ran: {', '.join(ran)}")
    typer.echo(f"report: {page.resolve()}")
