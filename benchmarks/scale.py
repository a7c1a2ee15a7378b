"""Two one-thread actors of a private Ray cluster against one process with two threads, in one run.

    python benchmarks/scale.py PAIRS… [--columns …] [--model DIR] [--dtype float32] [--rows 30000] [--actors 2]

Both score the same file, the texts of PAIRS (repeated up to --rows), from reading to written results:
`score_file`, as in `qt-bert score`, with as many threads as there are actors, and `score_on_ray`. Rows a
second are those between 10 % and 90 % of the rows, without start-up; total seconds are printed too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import torch
from common.arguments import positive, scoring_parser
from common.machine import processor
from common.runs import texts_of, write_rows

from qt_bert.cluster.ray import RayOptions
from qt_bert.cluster.score import ScoreJob, score_on_ray
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.score import score_file


@dataclass
class Clock:
    """A progress that records times and rows done."""

    total: int
    marks: list[tuple[float, int]] = field(default_factory=list)

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count `amount` more rows."""
        done = self.marks[-1][1] if self.marks else 0
        self.marks.append((time.perf_counter(), done + amount))

    @contextmanager
    def progress(self, *_: Any, **__: Any) -> Iterator[Clock]:
        """Replaces `qt_bert.progress.progress`."""
        yield self

    def rate(self) -> float:
        """Rows a second from the first mark past 10 % to the first past 90 %."""
        (start, first), (end, last) = (self._passed(share) for share in (0.1, 0.9))
        return (last - first) / (end - start)

    def _passed(self, share: float) -> tuple[float, int]:
        return next(mark for mark in self.marks if mark[1] >= share * self.total)


def main() -> None:
    arguments = parse()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.csv"
        rows = arguments.rows
        write_rows(file, texts_of(arguments.pairs, arguments.columns), rows)
        print(f"{rows:,} rows, {processor()}, torch {torch.__version__}, {arguments.dtype}")
        runs = {
            f"one process, {arguments.actors} threads": timed(
                "qt_bert.scoring.score.progress", rows, lambda: plain(arguments, file)
            ),
            f"{arguments.actors} actors of one thread": timed(
                "qt_bert.cluster.score.progress", rows, lambda: on_ray(arguments, file)
            ),
        }
        gap = largest_gap(Path(folder))
    (base, _), (other, _) = runs.values()
    for name, (rate, seconds) in runs.items():
        print(f"{name:24} {rate:9.1f} rows/s   {seconds:8.1f} s in all")
    print(f"share of the one process that the actors reach: {other / base:.3f}")
    print(f"largest difference of an expected grade: {gap:.1e}")


def timed(target: str, rows: int, run: Callable[[], None]) -> tuple[float, float]:
    """Rows a second of `run`, whose progress is `target`, and its total seconds."""
    clock = Clock(rows)
    start = time.perf_counter()
    with patch(target, clock.progress):
        run()
    return clock.rate(), time.perf_counter() - start


def plain(arguments: argparse.Namespace, file: Path) -> None:
    """As `qt-bert score`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(arguments.actors)
    scorer = Scorer(open_checkpoint(arguments.model, dtype=arguments.dtype))
    score_file(file, ReaderOptions(), scorer, file.with_name("plain.parquet"))
    torch.set_num_threads(threads)


def on_ray(arguments: argparse.Namespace, file: Path) -> None:
    """As `qt-bert score --engine ray`."""
    job = ScoreJob(
        model=str(arguments.model), out=str(file.with_name("ray")), dtype=arguments.dtype
    )
    score_on_ray([str(file)], job, RayOptions(actors=arguments.actors))


def largest_gap(folder: Path) -> float:
    """Between the two runs, row by row. Raises ArgumentError for missing or repeated rows."""
    plain = pq.read_table(folder / "plain.parquet").to_pandas()
    ray = pq.read_table(folder / "ray" / "parts").to_pandas().sort_values("line")
    if list(plain["title"]) != list(ray["title"]):
        raise ArgumentError("the two runs have not scored the same rows")
    return float(abs(plain["expected_grade"].values - ray["expected_grade"].values).max())


def parse() -> argparse.Namespace:
    parser = scoring_parser(__doc__)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--rows", type=positive, default=30_000)
    parser.add_argument("--actors", type=positive, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
