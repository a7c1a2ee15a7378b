"""Peak memory of `qt-bert score` on a small and on a large file, which should be equal.

    python benchmarks/memory.py MODEL [--small 10000] [--large 1000000]

Writes two files of random pairs, scores each in a new process with MODEL (the two-layer random model
of make_models.py) and prints peak resident memory and the difference.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from pathlib import Path

import psutil
from common.command import QT_BERT, parser_of


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peaks = [
            peak_of(arguments.model, write(Path(folder), rows), rows)
            for rows in (arguments.small, arguments.large)
        ]
    print(f"growth: {peaks[1] - peaks[0]:.0f} MB")


def write(folder: Path, rows: int) -> Path:
    """`rows` pairs of random characters, lengths as in a query log."""
    rng = random.Random(0)
    characters = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动"
    path = folder / f"{rows}.tsv"
    with open(path, "w", encoding="utf-8") as handle:
        handle.write("query\ttitle\n")
        for _ in range(rows):
            query = "".join(rng.choices(characters, k=rng.randint(3, 14)))
            title = "".join(rng.choices(characters, k=rng.randint(6, 30)))
            handle.write(f"{query}\t{title}\n")
    return path


def peak_of(model: Path, pairs: Path, rows: int) -> float:
    """Peak resident MB of one scoring process."""
    out = pairs.with_suffix(".scored.tsv")
    command = [*QT_BERT, "score", str(pairs)]
    start = time.monotonic()
    process = psutil.Popen([*command, "--model", str(model), "--out", str(out)])
    peak = [0.0]

    def watch() -> None:
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            try:
                peak[0] = max(peak[0], process.memory_info().rss / 2**20)
            except psutil.Error:
                return
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    status = process.wait()
    watcher.join()
    if status:
        raise SystemExit(status)
    seconds = time.monotonic() - start
    with open(out, "rb") as handle:
        scored = sum(1 for _ in handle) - 1
    print(f"{rows:,} pairs: {scored:,} scored, peak {peak[0]:.0f} MB, {seconds:.0f} s", flush=True)
    return peak[0]


if __name__ == "__main__":
    main()
