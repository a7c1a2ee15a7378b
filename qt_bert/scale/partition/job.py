"""What is to be done to every partition: all that the bytes of a part depend on, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions
from qt_bert.results.codec import decode, encode
from qt_bert.scoring.columns import InputColumns

STALL = 600.0
"""Seconds that a worker may take for a partition, and a throw-away process may be silent."""


@dataclass(frozen=True, kw_only=True)
class ScoreJob:
    """What a worker needs to score partitions, and what their bytes depend on.

    `model`, `title_states` and `out` are paths or addresses. `model_sha256` is the hash of the
    weights, and `facts` says by name what else of the opened model the scores depend on (see
    `qt_bert.scale.partition.model.prepared`, which fills both in): a worker that opens another model
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
