"""Score many files on a cluster: each partition becomes a part file; a run resumes with missing ones."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from qt_bert.cluster.partitions import refuse_inside, scan
from qt_bert.cluster.places import Place
from qt_bert.cluster.ray import RayOptions, check_address, run_on_ray
from qt_bert.codec import decode, encode
from qt_bert.data.pairs import EXCERPT_CHARACTERS, Pair, Reject
from qt_bert.data.parquet import arrow_column
from qt_bert.data.parts import FilePart, read_part
from qt_bert.data.reader import ReaderOptions, check_share, one_line, too_many
from qt_bert.errors import (
    ArgumentError,
    CheckpointError,
    PairFileError,
    QtBertError,
    RunFolderError,
)
from qt_bert.models.card import Reading
from qt_bert.models.devices import STREAM, bound_kernel_caches, device_name, open_device
from qt_bert.models.folder import resolve_folder
from qt_bert.models.opening import open_checkpoint
from qt_bert.progress import progress
from qt_bert.request import ModelOptions
from qt_bert.resume import RECORD, begun_otherwise, differing, goes_on
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import Outputs, read_outputs, requested_calibration
from qt_bert.scoring.tables import InputColumns
from qt_bert.shipped import GRADED, installed_versions, shipped, source_hash

PARTS, REJECTS = "parts", "rejects.tsv"
METADATA = b"qt_bert"
"""The key of a part file's metadata that holds its counts and rejects."""
CHECKED_FROM = 10_000
"""Rows that are scored before a run is stopped for its rejects."""
READERS = 16
"""Threads that read metadata of part files."""


@dataclass(frozen=True, kw_only=True)
class ScoreJob:
    """All that the bytes of a part file depend on.

    `out` is a path or an address; `model` and a file `calibrated` are paths that exist on all machines;
    `device` is `cpu`, or `cuda` for the GPU that Ray assigns an actor. `facts` of the opened model are
    compared in each actor.
    """

    model: str
    out: str
    columns: InputColumns = InputColumns(False, ())
    reader: ReaderOptions = ReaderOptions()
    dtype: str = "float32"
    device: str = "cpu"
    max_length: int | None = None
    model_grades: str | None = None
    reading: Reading = Reading()
    calibrated: bool | str = False
    facts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, model: ModelOptions, reader: ReaderOptions, out: str, calibrated: bool | Path
    ) -> ScoreJob:
        """The job of these options. Raises ArgumentError for a device that Ray cannot choose."""
        if model.device not in ("auto", "cpu", "cuda"):
            raise ArgumentError(
                f"--device {model.device} and --engine ray: Ray assigns the GPUs; give auto, cpu or cuda"
            )
        return cls(
            model=str(resolve_folder(shipped(GRADED) if model.model is None else model.model)),
            out=out,
            reader=reader,
            dtype=model.dtype,
            device=open_device(model.device).type,
            max_length=model.max_length,
            model_grades=model.model_grades,
            reading=model.reading,
            calibrated=str(calibrated) if isinstance(calibrated, Path) else calibrated,
        )


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The content of `run.json`: `key`, all that the scored rows depend on; `counts`, once `complete`."""

    kind: str = "score-ray"
    schema: int = 3
    key: Mapping[str, str]
    arguments: Mapping[str, Any]
    columns: InputColumns
    files: tuple[str, ...]
    skipped: tuple[str, ...]
    rows: int
    partitions: tuple[FilePart, ...]
    complete: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RayReport:
    """The result of a run: `counts` over all parts; `skipped` files that are not of pairs; `failed`,
    partition → reason; `already`: it was finished before."""

    counts: Mapping[str, int]
    skipped: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    already: bool = False


# In the process of an actor.


class PartScorer:
    """Scores partitions of a job on one thread with one open model.

    A part file depends only on its partition. Raises CheckpointError where the model or this program
    differs from the run's `facts`, and as opening the model does.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job: ScoreJob = decode(ScoreJob, job, "the job")
        torch.set_num_threads(1)
        bound_kernel_caches(STREAM)
        parallel = "false" if self.job.device == "cpu" else "true"  # one thread starves a GPU
        os.environ.setdefault("TOKENIZERS_PARALLELISM", parallel)
        self.out = Place.of(self.job.out)
        checkpoint = open_checkpoint(
            self.job.model,
            dtype=self.job.dtype,
            device=self.job.device,
            model_grades=self.job.model_grades,
            reading=self.job.reading,
            compact=True,
        )
        self.scorer = Scorer(checkpoint, max_length=self.job.max_length)
        self.calibration = requested_calibration(self.scorer, self.job.calibrated)
        if self.job.facts and (changed := differing(self.job.facts, self.facts())):
            raise CheckpointError(
                f"{self.job.model}: the run was begun with another {', '.join(changed)}; install the same "
                "everywhere, give every machine the same files, and go on with --resume"
            )
        # One pair, for the types of columns; refuses a model without finite logits.
        self._sample = self.outputs(self.scorer.fresh().logits([("问题", "标题")])).columns()

    def facts(self) -> dict[str, str]:
        """Name → value of all that scores depend on beside the options."""
        versions = installed_versions("pyarrow")
        return {
            **self.scorer.identity(),
            "device": device_name(self.scorer.checkpoint.device),
            "calibration": "" if self.calibration is None else repr(self.calibration),
            "source of qt-bert": source_hash(),
            **{f"version of {name}": version for name, version in versions.items()},
        }

    def __call__(self, item: str) -> dict[str, Any]:
        """Score the partition that `item` describes and write its part file; its counts.

        Errors of the partition are returned as `failed`, never raised; an unwritable folder as `fatal`.
        """
        part: FilePart = decode(FilePart, json.loads(item), "a part")
        result: dict[str, Any] = {"part": part.name(), "node": socket.gethostname()}
        try:
            table, counts = self.score(part)
        except QtBertError as error:
            return result | {"failed": str(error)}
        except (Exception, MemoryError) as error:  # a row on which a library fails
            return result | {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        try:
            self.out.join(part_file(part)).write(table)
        except OSError as error:
            return {"fatal": f"machine {result['node']}: {self.out}: cannot be written ({error})"}
        return result | {"counts": counts}

    def score(self, part: FilePart) -> tuple[bytes, dict[str, int]]:
        """The bytes of a part file, and its counts. Raises PairFileError for an unreadable or changed
        file, and a column that its first rows lack."""
        pairs, rejects = rows_of(part, self.job.reader)
        self.job.columns.table(pairs, {}, part.file)  # refuses a late column before the model runs
        scorer = self.scorer.fresh()
        texts = [(pair.query, pair.title) for pair in pairs]
        empty: dict[str, list[Any]] = {name: [] for name in self._sample}
        outputs = self.outputs(scorer.logits(texts)).columns() if texts else empty
        outputs |= {"file": [part.file] * len(pairs), "line": [pair.line for pair in pairs]}
        columns = self.job.columns.table(pairs, outputs, part.file)
        types = {name: pa.string() for name in columns} | {"line": pa.int64()}
        types |= {n: pa.float32() for n, v in self._sample.items() if isinstance(v[0], np.floating)}
        counts = {
            "pairs": len(pairs),
            "rejected": len(rejects),
            "truncated_titles": scorer.counts.truncated_titles,
            "truncated_queries": scorer.counts.truncated_queries,
        }
        metadata = {"rows": part.rows, "counts": counts, "file": part.file, "rejects": rejects}
        typed = self.job.columns.typed
        table = pa.table(
            {
                name: arrow_column(cells)
                if typed and types[name] == pa.string()
                else pa.array(cells, types[name])
                for name, cells in columns.items()
            }
        ).replace_schema_metadata({METADATA: json.dumps(metadata).encode()})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        return sink.getvalue().to_pybytes(), counts

    def outputs(self, logits: np.ndarray) -> Outputs:
        """The outputs for logits [n, K], with the job's calibration."""
        return read_outputs(logits, self.scorer.checkpoint.settings.labels, self.calibration)


def rows_of(part: FilePart, reader: ReaderOptions) -> tuple[list[Pair], list[list[Any]]]:
    """The pairs of a part, and line, reason and text of its rejects. Raises PairFileError."""
    pairs: list[Pair] = []
    rejects: list[list[Any]] = []
    try:
        for row in read_part(part, reader, Place.of(part.file).location):
            if isinstance(row, Reject):
                text = row.text[:EXCERPT_CHARACTERS].encode("utf-8", "backslashreplace").decode()
                rejects.append([row.line, str(row.reason), text])
            else:
                pairs.append(row)
    except (OSError, ArgumentError) as error:  # ArgumentError: an unreachable address
        raise PairFileError(f"{part.file}: cannot be read ({error})") from error
    return pairs, rejects


def part_file(part: FilePart) -> str:
    """The path of a partition's part file in the run folder."""
    return f"{PARTS}/part-{part.name()}.parquet"


# In the process of the command.


Dispatch = Callable[[ScoreJob, Sequence[FilePart]], Iterator[Mapping[str, Any]]]
"""Scores parts; yields the results of `PartScorer` in any order."""


def score_on_ray(
    inputs: Sequence[str],
    job: ScoreJob,
    options: RayOptions,
    *,
    resume: bool = False,
    overwrite: bool = False,
    dispatch: Dispatch | None = None,
) -> RayReport:
    """Score all pairs of `inputs` (files, folders, addresses of either) into the folder `job.out`.

    `resume` reads the inputs again, and scores the partitions whose part file is missing. A partition that
    fails is in the report's `failed`, all others are scored; `resume` tries it again. `dispatch` replaces Ray.

    Raises ArgumentError for an unreachable cluster and an `out` inside the inputs; PairFileError for
    unreadable inputs and too many rejects; CheckpointError as opening the model does; RunFolderError where
    the flags do not fit `job.out`, its run had other inputs, or Ray gives up. Finished part files are kept.
    """
    refuse_inside(job.out, inputs)
    check_share(job.reader.max_rejects)
    check_address(options.address)
    out = Place.of(job.out)
    if out.filesystem is None:  # actors may start in other folders
        out = Place.of(os.path.realpath(job.out))
    if isinstance(job.calibrated, str):
        job = replace(job, calibrated=os.path.realpath(job.calibrated))
    job = replace(job, model=os.path.realpath(job.model), out=str(out))
    record = _existing(out, resume=resume, overwrite=overwrite)
    job = replace(job, facts=PartScorer(encode(job)).facts())
    key = {
        **job.facts,
        "--columns": job.reader.columns or "",
        "--no-header": str(job.reader.no_header),
        "--grades": job.reader.grades or "",
        "inputs": json.dumps(list(inputs), ensure_ascii=False),
        "--rows-per-partition": str(options.rows_per_partition),
    }
    if record is not None and (changed := differing(record.key, key)):
        raise begun_otherwise(out, changed)
    scanned = scan(inputs, job.reader, options.rows_per_partition)
    if record is None:
        record = RunRecord(
            key=key,
            arguments={"inputs": list(inputs), "model": job.model},
            columns=scanned.columns,
            files=tuple(scanned.files),
            skipped=tuple(scanned.skipped),
            rows=scanned.rows,
            partitions=tuple(scanned.parts),
        )
        _store(out, record, replaces=(RECORD, REJECTS, PARTS))
    elif other := {*record.partitions} ^ {*scanned.parts}:
        raise begun_otherwise(out, [f"content of {min(part.file for part in other)}"])
    if record.complete and not _missing(out, record):
        return RayReport(record.counts, record.skipped, already=True)
    failed = _fill(out, replace(job, columns=record.columns), record, dispatch or _on_ray(options))
    done = [part for part in record.partitions if part.name() not in failed]
    counts, rejects = _totals(out, done)
    _check_rejects(record, counts, job.reader.max_rejects)
    if failed:
        return RayReport(counts, record.skipped, failed)
    if rejects:
        out.join(REJECTS).write(b"file\tline\treason\ttext\n" + rejects)
    if not counts["pairs"]:
        raise PairFileError(f"not one of {record.rows:,} rows is a pair; all are listed in {out}")
    _store(out, replace(record, complete=True, counts=counts))
    return RayReport(counts, record.skipped)


def _existing(out: Place, *, resume: bool, overwrite: bool) -> RunRecord | None:
    """The record of the run in `out`, or None. Raises RunFolderError where the flags do not fit."""
    try:
        size, run = out.size(), out.join(RECORD).size()
        if size is not None and size >= 0:
            raise RunFolderError(f"{out} is a file; --out names a folder")
        if run is None and size is not None and out.files():
            raise RunFolderError(f"{out} holds something else; choose another --out")
        if run is None or overwrite:
            return None
        record: RunRecord = decode(
            RunRecord, json.loads(out.join(RECORD).read()), f"{out}/{RECORD}"
        )
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{out}: cannot be read ({error}); see to it, or --overwrite"
        ) from error
    goes_on(out, "run", complete=record.complete, resume=resume, overwrite=False)
    return record


def _store(out: Place, record: RunRecord, replaces: Sequence[str] = ()) -> None:
    """Write `run.json`, after an earlier run's files are removed."""
    try:
        for name in replaces:
            out.join(name).remove()
        out.join(RECORD).write(json.dumps(encode(record), ensure_ascii=False, indent=1).encode())
    except OSError as error:
        raise RunFolderError(f"{out}: cannot be written ({error})") from error


def _on_ray(options: RayOptions) -> Dispatch:
    def dispatch(job: ScoreJob, parts: Sequence[FilePart]) -> Iterator[Mapping[str, Any]]:
        return run_on_ray(
            f"{PartScorer.__module__}:{PartScorer.__name__}",
            {"job": encode(job)},
            [json.dumps(asdict(part)) for part in parts],
            address=options.address,
            actors=options.actors,
            gpus=int(job.device != "cpu"),
        )

    return dispatch


def _missing(out: Place, record: RunRecord) -> dict[str, FilePart]:
    """The partitions without a part file, by name."""
    folder = out.join(PARTS)
    stored = {f"{PARTS}/{name}" for name in folder.files()} if folder.size() is not None else set()
    return {part.name(): part for part in record.partitions if part_file(part) not in stored}


def _fill(out: Place, job: ScoreJob, record: RunRecord, dispatch: Dispatch) -> dict[str, str]:
    """Score the parts whose files are missing; failed ones by name, with the reason."""
    if not (waiting := _missing(out, record)):
        return {}
    failed: dict[str, str] = {}
    done = record.rows - sum(part.rows for part in waiting.values())
    counts: Counter[str] = Counter()
    with progress(record.rows, "scoring", "rows", done=done) as shown:
        for result in dispatch(job, list(waiting.values())):
            if "fatal" in result:
                raise RunFolderError(
                    f"{result['fatal']}; what is done is kept, and --resume goes on"
                )
            part = waiting.pop(result["part"])
            shown.advance(part.rows)
            if "failed" in result:
                failed[part.name()] = f"{result['failed']} (on {result['node']})"
                continue
            if out.join(part_file(part)).size() is None:
                raise RunFolderError(
                    f"{out} is another folder on machine {result['node']} than here; give an --out that "
                    "all machines share, by one path or address"
                )
            counts.update(result["counts"], rows=part.rows)
            if counts["rows"] >= CHECKED_FROM:
                _check_rejects(record, counts, job.reader.max_rejects)
    return failed | dict.fromkeys(waiting, "its actors died (killed, or out of memory)")


def _check_rejects(record: RunRecord, counts: Mapping[str, int], most: float) -> None:
    """Raise PairFileError for more rejects than --max-rejects allows."""
    rows = counts["pairs"] + counts["rejected"]
    if too_many(counts["rejected"], rows, most):
        raise PairFileError(
            f"{record.files[0]}{' and others' if len(record.files) > 1 else ''}: {counts['rejected']:,} "
            f"of {rows:,} rows are rejects, more than --max-rejects {most:g} allows; `qt-bert check "
            "--rejects FILE` lists them; --resume goes on under a larger --max-rejects"
        )


def _totals(out: Place, parts: Sequence[FilePart]) -> tuple[dict[str, int], bytes]:
    """The counts over part files, and the lines of their rejects, in the order of rows."""

    def metadata(part: FilePart) -> dict[str, Any]:
        with out.join(part_file(part)).open_input() as handle:
            stored: dict[str, Any] = json.loads(pq.read_schema(handle).metadata[METADATA])
            return stored

    counts: Counter[str] = Counter(pairs=0, rejected=0, truncated_titles=0, truncated_queries=0)
    lines: list[str] = []
    try:
        with ThreadPoolExecutor(READERS) as pool:
            for stored in pool.map(metadata, parts):
                counts.update(stored["counts"])
                lines += (
                    f"{one_line(stored['file'])}\t{line}\t{one_line(reason)}\t{one_line(text)}\n"
                    for line, reason, text in stored["rejects"]
                )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(
            f"{out}/{PARTS}: a part file is damaged or gone ({error}); remove it, and --resume makes it "
            "again"
        ) from error
    return dict(counts), "".join(lines).encode("utf-8", "backslashreplace")
