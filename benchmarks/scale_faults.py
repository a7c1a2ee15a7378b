"""The same rows scored on a Ray cluster undisturbed, and killed at ten moments: the bits, and the memory.

    python benchmarks/scale_faults.py PAIRS… [--columns …] [--model DIR] [--dtype float32] [--rows 100000] [--seed 0]

The cluster is a head without CPUs, where `qt-bert score` runs, and two workers of one CPU each, all on
this machine. The rows are the texts of PAIRS in ten files, begun again where they are fewer than
--rows. In the second run seven actors, two workers (another joins for each) and the command itself
(--resume goes on) are killed, in an order and at shares of the rows that --seed draws. Compared are the
bytes of all part files. Memory is that of all processes of the cluster and the command, of which the
object store is a part; what they share counts once (PSS).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pyarrow.parquet as pq
from common.arguments import positive, scoring_parser
from common.command import QT_BERT
from common.machine import processor
from common.nodes import Nodes, nodes
from common.runs import differences, texts_of, write_rows

FILES = 10
KILLS = ("actor",) * 7 + ("worker",) * 2 + ("command",)
LATEST = 0.9
"""No kill later than at this share of the rows, for there must be something left to kill."""
PAUSE = 4.0
"""Each kill waits up to so many seconds longer, for rows are only seen when their partition is done."""
LOOK_SECONDS = 1.0
MEBIBYTE = 2**20
_TOO_FEW = "the run ended too soon to be watched and killed; give more --rows"


@dataclass(frozen=True)
class Kill:
    """What is killed, `pause` seconds after a `share` of the rows was done."""

    share: float
    what: str
    pause: float


@dataclass
class Watched:
    """What was seen of a run: (share of the rows done, MiB) at each look, and how long it took."""

    memory: list[tuple[float, float]] = field(default_factory=list)
    killed: list[Kill] = field(default_factory=list)
    seconds: float = 0.0

    def describe(self) -> dict[str, Any]:
        """MiB at 10 % and at 90 % of the rows (the median of the looks within 2 %), the most between
        them, and what that is more than at 10 %."""
        early, late = self.near(0.1), self.near(0.9)
        most = max(used for share, used in self.memory if 0.1 <= share <= 0.9)
        return {
            "seconds": self.seconds,
            "killed": [asdict(kill) for kill in self.killed],
            "mebibytes": {"at 10 %": early, "at 90 %": late, "most": most},
            "growth": {"at 90 %": late - early, "most": most - early},
        }

    def near(self, share: float) -> float:
        """MiB when about `share` of the rows were done."""
        distance = max(0.02, min(abs(at - share) for at, _ in self.memory))
        return median(used for at, used in self.memory if abs(at - share) <= distance)


def drawn(seed: int) -> list[Kill]:
    """The ten kills, by when they come."""
    draw = random.Random(seed)
    what = draw.sample(KILLS, len(KILLS))
    shares = sorted(draw.uniform(0.02, LATEST) for _ in what)
    return [Kill(*kill, draw.uniform(0, PAUSE)) for kill in zip(shares, what, strict=True)]


class Run:
    """One run of the command on a cluster, from its start to its end."""

    def __init__(self, there: Nodes, arguments: argparse.Namespace, day: Path, out: Path) -> None:
        self._there, self._out, self._rows = there, out, arguments.rows
        self._workers = there.add(2)
        self._command = [
            *(*QT_BERT, "score", str(day)),
            *("--engine", "ray", "--address", there.address, "--out", str(out)),
            *("--model", str(arguments.model), "--dtype", arguments.dtype),
            *("--rows-per-partition", str(arguments.rows_per_partition)),
        ]

    def watch(self, kills: Sequence[Kill], seed: int) -> Watched:
        """Score everything, and kill on the way. Raises SystemExit where the command does not end well."""
        seen, draw, due = Watched(), random.Random(seed), list(kills)
        start = time.monotonic()
        command = self._start()
        while command.poll() is None:
            share = rows_done(self._out) / self._rows
            seen.memory.append((share, self._mebibytes(command.pid)))
            if due and share >= due[0].share:
                kill = due.pop(0)
                time.sleep(kill.pause)
                command = self._kill(kill.what, command, draw)
                seen.killed.append(kill)
                print(f"{time.monotonic() - start:7.1f} s: {kill.what} killed", flush=True)
            time.sleep(LOOK_SECONDS)
        seen.seconds = time.monotonic() - start
        if command.returncode:
            raise SystemExit(f"the command ended with status {command.returncode}")
        if due or not any(0.1 <= share <= 0.9 for share, _ in seen.memory):
            raise SystemExit(_TOO_FEW)
        return seen

    def _start(self, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._command, *more], stdout=subprocess.DEVNULL)

    def _kill(
        self, what: str, command: subprocess.Popen[bytes], draw: random.Random
    ) -> subprocess.Popen[bytes]:
        """Kill one of `what`; the command that is at work afterwards."""
        if command.poll() is not None:
            raise SystemExit(_TOO_FEW)
        if what == "command":
            command.kill()
            command.wait()
            return self._start("--resume")
        if what == "worker":
            self._there.lose(self._workers.pop(draw.randrange(2)))
            self._workers += self._there.add()
            return command
        while not (found := self._there.actors()):
            if command.poll() is not None:
                raise SystemExit(_TOO_FEW)
            time.sleep(LOOK_SECONDS)
        draw.choice(found).kill()
        return command

    def _mebibytes(self, command: int) -> float:
        total = 0
        for process in {psutil.Process(command), *self._there.processes()}:
            try:
                total += process.memory_full_info().pss
            except psutil.Error:  # gone in the meantime
                continue
        return total / MEBIBYTE


def rows_done(out: Path) -> int:
    """By the manifest of a run folder; a partition that was done twice counts once."""
    done = {}
    for path in out.glob("manifest/*.jsonl"):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                said = json.loads(line)
                done[said["partition"]] = said["rows"]
    return sum(done.values())


def rows_in(out: Path) -> set[tuple[str, int]]:
    """(file, line) of all rows. Raises SystemExit where one is there twice."""
    table = pq.read_table(out / "parts", columns=["file", "line"])
    rows = set(zip(table["file"].to_pylist(), table["line"].to_pylist(), strict=True))
    if len(rows) != table.num_rows:
        raise SystemExit(f"{out}: {table.num_rows - len(rows)} rows are there twice")
    return rows


def write_day(folder: Path, texts: Sequence[tuple[str, str]], rows: int) -> Path:
    """`rows` of the texts in ten files, none of which begins like another."""
    folder.mkdir()
    each, more = divmod(rows, FILES)
    start = 0
    for number in range(FILES):
        at = start % len(texts)
        size = each + (number < more)
        write_rows(folder / f"{number}.csv", [*texts[at:], *texts[:at]], size)
        start += size
    return folder


@contextmanager
def folder_of(arguments: argparse.Namespace) -> Iterator[Path]:
    """--keep, or one that is gone afterwards."""
    if arguments.keep:
        if arguments.keep.exists():
            raise SystemExit(f"--keep {arguments.keep}: is there already; name a new folder")
        arguments.keep.mkdir(parents=True)
        yield arguments.keep
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)


def main() -> None:
    arguments = parse()
    kills = drawn(arguments.seed)
    with folder_of(arguments) as folder:
        day = write_day(
            folder / "day", texts_of(arguments.pairs, arguments.columns), arguments.rows
        )
        print(f"{arguments.rows:,} rows, {processor()}, {arguments.model.name}, {arguments.dtype}")
        outs = {"undisturbed": folder / "undisturbed", "killed": folder / "killed"}
        found = {}
        for name, out in outs.items():
            with nodes() as there:
                seen = Run(there, arguments, day, out).watch(
                    kills if name == "killed" else (), arguments.seed
                )
            found[name] = seen.describe()
            tell(name, found[name])
        other = differences(*outs.values())
        rows = rows_in(outs["killed"])
    print(f"part files that differ: {len(other)}; rows: {len(rows):,}, each once")
    if arguments.json:
        arguments.json.write_text(json.dumps({"differ": other, "runs": found}, indent=1))
    if other or len(rows) != arguments.rows:
        sys.exit(1)


def tell(name: str, found: dict[str, Any]) -> None:
    """A run in words."""
    used, growth = found["mebibytes"], found["growth"]
    words = ", ".join(f"{value:,.0f} {where}" for where, value in used.items())
    print(
        f"{name}: {found['seconds']:,.0f} s; MiB: {words}; growth {growth['at 90 %']:+,.0f}, ",
        end="",
    )
    print(f"at most {growth['most']:+,.0f}", flush=True)


def parse() -> argparse.Namespace:
    parser = scoring_parser(__doc__)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--rows", type=positive, default=100_000)
    parser.add_argument("--rows-per-partition", type=positive, default=2048)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a new folder for rows and results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
