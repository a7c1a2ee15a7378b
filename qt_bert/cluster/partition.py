"""One partition: its job, its model, its rows read and scored."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from qt_bert.cluster.faults import Answer, Outcome, Tally, plain
from qt_bert.cluster.places import cache_of, place_of
from qt_bert.cluster.record import StatesRead
from qt_bert.codec import decode, encode
from qt_bert.data.pairs import EXCERPT_CHARACTERS, Pair, Reject
from qt_bert.data.parts import FilePart, read_part
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, CheckpointError, PairFileError
from qt_bert.files import sha256_file
from qt_bert.models.checkpoint import STREAM, bound_kernel_caches, open_checkpoint
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import Outputs, read_outputs
from qt_bert.scoring.tables import InputColumns
from qt_bert.scoring.title_folder import open_states, tokenizer_sha256
from qt_bert.stats.calibration import Calibration

# What is to be done to every partition: all that the bytes of a part depend on, as plain data.


STALL = 600.0
"""Seconds that a worker may take for a partition, and a throw-away process may be silent."""


@dataclass(frozen=True, kw_only=True)
class ScoreJob:
    """What a worker needs to score partitions, and what their bytes depend on.

    `model`, `title_states` and `out` are paths or addresses. `model_sha256` is the hash of the
    weights, and `facts` says by name what else of the opened model the scores depend on (see
    `qt_bert.cluster.partition.prepared`, which fills both in): a worker that opens another model
    refuses it. `columns` are those of all inputs. A worker that takes longer than `stall` seconds for
    a partition counts as dead, and so does a process apart that is silent for so long. Remote models
    are copied to `cache`, a folder of the node. `scorer` names a function, as `module:function`, that
    makes the `Scorer` of a job in place of opening `model`: a program of one's own, or a test, puts
    its model there.

    Raises ArgumentError for a time or a name that cannot be meant.
    """

    model: str
    model_sha256: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    out: str
    columns: InputColumns
    reader: ReaderOptions = ReaderOptions()
    dtype: str = "float32"
    max_length: int | None = None
    model_grades: str | None = None
    calibrated: bool = False
    title_states: str | None = None
    stall: float = STALL
    cache: str | None = None
    scorer: str | None = None

    def __post_init__(self) -> None:
        if not self.stall > 0:
            raise ArgumentError(f"{self.stall:g} seconds without a sign of life: give more than 0")
        if self.scorer is not None and not all(self.scorer.partition(":")):
            raise ArgumentError(f"the scorer {self.scorer!r} is no name like module:function")

    def key(self) -> dict[str, str]:
        """All that the bytes of a part depend on, by name, as text.

        How many rejects are too many is no part of it: a run that stopped for them may go on.
        """
        facts = {name: text for name, text in self.facts.items() if text}
        return {
            "model": self.model_sha256,
            "--dtype": self.dtype,
            **facts,
            "--columns": self.reader.columns or "",
            "--no-header": str(self.reader.no_header),
            "--grades": self.reader.grades or "",
            "columns of the files": repr(self.columns),
            **({} if self.scorer is None else {"scorer": self.scorer}),
        }

    def describe(self) -> dict[str, Any]:
        """As plain data."""
        return dict(encode(self))

    @classmethod
    def from_json(cls, value: Any) -> ScoreJob:
        """The job that `describe` gave. Raises RunFolderError for anything else."""
        job: ScoreJob = decode(cls, value, "the job")
        return job


# The model of a job, opened in this process: on one thread, and refused if it is another one.


_PLAIN = ("问题", "标题")
"""A pair that every model scores: one that does not is refused."""


class PairModel:
    """The model of a job, which gives the logits of pairs and says what they mean.

    `sha256` is the hash of its weights, `facts` are what else the scores depend on, by name. Torch
    and the tokenizer are put on one thread for the whole process. Raises CheckpointError, RunFolderError and
    ArgumentError as opening the model, its title states and its calibration does, and
    CheckpointError where a plain pair gets no finite logits.
    """

    def __init__(self, job: ScoreJob) -> None:
        torch.set_num_threads(1)
        bound_kernel_caches(STREAM)
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._scorer = _made(job) if job.scorer is not None else _opened(job)
        self._calibration = _calibration(self._scorer) if job.calibrated else None
        self.sha256 = self._scorer.checkpoint.sha256
        self.facts = _facts(self._scorer, self._calibration)
        logits = self.answer([_PLAIN]).logits
        if not np.isfinite(logits).all():
            raise CheckpointError(
                f"{self.name}: the logits of a plain pair are no finite numbers; the weights are damaged"
            )
        self.outputs(logits)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._scorer.checkpoint.name

    @property
    def trial(self) -> tuple[str, str]:
        """A pair that fills the model's length: no row takes more memory."""
        tokens = self._scorer.tokenizer.max_length
        return "问题" * tokens, "标题" * tokens

    def answer(self, texts: Sequence[tuple[str, str]], shown: Progress = silent) -> Answer:
        """Logits [n, K] of (query, title) pairs and what was counted; nothing is left of other calls."""
        scorer = self._scorer.fresh()
        logits = scorer.logits(texts, shown)
        counts, split = scorer.counts, scorer.split
        states = None if split is None else StatesRead(**asdict(split.counts))
        return Answer(logits, Tally(counts.truncated_titles, counts.truncated_queries, states))

    def outputs(self, logits: np.ndarray) -> Outputs:
        """What logits [n, K] say, calibrated where the job asks for it."""
        return read_outputs(logits, self._scorer.checkpoint.settings.labels, self._calibration)


def open_model(job: ScoreJob) -> PairModel:
    """The model of a prepared job.

    Raises as `PairModel`, and CheckpointError where it is not the one that the job was prepared with.
    """
    model = PairModel(job)
    there, asked = (
        {"weights": model.sha256, **model.facts},
        {"weights": job.model_sha256, **job.facts},
    )
    other = [name for name in asked | there if asked.get(name) != there.get(name)]
    if other:
        raise CheckpointError(
            f"{job.model}: this is another model than the run was begun with (it differs in "
            f"{', '.join(other)}); give every machine the same files, or start anew with --overwrite"
        )
    return model


def prepared(job: ScoreJob) -> ScoreJob:
    """`job` with the hash and the facts of its model, which is opened here to see that it can be.

    Raises as `PairModel`.
    """
    model = PairModel(job)
    return replace(job, model_sha256=model.sha256, facts=model.facts)


def _opened(job: ScoreJob) -> Scorer:
    checkpoint = open_checkpoint(
        _local(job.model, job), dtype=job.dtype, model_grades=job.model_grades, compact=True
    )
    scorer = Scorer(checkpoint, max_length=job.max_length)
    if job.title_states is None:
        return scorer
    return scorer.reading(open_states(_local(job.title_states, job), checkpoint))


def _local(address: str, job: ScoreJob) -> Path:
    """A folder of this node with what lies at `address`."""
    cache = cache_of(job.cache)
    try:
        return place_of(address).local_copy(cache)
    except OSError as error:
        raise CheckpointError(f"{address}: cannot be copied to {cache} ({error})") from error


def _made(job: ScoreJob) -> Scorer:
    """What the function makes that the job names."""
    module, _, name = (job.scorer or "").partition(":")
    try:
        make: Callable[[ScoreJob], Scorer] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"the scorer {job.scorer!r} cannot be found ({error})") from error
    return make(job)


def _calibration(scorer: Scorer) -> Calibration:
    stored = scorer.checkpoint.settings.calibration
    if stored is None:
        raise ArgumentError(
            f"--calibrated: {scorer.checkpoint.name} has no calibration; make one with "
            "`qt-bert calibrate`"
        )
    return Calibration.from_json(stored)


def _facts(scorer: Scorer, calibration: Calibration | None) -> dict[str, str]:
    checkpoint, split = scorer.checkpoint, scorer.split
    offline = checkpoint.offline
    return {
        "config": sha256_file(checkpoint.folder / "config.json"),
        "tokenizer": tokenizer_sha256(checkpoint.tokenizer),
        "labels": repr(checkpoint.settings.labels),
        "--max-length": str(scorer.tokenizer.max_length),
        "offline": "" if offline is None else json.dumps(offline.describe(), sort_keys=True),
        "calibration": "" if calibration is None else repr(calibration),
        "--title-states": "" if split is None else json.dumps(split.states.describe()),
    }


# One partition: read, scored, and as the table that becomes its part file.


ScorePairs = Callable[[Sequence[Pair]], Outcome]
"""What says what becomes of pairs."""


@dataclass(frozen=True)
class Made:
    """What scoring a partition gave.

    `table` is its part file, None where no row of it was scored. `rejects` are in the order of their
    lines, and characters that no file can hold are spelled out in them. `halved` says that its rows
    were not scored in one piece.
    """

    table: bytes | None = field(repr=False)
    rejects: tuple[Reject, ...]
    pairs: int
    bad_grades: int
    tally: Tally
    halved: bool

    @property
    def reasons(self) -> dict[str, int]:
        """How many rejects there are for each reason."""
        return dict(Counter(reject.reason for reject in self.rejects))


def make_part(
    part: FilePart,
    job: ScoreJob,
    score: ScorePairs,
    outputs: Callable[[np.ndarray], Outputs],
    spared: Mapping[int, str] | None = None,
) -> Made:
    """Read the rows of `part`, `score` them, and put what `outputs` says of them into a table.

    `spared` are lines that are not scored but rejected, with the reason. Raises PairFileError where
    the part cannot be read, where its file has changed, and for a column that the job does not know;
    whatever `score` raises.
    """
    pairs, rejects = rows_of(part, job)
    _refuse_late_columns(part, job, pairs)
    reasons = dict(spared or {})
    wanted = [pair for pair in pairs if pair.line not in reasons]
    outcome = score(wanted)
    reasons |= {wanted[place].line: reason for place, reason in outcome.rejected.items()}
    scored = [wanted[place] for place in outcome.places]
    rejects += [
        Reject(pair.line, reasons[pair.line], f"{pair.query}\t{pair.title}")
        for pair in pairs
        if pair.line in reasons
    ]
    table = _table(part, job, scored, outputs(outcome.logits)) if scored else None
    return Made(
        table=table,
        rejects=tuple(sorted(map(_shown, rejects), key=lambda reject: reject.line)),
        pairs=len(scored),
        bad_grades=sum(map(job.reader.judge().is_bad_grade, scored)),
        tally=outcome.tally,
        halved=outcome.halved,
    )


def _refuse_late_columns(part: FilePart, job: ScoreJob, pairs: Sequence[Pair]) -> None:
    """Before the model works. The file was scanned as it is, so it cannot be mended on the way."""
    try:
        job.columns.table(pairs, {}, part.file)
    except PairFileError as error:
        raise PairFileError(
            f"{error} and start anew with --overwrite: --resume would meet it again"
        ) from error


def rows_of(part: FilePart, job: ScoreJob) -> tuple[list[Pair], list[Reject]]:
    """The pairs and the rejects of a part. Raises PairFileError."""
    pairs: list[Pair] = []
    rejects: list[Reject] = []
    try:
        for row in read_part(part, job.reader, place_of(part.file).location):
            pairs.append(row) if isinstance(row, Pair) else rejects.append(row)
    except (OSError, ArgumentError) as error:  # an address out of reach is the latter
        raise PairFileError(f"{part.file}: cannot be read ({plain(str(error))})") from error
    return pairs, rejects


def texts_of(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    """Queries and titles."""
    return [(pair.query, pair.title) for pair in pairs]


def _table(part: FilePart, job: ScoreJob, pairs: Sequence[Pair], outputs: Outputs) -> bytes:
    """The bytes of a Parquet file: the columns of plain `score`, the file and the line of each row."""
    place: dict[str, list[Any]] = {"file": [part.file] * len(pairs)}
    place["line"] = [pair.line for pair in pairs]
    columns = job.columns.table(pairs, outputs.columns() | place, part.file)
    table = pa.table({name: _array(name, values) for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def _array(name: str, values: Sequence[object]) -> pa.Array:
    """A column as plain `score` writes it; the line alone is a whole number."""
    if isinstance(values[0], np.floating):
        return pa.array(np.asarray(values, np.float32))
    return pa.array(values, pa.int64() if name == "line" else pa.string())


def _shown(reject: Reject) -> Reject:
    """The start of its text, as a file can hold it."""
    text = reject.text[:EXCERPT_CHARACTERS].encode("utf-8", "backslashreplace").decode("utf-8")
    return replace(reject, text=text)
