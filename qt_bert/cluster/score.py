"""Scoring many files on a Ray cluster, or estimating what that would take."""

from __future__ import annotations

import json
import math
import os
import platform
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from qt_bert.cluster.faults import disk_fault, is_fault, plain, score_halving
from qt_bert.cluster.ledger import Ledger, RunRequest, Scanned
from qt_bert.cluster.partition import STALL, ScoreJob
from qt_bert.cluster.places import LocalPlace, place_of
from qt_bert.cluster.ray import (
    Bounds,
    Cluster,
    EngineError,
    Node,
    available_cpus,
    cluster,
    cpus_of,
    first_line,
    load_ray,
    run,
)
from qt_bert.cluster.record import Fault, Line, RunRecord, from_text, versions
from qt_bert.cluster.scanning import (
    Scan,
    check_inputs,
    refuse_inside,
    rows_for_few,
    rows_for_model,
    scan,
)
from qt_bert.cluster.storage import BEGUN, storage_of
from qt_bert.cluster.worker import item_of, program, refuse_other_program, score_task
from qt_bert.codec import decode, encode
from qt_bert.data.pairs import Pair
from qt_bert.data.parts import FilePart
from qt_bert.errors import (
    ArgumentError,
    CheckpointError,
    PairFileError,
    QtBertError,
    RunFolderError,
)
from qt_bert.progress import Progress, progress
from qt_bert.scoring.tables import InputColumns
from qt_bert.sources import source_hash

# The proof of the nodes: before work begins each shows that it can do it, and do it the same way.


PROOF_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a node has to show: the inputs with their stored bytes, the job with its model, where it
    writes, and that it runs the same `program`. `folder` is where relative paths begin."""

    inputs: Mapping[str, int]
    job: ScoreJob
    program: Mapping[str, str]
    folder: str
    mark: str


def prove_nodes(
    cluster: Cluster,
    inputs: Mapping[str, int],
    job: ScoreJob,
    program: Mapping[str, str],
    folder: str,
    *,
    seconds: float = PROOF_SECONDS,
) -> None:
    """See that every machine of `cluster` that lends CPUs can score the parts of a prepared job.

    That is: it runs the same versions, sees each of the `inputs` (name → bytes), opens the same
    model, and writes where this process reads. Raises ArgumentError, naming the first machine where
    one of these fails, and where a machine does not answer within `seconds`.
    """
    cluster.call(_prove, cluster.nodes, inputs, job, program, folder, seconds)


def _prove(
    nodes: Sequence[Node],
    inputs: Mapping[str, int],
    job: ScoreJob,
    program: Mapping[str, str],
    folder: str,
    seconds: float,
) -> None:
    """In the process that is connected to the cluster."""
    ray = load_ray(private=False)
    asked = {}
    try:
        for node in nodes:
            mark = f"{BEGUN}/{node.id[:16]}.{secrets.token_hex(4)}.seen"
            question = Question(inputs=inputs, job=job, program=program, folder=folder, mark=mark)
            asked[node] = (question, _ask(ray, node, question))
        ready, _ = ray.wait(
            [answer for _, answer in asked.values()], num_returns=len(asked), timeout=seconds
        )
    except Exception as error:  # Ray raises whatever it meets
        raise ArgumentError(
            f"the cluster's machines cannot be asked ({first_line(error)})"
        ) from error
    faults = [
        fault
        for node, (question, answer) in asked.items()
        if (fault := _fault_of(ray, node, question, answer, answer in ready, seconds))
    ]
    if faults:
        others = f" ({len(faults) - 1} other machines fail too)" if len(faults) > 1 else ""
        raise ArgumentError(faults[0] + others)


def _ask(ray: Any, node: Node, question: Question) -> Any:
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
    task = ray.remote(num_cpus=0, max_retries=0)(look)
    return task.options(scheduling_strategy=strategy).remote(question)


def _fault_of(
    ray: Any, node: Node, question: Question, answer: Any, ready: bool, seconds: float
) -> str | None:
    """What is wrong with a node; None where nothing is. What it has written is taken away."""
    where = f"machine {node.address}"
    if not ready:
        return f"{where}: no answer within {seconds:g} seconds; see to it, or take it out of the cluster"
    try:
        fault = ray.get(answer)
    except Exception as error:  # Ray raises whatever it meets
        words = plain(str(error).strip().partition("\n")[0])[:200]
        return f"{where}: {type(error).__name__}: {words}; is qt-bert installed there as here?"
    if fault is not None:
        return f"{where}: {fault}"
    return _unseen(where, question)


def _unseen(where: str, question: Question) -> str | None:
    """Whether the node wrote where this process reads."""
    out = place_of(question.job.out)
    try:
        seen = out.exists(question.mark)
        out.delete(question.mark)
    except OSError as error:
        return disk_fault(error, str(out), "").message
    if seen:
        return None
    return (
        f"{where}: {out} is another folder there than here; give an --out that all machines share, "
        "by one path or address"
    )


def look(question: Question) -> str | None:
    """On the node: what is wrong, in words; None where nothing is."""
    try:
        refuse_other_program(question.program)
        return (
            _missing(question.inputs, question.folder)
            or _another_model(question.job)
            or _closed(question)
        )
    except BaseException as error:
        if not is_fault(error):
            raise
        known = isinstance(error, QtBertError)
        return plain(str(error)) if known else f"{type(error).__name__}: {plain(str(error))}"


def _missing(inputs: Mapping[str, int], folder: str) -> str | None:
    with suppress(OSError):
        os.chdir(folder)
    for name, size in inputs.items():
        try:
            found = place_of(name).size()
        except OSError as error:
            return (
                f"{name}: cannot be read there ({error.strerror or error}); give inputs that all "
                "machines see by the same name"
            )
        if found != size:
            return f"{name}: has {found:,} bytes there, and {size:,} where it was scanned"
    return None


def _another_model(job: ScoreJob) -> str | None:
    from qt_bert.cluster.partition import open_model

    open_model(job)
    return None


def _closed(question: Question) -> str | None:
    out = place_of(question.job.out)
    try:
        out.write_text(question.mark, platform.node())
    except OSError as error:
        return disk_fault(error, str(out), "").message
    return None


# The driver's part: hands out what is missing, records what comes back, and knows when to stop.


Dispatch = Callable[[Sequence[FilePart]], Generator[str, None, None]]
"""Has parts scored, and gives what is said of them, in any order; EngineError where it gives up."""

_HELD_SECONDS = 10.0
"""Where each record is a file of its own, lines wait so long for others to come along."""

_ERRORS: dict[str, type[QtBertError]] = {"input": PairFileError, "model": CheckpointError}


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often a partition with a fault that may pass is handed out, and how many rounds in a row may
    fail without a partition done: two may go to one that hangs, before it is scored apart."""

    attempts: int = 3
    idle_rounds: int = 3

    def describe(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@dataclass
class Filling:
    """One run's work: `round` partitions at a time go to `dispatch`."""

    ledger: Ledger
    dispatch: Dispatch
    round: int
    shown: Progress
    patience: Patience = Patience()
    _faults: Counter[str] = field(default_factory=Counter)
    _known: set[str] = field(default_factory=set)
    _held: list[Line] = field(default_factory=list)
    _flushed: float = 0.0

    def fill(self) -> None:
        """Until nothing is missing.

        Raises the error that a fault is: at once, or where it may pass when it comes again and again;
        RunFolderError where the engine gives up again and again; whatever the ledger raises. What was
        done is recorded in any case.
        """
        idle = 0
        while missing := self.ledger.missing():
            before = self.ledger.rows_done
            failure = self._hand_out(missing[: self.round])
            idle = 0 if self.ledger.rows_done > before else idle + 1
            if idle >= self.patience.idle_rounds:
                raise RunFolderError(self._given_up(idle, failure))

    def _hand_out(self, parts: Sequence[FilePart]) -> EngineError | None:
        try:
            with closing(self.dispatch(parts)) as answers:
                for text in answers:
                    self._take(text)
        except EngineError as error:
            return error
        finally:
            self._flush()
        return None

    def _take(self, text: str) -> None:
        said = from_text(text, "what a worker said")
        if isinstance(said, Fault):
            self._judge(said)
            return
        self._held.append(said)
        if said.partition not in self._known:
            self._known.add(said.partition)
            self.shown.advance(said.rows)
        held = time.monotonic() - self._flushed
        if self.ledger.storage.appends or held > _HELD_SECONDS:
            self._flush()

    def _flush(self) -> None:
        lines, self._held = self._held, []
        self._flushed = time.monotonic()
        if lines:
            self.ledger.done(*lines)

    def _judge(self, fault: Fault) -> None:
        """Raise the error that a fault is, unless it may pass and has not come too often."""
        self._faults[fault.partition] += 1
        passing = fault.again and fault.kind != "disk"
        if passing and self._faults[fault.partition] < self.patience.attempts:
            return
        raise _ERRORS.get(fault.kind, RunFolderError)(self._words(fault))

    def _words(self, fault: Fault) -> str:
        times = self._faults[fault.partition]
        often = f", {times} times" if times > 1 else ""
        text = f"{fault.message} (on {fault.node}{often}); {self._so_far()}"
        advice = {
            "memory": "memory ran out: give fewer --actors, and go on with --resume",
            "input": "see to the file and go on with --resume, or start anew with --overwrite",
        }
        if "--resume" in fault.message:
            return text
        known = "--overwrite" in fault.message
        return (
            f"{text}; {'--resume goes on' if known else advice.get(fault.kind, '--resume goes on')}"
        )

    def _given_up(self, idle: int, failure: EngineError | None) -> str:
        why = f"Ray gave up: {failure}" if failure else "no worker finished a partition"
        return (
            f"{self.ledger.storage}: {why} ({idle} rounds in a row); {self._so_far()}; see to the "
            "cluster, and --resume goes on"
        )

    def _so_far(self) -> str:
        return f"{self.ledger.rows_done:,} of {self.ledger.record.rows:,} rows are done"


# Scoring many files on a Ray cluster: scan, ledger, cluster, proof of the nodes, work, the end.


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

    def asked(self, facts: Mapping[str, Any]) -> RunRequest:
        """What the run is to be, once its columns are known: the model is opened here."""
        from qt_bert.cluster.partition import prepared

        columns: InputColumns = decode(InputColumns, facts["columns"], "the columns")
        self.job = prepared(replace(self.job, columns=columns))
        key = self.job.key() | {
            "source": source_hash(),
            **{f"version of {name}": version for name, version in versions().items()},
            "inputs": json.dumps(self.inputs, ensure_ascii=False),
            "--rows-per-partition": str(self.options.rows or facts["rows_per_partition"]),
        }
        return RunRequest(
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

    def _dispatch(self, there: Cluster, parts: Sequence[FilePart]) -> Generator[str, None, None]:
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


# What a scoring run would take: its partitions counted, a sample measured, the rest worked out.


SAMPLE_ROWS = 512
SAMPLE_SECONDS = 10.0
_FIRST_ROWS = 64
_PLACES = 8
"""Partitions that the sample is taken from, spread over all."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run would take. `sample_rows` were scored in `sample_seconds` on one thread here."""

    files: int
    skipped: int
    partitions: int
    rows_per_partition: int
    rows: int
    sample_rows: int
    sample_seconds: float
    actors: int
    machines: int

    @property
    def rate(self) -> float:
        """Rows a second that one actor scores, if it is as fast as this machine's thread."""
        return self.sample_rows / self.sample_seconds

    @property
    def seconds(self) -> float:
        """Until the last partition is done; the actors take whole partitions."""
        turns = math.ceil(self.partitions / self.actors)
        return turns * (self.rows / self.partitions) / self.rate

    @property
    def machine_hours(self) -> float:
        """Hours of all machines, busy or not."""
        return self.machines * self.seconds / 3600

    def cost(self, price_per_hour: float) -> float:
        """In the currency of the price of a machine and hour."""
        return self.machine_hours * price_per_hour


def estimate(inputs: Sequence[str], job: ScoreJob, options: RayOptions) -> Estimate:
    """Scan `inputs`, score a sample of them in this process, and work out the rest.

    At an address the cluster is asked for its CPUs; no cluster is started. Nothing is written. Raises
    as `scan`, `PairModel`, `cluster` and `actors_of` do; PairFileError where the sample holds no pair.
    """
    actors, machines = _at_hand(options)
    found, rows = cut_inputs(inputs, job, options.rows, actors)
    job = replace(job, columns=found.columns)
    sample_rows, seconds = _measure(job, found.parts)
    return Estimate(
        files=len(found.files),
        skipped=found.skipped,
        partitions=len(found.parts),
        rows_per_partition=rows,
        rows=found.rows,
        sample_rows=sample_rows,
        sample_seconds=seconds,
        actors=min(actors, len(found.parts)),
        machines=machines,
    )


def _at_hand(options: RayOptions) -> tuple[int, int]:
    """Actors and machines."""
    if options.address is None:
        return actors_of(options, None), 1
    with cluster(options.address) as there:
        return actors_of(options, there), len(there.nodes)


def _measure(job: ScoreJob, parts: Sequence[FilePart]) -> tuple[int, float]:
    """Pairs scored as a worker scores them, and the seconds that took.

    512 of them or, where that would take more than 10 seconds, as many as these allow.
    """
    from qt_bert.cluster.partition import PairModel, texts_of

    model = PairModel(job)
    texts = texts_of(_sample(job, parts))

    def seconds_of(rows: Sequence[tuple[str, str]]) -> float:
        started = time.perf_counter()
        model.outputs(score_halving(rows, model.answer, model.trial).logits)
        return max(time.perf_counter() - started, 1e-6)

    first = texts[:_FIRST_ROWS]
    fit = SAMPLE_SECONDS * len(first) / seconds_of(first)
    rows = texts[: max(len(first), min(len(texts), int(fit)))]
    return len(rows), seconds_of(rows)


def _sample(job: ScoreJob, parts: Sequence[FilePart]) -> list[Pair]:
    """Pairs from partitions spread over all, in turns; one window after the other would be of a day's
    hour."""
    from qt_bert.cluster.partition import rows_of

    places = min(_PLACES, len(parts))
    chosen = [parts[number * len(parts) // places] for number in range(places)]
    taken = [rows_of(part, job)[0] for part in chosen]
    share = math.ceil(SAMPLE_ROWS / max(1, len(taken)))
    pairs = [pair for one in taken for pair in one[:share]]
    pairs += [pair for one in taken for pair in one[share:]][: max(0, SAMPLE_ROWS - len(pairs))]
    if not pairs:
        raise PairFileError("the sample holds no pair; `qt-bert check` says what the rows are")
    return pairs[:SAMPLE_ROWS]
