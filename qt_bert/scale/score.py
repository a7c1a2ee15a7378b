"""Scoring many files on a Ray cluster: scan, ledger, cluster, proof of the nodes, work, the end."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from qt_bert.errors import ArgumentError
from qt_bert.pairs.parts import Part
from qt_bert.progress import progress
from qt_bert.results.codec import decode, encode
from qt_bert.scale.cluster.cluster import Cluster, available_cpus, cluster, cpus_of
from qt_bert.scale.cluster.engine import Bounds, run
from qt_bert.scale.filling import Filling, Patience
from qt_bert.scale.ledger.ledger import Asked, Ledger, Scanned
from qt_bert.scale.ledger.place_storage import storage_of
from qt_bert.scale.ledger.record import RunRecord, versions
from qt_bert.scale.nodes import prove_nodes
from qt_bert.scale.partition.job import STALL, ScoreJob
from qt_bert.scale.places.local import LocalPlace
from qt_bert.scale.places.naming import place_of
from qt_bert.scale.scanning.inputs import check_inputs, refuse_inside
from qt_bert.scale.scanning.scan import Scan, scan
from qt_bert.scale.scanning.sizes import rows_for_few, rows_for_model
from qt_bert.scale.score_worker import item_of, program, score_task
from qt_bert.scoring.columns import InputColumns
from qt_bert.sources import source_hash

LONGEST_STALL = 1_000_000
"""Seconds; clocks of the system count no further than some weeks."""

_SILENT_STALLS = 10
_LEAST_SILENCE = 1800.0


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """How a run is done, on which its scores do not depend.

    `address` of a cluster (None: a private one on this machine), `actors` of one CPU each (None: all
    CPUs), `rows` a partition (None: by model and input), and the `stall` seconds after which a
    partition counts as hanging. Raises ArgumentError for what cannot be meant.
    """

    address: str | None = None
    actors: int | None = None
    rows: int | None = None
    stall: float = STALL
    patience: Patience = Patience()

    def __post_init__(self) -> None:
        for name, value in (("--actors", self.actors), ("--rows-per-partition", self.rows)):
            if value is not None and value < 1:
                raise ArgumentError(f"{name} {value}: give at least 1")
        if not 0 < self.stall <= LONGEST_STALL:
            raise ArgumentError(
                f"--stall {self.stall:g}: give more than 0 seconds, and at most {LONGEST_STALL:,}"
            )


@dataclass(frozen=True)
class RayReport:
    """How a run ended: its record; whether it had ended before; partitions that were done again, with
    the reason; files of pairs that came after the scan, and are in no partition."""

    record: RunRecord
    already: bool
    put_back: Mapping[str, str] = field(default_factory=dict)
    late: Sequence[str] = ()


def score_on_ray(
    inputs: Sequence[str],
    job: ScoreJob,
    options: RayOptions,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> RayReport:
    """Score all pairs of `inputs`, files and folders and addresses of either, into the folder `job.out`.

    The job's columns are found by the scan. The run goes on where it stopped under `resume`, killed or
    not.

    Raises ArgumentError for a cluster that cannot be reached, a machine of it that cannot do the work,
    and results that would lie among the inputs; PairFileError, CheckpointError and RunFolderError as
    `Ledger`, `open_model` and `Filling` do. What is done is kept.
    """
    refuse_inside(job.out, inputs)
    with ExitStack() as stack:
        there = stack.enter_context(cluster(options.address)) if options.address else None
        plan = _Plan(list(inputs), _for_workers(job, options), options, actors_of(options, there))
        ledger = Ledger.open(
            storage_of(job.out), plan.scan, plan.asked, resume=resume, overwrite=overwrite
        )
        missing = ledger.missing()
        if ledger.record.complete:
            return RayReport(ledger.record, already=True)
        late: list[str] = []
        if missing:
            needed = {part.file for part in missing}
            late = check_inputs(inputs, ledger.record.scan["files"], needed)
            there = there or stack.enter_context(cluster(cpus=min(plan.actors, len(missing))))
            plan.fill(ledger, there, needed)
        return RayReport(ledger.finish(), False, ledger.put_back, late)


@dataclass
class _Plan:
    inputs: list[str]
    job: ScoreJob
    options: RayOptions
    actors: int

    def scan(self) -> Scanned:
        """Cut the inputs; what is found out besides goes to `run.json`."""
        found, rows = cut_inputs(self.inputs, self.job, self.options.rows, self.actors)
        facts = {
            "rows_per_partition": rows,
            "columns": encode(found.columns),
            "files": [asdict(file) for file in found.files],
            "skipped": found.skipped,
        }
        return Scanned(found.parts, facts)

    def asked(self, facts: Mapping[str, Any]) -> Asked:
        """What the run is to be, once its columns are known: the model is opened here."""
        from qt_bert.scale.partition.model import prepared

        columns: InputColumns = decode(InputColumns, facts["columns"], "the columns")
        self.job = prepared(replace(self.job, columns=columns))
        key = self.job.key() | {
            "source": source_hash(),
            **{f"version of {name}": version for name, version in versions().items()},
            "inputs": json.dumps(self.inputs, ensure_ascii=False),
            "--rows-per-partition": str(self.options.rows or facts["rows_per_partition"]),
        }
        return Asked(
            key=key,
            model={"model": self.job.model, "sha256": self.job.model_sha256},
            arguments=self._arguments(),
            settings=self._settings(),
            max_rejects=self.job.reader.max_rejects,
        )

    def fill(self, ledger: Ledger, there: Cluster, needed: Collection[str]) -> None:
        """Prove the machines of a cluster that is not our own, and have the work done."""
        record = ledger.record
        if not there.own:
            files = (file for file in record.scan["files"] if file["file"] in needed)
            sizes = {file["file"]: file["size"] for file in files}
            prove_nodes(there, sizes, self.job, program(), os.getcwd())
        with progress(record.rows, "scoring", "rows", done=ledger.rows_done) as shown:
            dispatch = partial(self._dispatch, there)
            Filling(ledger, dispatch, self._bounds.round, shown, self.options.patience).fill()

    def _dispatch(self, there: Cluster, parts: Sequence[Part]) -> Generator[str, None, None]:
        return run(there, [item_of(part) for part in parts], score_task(self.job), self._bounds)

    @property
    def _bounds(self) -> Bounds:
        silence = max(_LEAST_SILENCE, _SILENT_STALLS * self.options.stall)
        return Bounds(actors=self.actors, silence=silence)

    def _arguments(self) -> dict[str, Any]:
        described = self.job.describe()
        left_out = ("columns", "facts", "model_sha256", "stall")
        return {"inputs": self.inputs} | {n: v for n, v in described.items() if n not in left_out}

    def _settings(self) -> dict[str, Any]:
        options = self.options
        said = {"engine": "ray", "address": options.address, "stall": options.stall}
        return said | self._bounds.describe() | options.patience.describe()


def cut_inputs(
    inputs: Sequence[str], job: ScoreJob, rows: int | None, actors: int
) -> tuple[Scan, int]:
    """The scan of the inputs, and how many rows a partition has: `rows`, or what fits.

    Raises as `scan`.
    """
    wanted = rows or rows_for_model(job.model)
    found = scan(inputs, job.reader, wanted)
    fewer = wanted if rows else rows_for_few(found.rows, wanted, actors)
    if fewer == wanted:
        return found, wanted
    return scan(inputs, job.reader, fewer, shown=False), fewer


def actors_of(options: RayOptions, there: Cluster | None) -> int:
    """How many actors work: those asked for, or one a CPU of the cluster, or of this machine.

    Raises ArgumentError for a cluster that lends none.
    """
    known = available_cpus() if there is None else cpus_of(there)
    return options.actors or known


def _for_workers(job: ScoreJob, options: RayOptions) -> ScoreJob:
    """With paths from the root, for workers may start in other folders."""
    states = job.title_states
    return replace(
        job,
        model=_absolute(job.model),
        out=_absolute(job.out),
        title_states=None if states is None else _absolute(states),
        stall=options.stall,
    )


def _absolute(text: str) -> str:
    if not isinstance(place_of(text), LocalPlace):
        return text
    # Named once more: the working folder's own name may be no text.
    return str(place_of(os.path.realpath(text)))
