"""`qt-bert score`, here or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import options, terminal
from qt_bert.cluster.ray import RayOptions
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.run.inputs import HeadsOutOptions, ModelOptions
from qt_bert.shipped import GRADED, TEST, shipped

if TYPE_CHECKING:
    from qt_bert.cluster.score import RayReport, ScoreJob
    from qt_bert.scoring.judge import PairScorer


# `qt-bert score --engine ray`: from options to a run on a cluster, and what it came to in words.


_ENGINES = ("local", "ray")
SKIPPED_SHOWN = 10
_PANEL = {"rich_help_panel": "Cluster · 集群"}


@dataclass(frozen=True, kw_only=True)
class EngineOptions(RayOptions):
    """Who scores, and how on a cluster. Raises ArgumentError for options that go with Ray alone."""

    engine: str = field(default="local", metadata=_PANEL)
    """Who does the work: local, this process; or ray, actors on this machine or a cluster."""
    dry_run: bool = field(default=False, metadata=_PANEL)
    """Write nothing: count the rows, measure a sample, say what the run would take."""
    rows: int | None = field(default=None, metadata={**_PANEL, "min": 1})
    """With --dry-run: for so many rows; without a file the sample is of pairs that ship."""
    price_per_hour: float | None = field(default=None, metadata={**_PANEL, "min": 0})
    """With --dry-run: what a machine costs an hour."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine not in _ENGINES:
            raise ArgumentError(f"--engine {self.engine}: give one of {', '.join(_ENGINES)}")
        for one in fields(RayOptions):
            if self.engine != "ray" and getattr(self, one.name) != one.default:
                raise ArgumentError(f"--{one.name.replace('_', '-')} goes with --engine ray")
        if not self.dry_run and (self.rows, self.price_per_hour) != (None, None):
            raise ArgumentError("--rows and --price-per-hour go with --dry-run")


def score_on_cluster(
    inputs: Sequence[str], job: ScoreJob, asked: EngineOptions, *, resume: bool, overwrite: bool
) -> None:
    """Run it; status 1 where partitions failed, or files were skipped and that was not asked for."""
    from qt_bert.cluster.score import score_on_ray

    out = job.out
    with terminal.resumable(None if "://" in out else Path(out)):
        report = score_on_ray(inputs, job, asked, resume=resume, overwrite=overwrite)
    if report.already:
        terminal.note(f"{out} is there already and whole; --overwrite redoes it")
    else:
        _note_counts(report, out)
    for name in report.skipped[:SKIPPED_SHOWN]:
        terminal.note(f"skipped: {name}")
    if report.skipped:
        terminal.note(
            f"{len(report.skipped):,} files in the folders are not of pairs by their names (all are listed "
            f"in {out}/run.json); with --skip-others this is no error"
        )
    if report.failed or (report.skipped and not asked.skip_others):
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
        terminal.note(f"{counts['rejected']:,} rows rejected{listed}")
    terminal.note(f"{counts['pairs']:,} pairs scored: {out}/parts")
    for name, why in report.failed.items():
        terminal.note(f"error: partition {name}: {why}")
    if report.failed:
        terminal.note(
            f"error: {len(report.failed):,} partitions failed, all others are done; --resume tries these "
            "again"
        )


def note_bill(
    inputs: Sequence[str], reader: ReaderOptions, scorer: PairScorer, asked: EngineOptions
) -> None:
    """Measure and print what scoring `inputs` would take."""
    from qt_bert.cluster.estimate import estimate

    options = asked if asked.engine == "ray" else None
    found = estimate(inputs, reader, scorer, options, rows=asked.rows)
    scan = found.scan
    on_gpu = f", {found.gpu_memory / 1e6:,.0f} MB on a GPU" if found.gpu_memory else ""
    lines = [
        f"files          {len(scan.files):,} ({len(scan.skipped):,} others in the folders are skipped)",
        f"rows           {found.rows:,}",
        f"partitions     {found.partitions:,} of {scan.rows_per_partition:,} rows",
        f"sample         {found.sample_rows:,} rows in {found.sample_seconds:.1f} s on {found.device} of "
        f"this machine: {found.rate:,.1f} rows/s",
        f"workers        {found.workers:,} on {_machines(found.machines)}",
        f"memory         {found.memory / 1e6:,.0f} MB a worker{on_gpu}",
        f"expected time  {_clock(found.seconds)}",
        f"machine-hours  {found.machine_hours:,.3g}",
    ]
    if asked.price_per_hour is not None:
        cost = found.machine_hours * asked.price_per_hour
        lines.append(f"cost           {cost:,.2f} at {asked.price_per_hour:g} a machine-hour")
    for line in lines:
        typer.echo(line)
    typer.echo(
        "assumes that every worker is as fast as this machine, that all rows are pairs as long as the "
        "sample's, and that nothing fails; starting and ending (some twenty seconds) are left out"
    )


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number:,} machines"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


# `qt-bert score`: grade every pair of a file, or of many files on a cluster.


@options.command(options.SCORING)
def score(
    model: ModelOptions,
    reader: options.Reader,
    without: HeadsOutOptions,
    cluster: EngineOptions,
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
            help="Where the scores go; the suffix says the format. With --engine ray: a folder or "
            "its address."
        ),
    ] = None,
    calibrated: options.Calibrated = False,
    calibration: options.Calibration = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Grade every pair of a file: probabilities, predicted and expected grade beside its columns."""
    if not pairs and cluster.rows is None:
        raise ArgumentError("give a file of pairs; with --dry-run, --rows may stand for it")
    if out is None and not cluster.dry_run:
        raise ArgumentError("--out FILE says where the scores go")
    pairs = pairs or [str(shipped(TEST))]
    if cluster.engine == "ray":
        if without.asked:
            raise ArgumentError(
                "--heads-out and --engine ray: it is only done by --engine local, on this machine"
            )
        from qt_bert.cluster.score import ScoreJob
        from qt_bert.codec import encode
        from qt_bert.models.devices import open_device
        from qt_bert.models.folder import resolve_folder

        if model.device not in ("auto", "cpu", "cuda"):
            raise ArgumentError(
                f"--device {model.device} and --engine ray: Ray hands out the GPUs; give auto, cpu or cuda"
            )

        job = ScoreJob(
            model=str(resolve_folder(shipped(GRADED) if model.model is None else model.model)),
            out=out or "",
            reader=reader,
            dtype=model.dtype,
            device=open_device(model.device).type,
            max_length=model.max_length,
            model_grades=model.model_grades,
            reading=model.reading,
            calibrated=str(calibration) if calibration else calibrated,
        )
        if cluster.dry_run:
            from qt_bert.cluster.score import PartScorer

            note_bill(pairs, reader, PartScorer(encode(job)).scorer, cluster)
            return
        score_on_cluster(pairs, job, cluster, resume=resume, overwrite=overwrite)
        return
    if len(pairs) > 1:
        raise ArgumentError(
            f"{len(pairs)} inputs: --engine local scores one file; --engine ray scores many"
        )
    path = Path(pairs[0])
    reader.open(path)  # a file that cannot be read is said before the model is loaded
    from qt_bert.scoring.judge import requested_calibration
    from qt_bert.scoring.score import score_file

    scorer = model.open_scorer(without, reader, notify=terminal.note)
    applied = requested_calibration(scorer, calibration or calibrated)
    if cluster.dry_run or out is None:
        note_bill(pairs, reader, scorer, cluster)
        return
    with terminal.resumable(Path(out)):
        report = score_file(
            path,
            reader,
            scorer,
            Path(out),
            calibration=applied,
            resume=resume,
            overwrite=overwrite,
        )
    if report.already:
        terminal.note(
            f"{out} is there already and nothing of it is unfinished; --overwrite redoes it"
        )
        return
    terminal.note_truncation(scorer)
    terminal.note_rejects(report.rejected, Path(f"{out}.rejects.tsv"))
    terminal.note(f"{report.pairs:,} pairs scored: {out}")
