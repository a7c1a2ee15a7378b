"""One partition: read, scored, and as the table that becomes its part file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs import Pair
from qt_bert.pairs.pair import EXCERPT_CHARACTERS, Reject
from qt_bert.pairs.parts import Part, read_part
from qt_bert.scale.partition.halving import Outcome, Tally
from qt_bert.scale.partition.job import ScoreJob
from qt_bert.scale.partition.raised import plain
from qt_bert.scale.places.naming import place_of
from qt_bert.scoring.outputs import Outputs

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
    part: Part,
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


def _refuse_late_columns(part: Part, job: ScoreJob, pairs: Sequence[Pair]) -> None:
    """Before the model works. The file was scanned as it is, so it cannot be mended on the way."""
    try:
        job.columns.table(pairs, {}, part.file)
    except PairFileError as error:
        raise PairFileError(
            f"{error} and start anew with --overwrite: --resume would meet it again"
        ) from error


def rows_of(part: Part, job: ScoreJob) -> tuple[list[Pair], list[Reject]]:
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


def _table(part: Part, job: ScoreJob, pairs: Sequence[Pair], outputs: Outputs) -> bytes:
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
