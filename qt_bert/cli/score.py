"""`qt-bert score`: grade every pair of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.show import differences_table
from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer


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
    title_states: options.TitleStates = None,
    compare_whole: Annotated[
        bool,
        typer.Option(
            "--compare-whole",
            help="With --title-states: also compute every pair whole, and print what reading changes; "
            "of float16 and int8 that is printed of the first pairs anyway.",
        ),
    ] = False,
    calibrated: options.Calibrated = False,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Grade every pair of a file: probabilities, predicted and expected grade beside its columns."""
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    asked.open(pairs)  # a file that cannot be read is said before the model is loaded
    without = opening.HeadsOut.asked(heads_out, mode, reference, asked)
    if compare_whole and title_states is None:
        raise ArgumentError("--compare-whole goes with --title-states")
    from qt_bert.scoring.score import score_file

    scorer = opening.open_scorer(
        model,
        dtype=dtype,
        max_length=max_length,
        model_grades=model_grades,
        heads_out=without,
        title_states=title_states,
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
    opening.tell_states(scorer)
    opening.tell_rejects(report.rejected, Path(f"{out}.rejects.tsv"))
    opening.say(f"{report.pairs:,} pairs scored: {out}")
    _tell_change(pairs, asked, scorer, all_pairs=compare_whole)


def _tell_change(pairs: Path, asked: ReaderOptions, scorer: Scorer, *, all_pairs: bool) -> None:
    """Print what reading title states changes: of a sample where they are not exact, or of all pairs."""
    if scorer.split is None or (scorer.split.states.dtype == "float32" and not all_pairs):
        return
    from qt_bert.scoring.title_states.comparing import SAMPLE, compare_whole

    found = compare_whole(pairs, asked, scorer, most=None if all_pairs else SAMPLE)
    typer.echo(
        f"largest difference of a logit to the model computed whole: {found.largest:.1e} "
        f"(the first {found.pairs:,} pairs)"
    )
    if found.metrics:
        typer.echo(f"{found.graded:,} of them have a grade:")
        typer.echo(differences_table(found.metrics, "whole", "with states"))
