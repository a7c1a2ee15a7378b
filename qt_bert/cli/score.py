"""`qt-bert score`: grade every pair of a file, or of many files on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options, score_ray
from qt_bert.cli.show import differences_table
from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer


@app.command(rich_help_panel=options.SCORING)
def score(
    pairs: Annotated[
        list[str],
        typer.Argument(
            help="File of pairs: .tsv .csv .jsonl .parquet; with --engine ray also several files, "
            "folders of them, and addresses such as s3://bucket/day."
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            help="Where the scores go; the suffix says the format. With --engine ray: a folder or "
            "its address."
        ),
    ],
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
    title_states: options.StatesPlace = None,
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
    engine: options.Engine = "local",
    address: options.Address = None,
    actors: options.Actors = None,
    rows_per_partition: options.RowsPerPartition = None,
    stall: options.Stall = None,
    dry_run: options.DryRun = False,
    price_per_hour: options.PricePerHour = None,
) -> None:
    """Grade every pair of a file: probabilities, predicted and expected grade beside its columns."""
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    cluster = score_ray.Asked(
        engine, address, actors, rows_per_partition, stall, dry_run, price_per_hour
    )
    if cluster.is_ray:
        other: dict[str, object] = {"--heads-out": heads_out, "--mode": mode}
        cluster.refuse(other | {"--reference": reference, "--compare-whole": compare_whole})
        job = score_ray.job_of(
            model,
            out,
            asked,
            dtype=dtype,
            max_length=max_length,
            model_grades=model_grades,
            title_states=title_states,
            calibrated=calibrated,
        )
        score_ray.score(pairs, job, cluster, resume=resume, overwrite=overwrite)
        return
    path = _one_file(pairs)
    asked.open(path)  # a file that cannot be read is said before the model is loaded
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
        title_states=None if title_states is None else Path(title_states),
    )
    calibration = opening.calibration_of(scorer, calibrated)
    with opening.resumable():
        report = score_file(
            path,
            asked,
            scorer,
            Path(out),
            calibration=calibration,
            resume=resume,
            overwrite=overwrite,
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
    _tell_change(path, asked, scorer, all_pairs=compare_whole)


def _one_file(pairs: list[str]) -> Path:
    """The file that is scored here. Raises ArgumentError where there are several."""
    if len(pairs) > 1:
        raise ArgumentError(
            f"{len(pairs)} inputs: --engine local scores one file; --engine ray scores many"
        )
    return Path(pairs[0])


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
