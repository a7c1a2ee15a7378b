"""Jobs, partitions, and scorers with planted faults, which a job names as `tests.cluster.planted:NAME`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.cluster.partition import ScoreJob, prepared
from qt_bert.data.pairs import Pair
from qt_bert.data.parts import FilePart, cut
from qt_bert.data.reader import ReaderOptions
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.tables import InputColumns

ROOT = Path(__file__).parents[2]
"""What has to be importable in a process apart."""

Texts = Sequence[tuple[str, str]]


def job_of(model: Path, inputs: Path, out: Path, **options: Any) -> ScoreJob:
    """A prepared job for the file `inputs`, whose columns it knows."""
    reader = options.pop("reader", ReaderOptions())
    pairs = [row for row in reader.open(inputs).judged() if isinstance(row, Pair)]
    columns = InputColumns.of(pairs, inputs, reader)
    return prepared(
        ScoreJob(model=str(model), out=str(out), columns=columns, reader=reader, **options)
    )


def parts_of(path: Path, rows: int = 1000, reader: ReaderOptions | None = None) -> list[FilePart]:
    """The partitions of a file."""
    return list(cut(path, reader or ReaderOptions(), rows))


def write_pairs(path: Path, titles: Sequence[str], query: str = "北京到上海") -> Path:
    """A TSV of pairs, one a title; the first stands in line 2."""
    rows = "".join(f"{query}\t{title}\n" for title in titles)
    path.write_text("query\ttitle\n" + rows, encoding="utf-8")
    return path


class Planted(Scorer):
    """A scorer that does something to certain texts before it scores, or to the logits after."""

    before: Callable[[Texts], None]
    after: Callable[[Texts, np.ndarray], np.ndarray]

    def logits(self, pairs: Texts, shown: Progress = silent) -> np.ndarray:
        self.before(pairs)
        return self.after(pairs, super().logits(pairs, shown))


def raising(job: ScoreJob) -> Scorer:
    """Raises where a title is "坏"."""
    return _planted(job, before=_raise)


def not_finite(job: ScoreJob) -> Scorer:
    """No numbers where a title is "坏"."""
    return _planted(job, after=_spoil)


def short_of_memory(job: ScoreJob) -> Scorer:
    """Has memory for two rows at a time."""
    return _planted(job, before=_allocate)


def killing(job: ScoreJob) -> Scorer:
    """Dies where a title is "杀", of a signal, and raises where it is "坏"."""
    return _planted(job, before=_kill)


def killed_by_many(job: ScoreJob) -> Scorer:
    """Dies of more than one row at a time."""
    return _planted(job, before=_kill_many)


def hanging(job: ScoreJob) -> Scorer:
    """Never comes back from a title "停"."""
    return _planted(job, before=_hang)


def _planted(
    job: ScoreJob,
    before: Callable[[Texts], None] = lambda pairs: None,
    after: Callable[[Texts, np.ndarray], np.ndarray] = lambda pairs, logits: logits,
) -> Scorer:
    made = Planted(open_checkpoint(job.model))
    made.before, made.after = before, after
    return made


def _titles(pairs: Texts) -> list[str]:
    return [title for _, title in pairs]


def _raise(pairs: Texts) -> None:
    if "坏" in _titles(pairs):
        raise ValueError("this title is bad\nand this is a second line")


def _spoil(pairs: Texts, logits: np.ndarray) -> np.ndarray:
    logits[[title == "坏" for title in _titles(pairs)], 1] = np.nan
    return logits


def _allocate(pairs: Texts) -> None:
    if len(pairs) > 2:
        raise MemoryError


def _kill(pairs: Texts) -> None:
    _raise(pairs)
    if "杀" in _titles(pairs):
        os.kill(os.getpid(), signal.SIGKILL)


def _kill_many(pairs: Texts) -> None:
    if len(pairs) > 1:
        os._exit(3)


def _hang(pairs: Texts) -> None:
    if "停" in _titles(pairs):
        time.sleep(1000)
