"""Scoring many files on a cluster: a partition in, a part file out; a run is done where none is missing."""

from __future__ import annotations

import hashlib
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
from qt_bert.files import sha256_file
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
from qt_bert.shipped import GRADED, shipped
from qt_bert.sources import installed_versions, source_hash

PARTS, REJECTS = "parts", "rejects.tsv"
FOUND = b"qt_bert"
"""The key in a part file's metadata under which its counts and its rejects stand."""
LOOKED_AT = 10_000
"""So many rows are done before a run is stopped for its rejects."""
READERS = 16
"""Part files whose metadata are read at a time."""


@dataclass(frozen=True, kw_only=True)
class ScoreJob:
    """What is done to every partition, and all that the bytes of a part depend on.

    `out` is a path or an address; `model` and a file `calibrated` are paths that all machines have;
    `device` is `cpu`, or `cuda`: the GPU that Ray gives an actor. `facts` say of the opened model,
    by name, what scores depend on: an actor that opens another one refuses.
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
    """The content of `run.json`. `key` names all that the scored rows depend on; `counts` stand there
    once the run is `complete`."""

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
    """How a run ended: `counts` over all its parts; `skipped`, files in its folders that are not of pairs;
    `failed`, partitions by name with the reason; `already`, it had ended before."""

    counts: Mapping[str, int]
    skipped: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    already: bool = False


# One partition, in the process of an actor.


class PartScorer:
    """Scores partitions of a job on one thread, with the model open all the time.

    What is written depends on the partition alone. Raises CheckpointError where the model, or this
    program, is not the one that the run was begun with, and as opening the model does.
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
        if self.job.facts and (other := differing(self.job.facts, self.facts())):
            raise CheckpointError(
                f"{self.job.model}: the run was begun with another {', '.join(other)}; install the same "
                "everywhere, give every machine the same files, and go on with --resume"
            )
        # A plain pair: a model that gives it no finite logits is refused, and the columns' types are known.
        self._none = self.outputs(self.scorer.fresh().logits([("问题", "标题")])).columns()

    def facts(self) -> dict[str, str]:
        """By name, what the scores depend on beside the options."""
        checkpoint = self.scorer.checkpoint
        versions = installed_versions("tokenizers", "pyarrow")
        return {
            "weights": checkpoint.sha256,
            "config": sha256_file(checkpoint.folder / "config.json"),
            "tokenizer": tokenizer_sha256(checkpoint.tokenizer),
            "labels": repr(checkpoint.settings.labels),
            "reading": repr(checkpoint.reading),
            "device": device_name(checkpoint.device),
            "--max-length": str(self.scorer.tokenizer.max_length),
            "calibration": "" if self.calibration is None else repr(self.calibration),
            "source of qt-bert": source_hash(),
            **{f"version of {name}": said for name, said in versions.items()},
        }

    def __call__(self, item: str) -> dict[str, Any]:
        """Score the partition that `item` describes and leave its part file; what came of it.

        A fault of the partition is said, never raised; a disk that cannot be written is said as fatal.
        """
        part = FilePart.from_json(json.loads(item))
        said: dict[str, Any] = {"part": part.name(), "node": socket.gethostname()}
        try:
            table, counts = self.score(part)
        except QtBertError as error:
            return said | {"failed": str(error)}
        except (Exception, MemoryError) as error:  # a row on which a library fails
            return said | {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        try:
            self.out.join(part_file(part)).write(table)
        except OSError as error:
            return {"fatal": f"machine {said['node']}: {self.out}: cannot be written ({error})"}
        return said | {"counts": counts}

    def score(self, part: FilePart) -> tuple[bytes, dict[str, int]]:
        """The bytes of a part's file, and its counts. Raises PairFileError where the part cannot be read
        or its file has changed, and for a column that the first rows of its file have not."""
        pairs, rejects = rows_of(part, self.job.reader)
        self.job.columns.table(pairs, {}, part.file)  # a late column is said before the model works
        scorer = self.scorer.fresh()
        texts = [(pair.query, pair.title) for pair in pairs]
        none: dict[str, list[Any]] = {name: [] for name in self._none}
        outputs = self.outputs(scorer.logits(texts)).columns() if texts else none
        outputs |= {"file": [part.file] * len(pairs), "line": [pair.line for pair in pairs]}
        columns = self.job.columns.table(pairs, outputs, part.file)
        types = {name: pa.string() for name in columns} | {"line": pa.int64()}
        types |= {
            n: pa.float32() for n, one in self._none.items() if isinstance(one[0], np.floating)
        }
        counts = {
            "pairs": len(pairs),
            "rejected": len(rejects),
            "truncated_titles": scorer.counts.truncated_titles,
            "truncated_queries": scorer.counts.truncated_queries,
        }
        found = {"rows": part.rows, "counts": counts, "file": part.file, "rejects": rejects}
        kept = self.job.columns.typed
        table = pa.table(
            {
                name: arrow_column(one)
                if kept and types[name] == pa.string()
                else pa.array(one, types[name])
                for name, one in columns.items()
            }
        )
        sink = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata({FOUND: json.dumps(found).encode()}), sink)
        return sink.getvalue().to_pybytes(), counts

    def outputs(self, logits: np.ndarray) -> Outputs:
        """What logits [n, K] say, calibrated where the job asks for it."""
        return read_outputs(logits, self.scorer.checkpoint.settings.labels, self.calibration)


def tokenizer_sha256(tokenizer: Any) -> str:
    """One hash for what a fast tokenizer makes of a text, however it pads and cuts at the moment."""
    try:
        stored = json.loads(tokenizer.backend_tokenizer.to_str())
        stored |= {"truncation": None, "padding": None}
    except Exception:  # a pre-tokenizer in Python (RoFormer's jieba) has no JSON
        stored = tokenizer.get_vocab()
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


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
    except (OSError, ArgumentError) as error:  # an address out of reach is the latter
        raise PairFileError(f"{part.file}: cannot be read ({error})") from error
    return pairs, rejects


def part_file(part: FilePart) -> str:
    """Where the scored rows of a partition lie in the run folder."""
    return f"{PARTS}/part-{part.name()}.parquet"


# A run, in the process of the command.


Dispatch = Callable[[ScoreJob, Sequence[FilePart]], Iterator[Mapping[str, Any]]]
"""Has parts scored, and gives what `PartScorer` says of each, in any order."""


def score_on_ray(
    inputs: Sequence[str],
    job: ScoreJob,
    options: RayOptions,
    *,
    resume: bool = False,
    overwrite: bool = False,
    dispatch: Dispatch | None = None,
) -> RayReport:
    """Score all pairs of `inputs`, files and folders and addresses of either, into the folder `job.out`.

    Under `resume` the partitions whose part file is missing are scored. A partition that cannot be
    scored is in the report's `failed`, all others are done; `resume` tries it again. `dispatch` does the
    work in place of Ray.

    Raises ArgumentError for a cluster that cannot be reached and results that would lie among the
    inputs; PairFileError for inputs that cannot be read, and too many rejects; CheckpointError as opening
    the model does; RunFolderError where the flags do not fit what lies in `job.out`, or Ray gives up. What
    is done is kept.
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
    record = _begun(out, resume=resume, overwrite=overwrite)
    job = replace(job, facts=PartScorer(encode(job)).facts())
    key = {
        **job.facts,
        "--dtype": job.dtype,
        "--columns": job.reader.columns or "",
        "--no-header": str(job.reader.no_header),
        "--grades": job.reader.grades or "",
        "inputs": json.dumps(list(inputs), ensure_ascii=False),
        "--rows-per-partition": str(options.rows_per_partition),
    }
    if record is None:
        found = scan(inputs, job.reader, options.rows_per_partition)
        record = RunRecord(
            key=key,
            arguments={"inputs": list(inputs), "model": job.model},
            columns=found.columns,
            files=tuple(found.files),
            skipped=tuple(found.skipped),
            rows=found.rows,
            partitions=tuple(found.parts),
        )
        _store(out, record)
    elif other := differing(record.key, key):
        raise begun_otherwise(out, other)
    if record.complete:
        return RayReport(record.counts, record.skipped, already=True)
    failed = _fill(out, replace(job, columns=record.columns), record, dispatch or _on(options))
    done = [part for part in record.partitions if part.name() not in failed]
    counts, listed = _totals(out, done)
    _judge(record, counts, job.reader.max_rejects)
    if failed:
        return RayReport(counts, record.skipped, failed)
    if listed:
        out.join(REJECTS).write(b"file\tline\treason\ttext\n" + listed)
    if not counts["pairs"]:
        raise PairFileError(f"not one of {record.rows:,} rows is a pair; all are listed in {out}")
    _store(out, replace(record, complete=True, counts=counts))
    return RayReport(counts, record.skipped)


def _begun(out: Place, *, resume: bool, overwrite: bool) -> RunRecord | None:
    """The record of the run in `out`, None where one is to be begun. Raises RunFolderError where the
    flags do not fit."""
    try:
        size, run = out.size(), out.join(RECORD).size()
        if size is not None and size >= 0:
            raise RunFolderError(f"{out} is a file; --out names a folder")
        if run is None and size is not None and out.files():
            raise RunFolderError(f"{out} holds something else; choose another --out")
        if run is None:
            return None
        if overwrite:
            for name in (RECORD, REJECTS, PARTS):
                out.join(name).remove()
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


def _store(out: Place, record: RunRecord) -> None:
    try:
        out.join(RECORD).write(json.dumps(encode(record), ensure_ascii=False, indent=1).encode())
    except OSError as error:
        raise RunFolderError(f"{out}: cannot be written ({error})") from error


def _on(options: RayOptions) -> Dispatch:
    """Ray as it is asked for."""

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


def _fill(out: Place, job: ScoreJob, record: RunRecord, dispatch: Dispatch) -> dict[str, str]:
    """Have the parts scored whose files are missing; those that were not, by name, with the reason."""
    folder = out.join(PARTS)
    there = folder.files() if folder.size() is not None else {}
    named = {f"{PARTS}/{name}" for name in there}
    waiting = {part.name(): part for part in record.partitions if part_file(part) not in named}
    if not waiting:
        return {}
    failed: dict[str, str] = {}
    done = record.rows - sum(part.rows for part in waiting.values())
    counts: Counter[str] = Counter()
    with progress(record.rows, "scoring", "rows", done=done) as shown:
        for said in dispatch(job, list(waiting.values())):
            if "fatal" in said:
                raise RunFolderError(f"{said['fatal']}; what is done is kept, and --resume goes on")
            part = waiting.pop(said["part"])
            shown.advance(part.rows)
            if "failed" in said:
                failed[part.name()] = f"{said['failed']} (on {said['node']})"
                continue
            if out.join(part_file(part)).size() is None:
                raise RunFolderError(
                    f"{out} is another folder on machine {said['node']} than here; give an --out that "
                    "all machines share, by one path or address"
                )
            counts.update(said["counts"], rows=part.rows)
            if counts["rows"] >= LOOKED_AT:
                _judge(record, counts, job.reader.max_rejects)
    return failed | dict.fromkeys(waiting, "its actors died (killed, or out of memory)")


def _judge(record: RunRecord, counts: Mapping[str, int], most: float) -> None:
    """Raise PairFileError for more rejects than --max-rejects allows."""
    rows = counts["pairs"] + counts["rejected"]
    if too_many(counts["rejected"], rows, most):
        raise PairFileError(
            f"{record.files[0]}{' and others' if len(record.files) > 1 else ''}: {counts['rejected']:,} "
            f"of {rows:,} rows are rejects, more than --max-rejects {most:g} allows; `qt-bert check "
            "--rejects FILE` lists them; --resume goes on under a larger --max-rejects"
        )


def _totals(out: Place, parts: Sequence[FilePart]) -> tuple[dict[str, int], bytes]:
    """The counts over part files, and their rejects as lines of the list, in the order of the rows."""

    def found(part: FilePart) -> dict[str, Any]:
        with out.join(part_file(part)).open_input() as handle:
            stored: dict[str, Any] = json.loads(pq.read_schema(handle).metadata[FOUND])
            return stored

    counts: Counter[str] = Counter(pairs=0, rejected=0, truncated_titles=0, truncated_queries=0)
    lines: list[str] = []
    try:
        with ThreadPoolExecutor(READERS) as pool:
            for one in pool.map(found, parts):
                counts.update(one["counts"])
                lines += (
                    f"{one_line(one['file'])}\t{line}\t{one_line(reason)}\t{one_line(text)}\n"
                    for line, reason, text in one["rejects"]
                )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(
            f"{out}/{PARTS}: a part file is damaged or gone ({error}); remove it, and --resume makes it "
            "again"
        ) from error
    return dict(counts), "".join(lines).encode("utf-8", "backslashreplace")
