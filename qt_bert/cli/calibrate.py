"""`qt-bert calibrate`: a temperature and grade cut-offs, saved beside the model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions
from qt_bert.shipped import DEV, shipped


@app.command(rich_help_panel=options.SCORING)
def calibrate(
    model: Annotated[str, typer.Option(help="Model folder; its qt_bert.json is written.")],
    pairs: Annotated[
        Path | None, typer.Option(help="Dev file to fit on. [default: the dev split that ships]")
    ] = None,
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    rejects: options.Rejects = None,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
) -> None:
    """Fit a temperature and grade cut-offs on a dev file and save them beside the model."""
    path = pairs if pairs is not None else shipped(DEV)
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    asked.open(path)
    if not Path(model).is_dir():
        raise ArgumentError(f"--model {model}: no such folder; calibration is saved into it")
    from qt_bert.scoring.calibrate import calibrate_model

    scorer = opening.open_scorer(
        model, dtype=dtype, max_length=max_length, model_grades=model_grades
    )
    found = calibrate_model(path, asked, scorer, rejects_path=rejects)
    cuts = ", ".join(f"{cut:.3f}" for cut in found.cutoffs) or "none (coarse labels)"
    opening.say(f"temperature {found.temperature:.3f}; cut-offs {cuts}: saved in {model}")
    opening.say("they act only where --calibrated is given")
