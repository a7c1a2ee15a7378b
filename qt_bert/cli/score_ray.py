"""`qt-bert score --engine ray`: from options to a run on a cluster, and what it came to in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from qt_bert.cli import opening
from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions
from qt_bert.shipped import GRADED, shipped

if TYPE_CHECKING:
    from qt_bert.scale.dry_run import Estimate
    from qt_bert.scale.partition.job import ScoreJob
    from qt_bert.scale.score import RayOptions, RayReport

_ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Asked:
    """What the options of the engine say."""

    engine: str
    address: str | None = None
    actors: int | None = None
    rows: int | None = None
    stall: float | None = None
    dry_run: bool = False
    price_per_hour: float | None = None

    @property
    def is_ray(self) -> bool:
        """Whether Ray is asked for. Raises ArgumentError for options that go with it alone."""
        if self.engine not in _ENGINES:
            raise ArgumentError(f"--engine {self.engine}: give one of {', '.join(_ENGINES)}")
        if self.engine == "ray":
            return True
        for option, given in self._own():
            if given:
                raise ArgumentError(f"{option} goes with --engine ray")
        return False

    def refuse(self, options: dict[str, object]) -> None:
        """Raise ArgumentError for an option that Ray cannot do, and for a price without a dry run."""
        for option, given in options.items():
            if given:
                raise ArgumentError(
                    f"{option} and --engine ray: it is only done by --engine local, on this machine"
                )
        if self.price_per_hour is not None and not self.dry_run:
            raise ArgumentError("--price-per-hour goes with --dry-run")

    def options(self) -> RayOptions:
        """As the run takes them."""
        from qt_bert.scale.partition.job import STALL
        from qt_bert.scale.score import RayOptions

        stall = STALL if self.stall is None else self.stall
        return RayOptions(address=self.address, actors=self.actors, rows=self.rows, stall=stall)

    def _own(self) -> list[tuple[str, bool]]:
        return [
            ("--address", self.address is not None),
            ("--actors", self.actors is not None),
            ("--rows-per-partition", self.rows is not None),
            ("--stall", self.stall is not None),
            ("--dry-run", self.dry_run),
            ("--price-per-hour", self.price_per_hour is not None),
        ]


def job_of(
    model: str | None,
    out: str,
    reader: ReaderOptions,
    *,
    dtype: str,
    max_length: int | None,
    model_grades: str | None,
    title_states: str | None,
    calibrated: bool,
) -> ScoreJob:
    """What is to be done to each partition; its columns are found by the scan."""
    from qt_bert.encoder.hub import resolve_folder
    from qt_bert.scale.partition.job import ScoreJob
    from qt_bert.scoring.columns import InputColumns

    given = str(shipped(GRADED)) if model is None else model
    return ScoreJob(
        model=given if "://" in given else str(resolve_folder(given)),
        out=out,
        columns=InputColumns(False, ()),
        reader=reader,
        dtype=dtype,
        max_length=max_length,
        model_grades=model_grades,
        calibrated=calibrated,
        title_states=title_states,
    )


def score(
    inputs: Sequence[str], job: ScoreJob, asked: Asked, *, resume: bool, overwrite: bool
) -> None:
    """Run it, or say what it would take."""
    if asked.dry_run:
        from qt_bert.scale.dry_run import estimate

        _tell_estimate(estimate(inputs, job, asked.options()), asked)
        return
    from qt_bert.scale.score import score_on_ray

    with opening.resumable():
        report = score_on_ray(inputs, job, asked.options(), resume=resume, overwrite=overwrite)
    _tell(report, job.out)


def _tell(report: RayReport, out: str) -> None:
    if report.already:
        opening.say(f"{out} is there already and whole; --overwrite redoes it")
        return
    for partition, why in list(report.put_back.items())[:10]:
        opening.say(f"{partition} was done again: {why}")
    if report.late:
        opening.say(
            f"{len(report.late):,} files came after the scan and were not scored, the first is "
            f"{report.late[0]}; score them into another folder"
        )
    _tell_totals(report, out)


def _tell_totals(report: RayReport, out: str) -> None:
    totals = report.record.totals
    assert totals is not None
    if totals.truncated_titles or totals.truncated_queries:
        opening.say(
            f"{totals.truncated_titles:,} titles and {totals.truncated_queries:,} queries of "
            f"{totals.pairs:,} pairs were cut to fit (--max-length)"
        )
    if totals.states is not None:
        opening.say(
            f"{totals.states.read:,} pairs with stored title states; computed whole: "
            f"{totals.states.unknown_titles:,} with unknown titles, "
            f"{totals.states.long_queries:,} with long queries"
        )
    if totals.rejected:
        opening.say(f"{totals.rejected:,} rows rejected, listed in {out}/rejects.tsv")
    opening.say(f"{totals.pairs:,} pairs scored: {out}/parts")


def _tell_estimate(found: Estimate, asked: Asked) -> None:
    lines = [
        f"files          {found.files:,} ({found.skipped:,} others in the folders are skipped)",
        f"rows           {found.rows:,}",
        f"partitions     {found.partitions:,} of {found.rows_per_partition:,} rows",
        f"sample         {found.sample_rows:,} rows in {found.sample_seconds:.1f} s on one thread of "
        f"this machine: {found.rate:,.1f} rows/s",
        f"actors         {found.actors:,} on {_machines(found.machines)}",
        f"expected time  {_clock(found.seconds)}",
        f"machine-hours  {found.machine_hours:,.3g}",
    ]
    if asked.price_per_hour is not None:
        cost = found.cost(asked.price_per_hour)
        each = found.actors / found.machines
        lines.append(
            f"cost           {cost:,.2f} at {asked.price_per_hour:g} a machine-hour, a machine with "
            f"{each:,.3g} actors"
        )
    for line in lines:
        typer.echo(line)
    typer.echo(
        "assumes that every actor is as fast as this machine's thread, that all rows are pairs as "
        "long as the sample's, and that nothing fails; starting and ending (some twenty seconds) are "
        "left out"
    )


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number:,} machines"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
