"""`qt-bert evaluate`: how good the grades are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.show import metrics_table
from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions


@app.command(rich_help_panel=options.SCORING)
def evaluate(
    pairs: options.Pairs = None,
    model: options.Model = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Also by the values of this column (repeatable).")
    ] = None,
    errors: Annotated[
        Path | None, typer.Option(help="Write the pairs, furthest off first, to this file.")
    ] = None,
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    rejects: options.Rejects = None,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
    heads_out: options.HeadsOut = None,
    mode: options.HeadsOutMode = None,
    reference: options.Reference = None,
    title_states: options.TitleStates = None,
    calibrated: options.Calibrated = False,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of queries.")] = 2000,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Accuracy, ordinal, ranking and calibration figures, each with a 95 % interval."""
    path = opening.pairs_or_test(pairs)
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    asked.open(path)
    without = opening.HeadsOut.asked(heads_out, mode, reference, asked)
    if errors is not None:
        _check_errors(errors, path)
    from qt_bert.scoring.evaluate import evaluation_json, write_errors
    from qt_bert.scoring.judge import judge_file

    scorer = opening.open_scorer(
        model,
        dtype=dtype,
        max_length=max_length,
        model_grades=model_grades,
        heads_out=without,
        title_states=title_states,
    )
    calibration = opening.calibration_of(scorer, calibrated)
    judged = judge_file(path, asked, scorer, calibration=calibration, rejects_path=rejects)
    found = evaluation_json(
        judged, scorer, path, by=tuple(by or ()), resamples=resamples, seed=seed
    )
    if errors is not None:
        write_errors(errors, judged, scorer)
        opening.say(f"pairs furthest off: {errors}")
    opening.tell_rejects(judged.rejected, rejects)
    opening.tell_truncation(scorer)
    opening.tell_states(scorer)
    if as_json:
        typer.echo(json.dumps(_flat(found), ensure_ascii=False))
    else:
        typer.echo(metrics_table(found))


def _check_errors(errors: Path, pairs: Path) -> None:
    """Refuse a file that cannot be written, or must not be, before the model is opened."""
    from qt_bert.scoring.tables import growing_table

    if errors.resolve() == pairs.resolve():
        raise ArgumentError(f"--errors {errors} is the file of pairs itself; name another file")
    growing_table(errors, "--errors")
    if errors.exists():
        raise ArgumentError(f"--errors {errors} is there already; name another file or remove it")


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    """Metrics at the top level, the tables beside them."""
    kept = (
        "model",
        "pairs",
        "mode",
        "levels",
        "confusion",
        "per_grade",
        "pnr_counts",
        "slices",
        "guards",
    )
    return found["metrics"] | {name: found[name] for name in kept if name in found}
