"""`qt-bert score`, here or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import options, terminal
from qt_bert.cluster.ray import EngineOptions
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.scores import column_of
from qt_bert.errors import ArgumentError
from qt_bert.request import HeadsOutOptions, ModelOptions
from qt_bert.shipped import TEST, shipped
from qt_bert.text import counted

if TYPE_CHECKING:
    from qt_bert.cluster.score import RayReport, ScoreJob
    from qt_bert.scoring.judge import PairScorer


SKIPPED_SHOWN = 10


def score_on_cluster(
    inputs: Sequence[str], job: ScoreJob, engine: EngineOptions, *, resume: bool, overwrite: bool
) -> None:
    """Run the job; status 1 where partitions failed, or files were skipped without --skip-others."""
    from qt_bert.cluster.score import score_on_ray

    out = job.out
    with terminal.resumable(None if "://" in out else Path(out)):
        report = score_on_ray(inputs, job, engine, resume=resume, overwrite=overwrite)
    if report.already:
        terminal.note(f"{out} is complete already; --overwrite redoes it")
    else:
        _note_counts(report, out)
    for name in report.skipped[:SKIPPED_SHOWN]:
        terminal.note(f"skipped: {name}")
    if report.skipped:
        terminal.note(
            f"{len(report.skipped):,} files in the folders have other suffixes than files of pairs (all are "
            f"listed in {out}/run.json); with --skip-others this is no error"
        )
    if report.failed or (report.skipped and not engine.skip_others):
        raise typer.Exit(1)


def _note_counts(report: RayReport, out: str) -> None:
    counts = report.counts
    if counts["truncated_titles"] or counts["truncated_queries"]:
        terminal.note(
            f"{counts['truncated_titles']:,} titles and {counts['truncated_queries']:,} queries of "
            f"{counts['pairs']:,} pairs were cut to fit (--max-length)"
        )
    if counts["rejected"]:
        listed = "" if report.failed else f", listed in {out}/rejects.tsv"
        terminal.note(f"{counted(counts['rejected'], 'row')} rejected{listed}")
    terminal.note(f"{counts['pairs']:,} pairs scored: {out}/parts")
    for name, why in report.failed.items():
        terminal.note(f"error: partition {name}: {why}")
    if report.failed:
        terminal.note(
            f"error: {len(report.failed):,} partitions failed, all others are done; --resume tries these "
            "again"
        )


def note_bill(
    inputs: Sequence[str], reader: ReaderOptions, scorer: PairScorer, engine: EngineOptions
) -> None:
    """Print an estimate of scoring `inputs`: rows, machines, time and cost."""
    from qt_bert.cluster.estimate import estimate

    ray = engine if engine.engine == "ray" else None
    bill = estimate(inputs, reader, scorer, ray, rows=engine.rows)
    scan = bill.scan
    on_gpu = f", {bill.gpu_memory / 1e6:,.0f} MB on a GPU" if bill.gpu_memory else ""
    lines = [
        f"files          {len(scan.files):,} ({len(scan.skipped):,} others in the folders are skipped)",
        f"rows           {bill.rows:,}",
        f"partitions     {bill.partitions:,} of {scan.rows_per_partition:,} rows",
        f"sample         {bill.sample_rows:,} rows in {bill.sample_seconds:.1f} s on {bill.device} of "
        f"this machine: {bill.rate:,.1f} rows/s",
        f"workers        {bill.workers:,} on {counted(bill.machines, 'machine')}",
        f"memory         {bill.memory / 1e6:,.0f} MB a worker{on_gpu}",
        f"expected time  {_clock(bill.seconds)}",
        f"machine-hours  {bill.machine_hours:,.3g}",
    ]
    if engine.price_per_hour is not None:
        cost = bill.machine_hours * engine.price_per_hour
        lines.append(f"cost           {cost:,.2f} at {engine.price_per_hour:g} a machine-hour")
    for line in lines:
        typer.echo(line)
    typer.echo(
        "assumes that every worker is as fast as this machine, that all rows are pairs as long as the "
        "sample's, and that nothing fails; starting and ending (some twenty seconds) are left out"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


@options.command(options.SCORING)
def score(
    model: ModelOptions,
    reader: options.Reader,
    without: HeadsOutOptions,
    engine: EngineOptions,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            help="File of pairs: .tsv .csv .jsonl .parquet; with --engine ray also several files, "
            "folders of them, and addresses such as s3://bucket/day."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="File for the scores, in the format of its suffix. With --engine ray: a folder or "
            "its address."
        ),
    ] = None,
    calibrated: options.Calibrated = False,
    calibration: options.Calibration = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Grade every pair of a file: add probabilities, predicted and expected grade to its columns."""
    if not pairs and engine.rows is None:
        raise ArgumentError("give a file of pairs, or with --dry-run --rows N")
    if column_of(model.model) is not None:
        raise ArgumentError(f"--model {model.model} is a column of scores; score needs a model")
    if out is None and not engine.dry_run:
        raise ArgumentError("no file for the scores: give --out FILE")
    pairs = pairs or [str(shipped(TEST))]
    if engine.engine == "ray":
        if without.heads_out is not None:
            raise ArgumentError(
                "--heads-out and --engine ray do not go together; give --engine local"
            )
        from qt_bert.cluster.score import PartScorer, ScoreJob

        job = ScoreJob.of(model, reader, out or "", calibration or calibrated)
        if engine.dry_run:
            from qt_bert.codec import encode

            note_bill(pairs, reader, PartScorer(encode(job)).scorer, engine)
        else:
            score_on_cluster(pairs, job, engine, resume=resume, overwrite=overwrite)
        return
    if len(pairs) > 1:
        raise ArgumentError(
            f"{len(pairs)} inputs: --engine local scores one file; --engine ray scores many"
        )
    path = Path(pairs[0])
    reader.open(path)  # a file that cannot be read is an error before the model is opened
    from qt_bert.run.scorers import open_scorer
    from qt_bert.scoring.judge import requested_calibration
    from qt_bert.scoring.score import score_file

    scorer = open_scorer(model, without, reader, notify=terminal.note)
    applied = requested_calibration(scorer, calibration or calibrated)
    if engine.dry_run or out is None:
        note_bill(pairs, reader, scorer, engine)
        return
    with terminal.resumable(Path(out)):
        report = score_file(
            path, reader, scorer, Path(out), calibration=applied, resume=resume, overwrite=overwrite
        )
    if report.already:
        terminal.note(f"{out} is complete already; --overwrite redoes it")
        return
    terminal.note_counts(scorer)
    terminal.note_rejects(report.rejected, Path(f"{out}.rejects.tsv"))
    terminal.note(f"{report.pairs:,} pairs scored: {out}")
