"""The inspection page and scoring on Ray side by side for ten minutes, with all results checked.

    python -m benchmarks.soak PAIRS… [--columns …] [--minutes 10] [--rows 40000] [--guests 3]

First the texts of PAIRS (repeated up to --rows) are scored by `qt-bert score --engine ray` on the quiet
machine, and `qt-bert explain` gives what each guest must see. Then guests in Chromium change the heads
left out every five seconds, while the same rows are scored repeatedly. Exit status 1 where the page shows
another grade or change, a part file differs, or the page's server wrote a traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common.arguments import positive, scoring_parser
from benchmarks.common.command import QT_BERT
from benchmarks.common.machine import processor
from benchmarks.common.many import Observed, observe, wrong
from benchmarks.common.runs import differences, texts_of, write_rows
from tests.browser.driving.guests import PAIRS, expected, guest
from tests.browser.driving.server import serving

EVERY = 5.0
EARLY = 60.0
"""Seconds until the server has loaded everything."""


@dataclass(frozen=True)
class Scored:
    """A run's folder and seconds."""

    out: Path
    seconds: float


def main() -> None:
    arguments = parse()
    seconds = arguments.minutes * 60.0
    guests = [guest(place) for place in range(arguments.guests)]
    grades = expected(guests)
    with TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "pairs.csv"
        write_rows(file, texts_of(arguments.pairs, arguments.columns), arguments.rows)
        print(f"{arguments.rows:,} rows, {len(guests)} guests, {processor()}", flush=True)
        quiet = score(arguments, file, folder / "quiet")
        (folder / "app").mkdir()
        with serving(folder / "app") as server, ThreadPoolExecutor(1) as thread:
            visit = observe(server.url, guests, server.resident, seconds=seconds, every=EVERY)
            visits = thread.submit(asyncio.run, visit)
            runs = scored_until(visits.done, lambda n: score(arguments, file, folder / f"busy{n}"))
            observed = visits.result()
            traces = server.printed().count("Traceback")
        other = sorted({part for run in runs for part in differences(quiet.out, run.out)})
    mistakes = wrong(observed.changes, grades)
    summarise(arguments, quiet, runs, observed)
    print(f"part files that differ: {len(other)}; wrong grades: {len(mistakes)}; traces: {traces}")
    if other or mistakes or traces:
        sys.exit(1)


def score(arguments: argparse.Namespace, file: Path, out: Path) -> Scored:
    """Run the command. Raises SystemExit where it fails."""
    command = [*QT_BERT, "score", str(file)]
    options = ["--engine", "ray", "--out", str(out), "--model", str(arguments.model)]
    start = time.monotonic()
    if status := subprocess.run([*command, *options], stdout=subprocess.DEVNULL).returncode:
        raise SystemExit(f"the command ended with status {status}")
    return Scored(out, time.monotonic() - start)


def scored_until(done: Callable[[], bool], run: Callable[[int], Scored]) -> list[Scored]:
    """Repeat `run` until `done`."""
    runs: list[Scored] = []
    while not done():
        runs.append(run(len(runs)))
    return runs


def summarise(
    arguments: argparse.Namespace, quiet: Scored, runs: list[Scored], observed: Observed
) -> None:
    """Print times and memory."""
    busy = statistics.median(run.seconds for run in runs)
    print(
        f"scoring: {len(runs)} runs of {arguments.rows:,} rows, median {busy:.0f} s each; on the quiet "
        f"machine {quiet.seconds:.0f} s"
    )
    times = [change.milliseconds for change in observed.changes]
    growth = observed.held(arguments.minutes * 60.0) - observed.held(EARLY)
    print(
        f"page: {len(times)} changes, median {statistics.median(times):.0f} ms, worst {max(times):.0f} "
        f"ms until the grade changed; the server holds {observed.held(EARLY):.0f} MB after a minute, "
        f"{growth:+.0f} MB at the end"
    )


def parse() -> argparse.Namespace:
    parser = scoring_parser(__doc__)
    parser.add_argument("--rows", type=positive, default=40_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--guests", type=int, choices=range(1, len(PAIRS) + 1), default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
