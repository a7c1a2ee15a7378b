"""`qt-bert score`: grade every pair of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.pairs.options import ReaderOptions


@app.command(rich_help_panel=options.SCORING)
def score(
    pairs: Annotated[Path, typer.Argument(help="File of pairs: .tsv .csv .jsonl .parquet")],
    out: Annotated[Path, typer.Option(help="Where the scores go; the suffix says the format.")],
    model: options.Model = None,
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
    heads_out: options.HeadsOut = None,
    mode: options.HeadsOutMode = None,
    reference: options.Reference = None,
    calibrated: options.Calibrated = False,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Grade every pair of a file: probabilities, predicted and expected grade beside its columns."""
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    asked.open(pairs)  # a file that cannot be read is said before the model is loaded
    without = opening.HeadsOut.asked(heads_out, mode, reference, asked)
    from qt_bert.scoring.score import score_file

    scorer = opening.open_scorer(
        model,
        dtype=dtype,
        max_length=max_length,
        model_grades=model_grades,
        heads_out=without,
    )
    calibration = opening.calibration_of(scorer, calibrated)
    with opening.resumable():
        report = score_file(
            pairs, asked, scorer, out, calibration=calibration, resume=resume, overwrite=overwrite
        )
    if report.already:
        opening.say(
            f"{out} is there already and nothing of it is unfinished; --overwrite redoes it"
        )
        return
    opening.tell_truncation(scorer)
    opening.tell_rejects(report.rejected, Path(f"{out}.rejects.tsv"))
    opening.say(f"{report.pairs:,} pairs scored: {out}")
