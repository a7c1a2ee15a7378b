"""What a throw-away process is asked, and what it says of one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from qt_bert.scale.partition.halving import Tally
from qt_bert.scale.partition.job import ScoreJob

Task = Literal["whole", "rows", "given"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of the row at `line`: `logits` [K], or the reason why there are none."""

    line: int
    logits: tuple[float, ...] | None
    reason: str | None
    tally: Tally


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to do with `part`, as its own `describe` gives it.

    `whole` scores all rows but the `spared` ones (line → reason), `rows` one after the other behind
    the line `after`, `given` none: it takes what became of them before. A table goes to the file
    `table`. `parent` is the process that this one shall not outlive.
    """

    job: ScoreJob
    part: dict[str, Any]
    task: Task
    table: str
    parent: int
    attempt: int = 1
    after: int = 0
    spared: dict[str, str] = field(default_factory=dict)
    given: tuple[Row, ...] = ()
