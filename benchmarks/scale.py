"""Two one-thread actors of a private Ray cluster against one process with two threads, in one run.

    python benchmarks/scale.py PAIRS… [--columns …] [--model DIR] [--dtype float32] [--rows 30000] [--actors 2]

Both score the same file, made of the texts of PAIRS (begun again where they are fewer than --rows), from
its first byte to written results: `score_file`, as `qt-bert score` calls it, with as many threads as
there are actors, and `score_on_ray`. Rows a second are those between 10 % and 90 % of the rows, so that
starting is left out; seconds in all stand beside.
"""

from __future__ import annotations

import argparse
import json
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
    """A progress that writes down when how many rows were done."""

    total: int
    told: list[tuple[float, int]] = field(default_factory=list)

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count `amount` more rows."""
        done = self.told[-1][1] if self.told else 0
        self.told.append((time.perf_counter(), done + amount))

    @contextmanager
    def progress(self, *_: Any, **__: Any) -> Iterator[Clock]:
        """In place of `qt_bert.progress.progress`."""
        yield self

    def rate(self) -> float:
        """Rows a second from the first moment at which 10 % are done to the first at which 90 % are."""
        (start, first), (end, last) = (self._passed(share) for share in (0.1, 0.9))
        return (last - first) / (end - start)

    def _passed(self, share: float) -> tuple[float, int]:
        return next(told for told in self.told if told[1] >= share * self.total)


def main() -> None:
    arguments = parse()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.csv"
        rows = arguments.rows
        write_rows(file, texts_of(arguments.pairs, arguments.columns), rows)
        print(f"{rows:,} rows, {processor()}, torch {torch.__version__}, {arguments.dtype}")
        found = {
            f"one process, {arguments.actors} threads": timed(
                "qt_bert.scoring.score.progress", rows, lambda: plain(arguments, file)
            ),
            f"{arguments.actors} actors of one thread": timed(
                "qt_bert.cluster.score.progress", rows, lambda: on_ray(arguments, file)
            ),
        }
        gap = largest_gap(Path(folder))
    (base, _), (other, _) = found.values()
    for name, (rate, seconds) in found.items():
        print(f"{name:24} {rate:9.1f} rows/s   {seconds:8.1f} s in all")
    print(f"share of the one process that the actors reach: {other / base:.3f}")
    print(f"largest difference of an expected grade: {gap:.1e}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"ratio": other / base, "runs": found}, indent=1))


def timed(target: str, rows: int, run: Callable[[], None]) -> tuple[float, float]:
    """Rows a second of `run`, whose progress is `target`, and its seconds in all."""
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
        model=str(arguments.model),
        out=str(file.with_name("ray")),
        dtype=arguments.dtype,
    )
    score_on_ray([str(file)], job, RayOptions(actors=arguments.actors))


def largest_gap(folder: Path) -> float:
    """Between the two runs, row by row. Raises ArgumentError where rows are missing or twice."""
    one = pq.read_table(folder / "plain.parquet").to_pandas()
    other = pq.read_table(folder / "ray" / "parts").to_pandas().sort_values("line")
    if list(one["title"]) != list(other["title"]):
        raise ArgumentError("the two runs have not scored the same rows")
    return float(abs(one["expected_grade"].values - other["expected_grade"].values).max())


def parse() -> argparse.Namespace:
    parser = scoring_parser(__doc__)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--rows", type=positive, default=30_000)
    parser.add_argument("--actors", type=positive, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
