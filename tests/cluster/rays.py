"""For the tests with Ray: a day's files, what a run must give, and clusters."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from qt_bert.cluster.partition import ScoreJob
from qt_bert.cluster.record import Line
from qt_bert.cluster.scanning import scan
from qt_bert.scoring.tables import InputColumns
from tests.cluster.planted import ROOT
from tests.conftest import CHARACTERS

ROWS = 300


def rows_of_a_day(rows: int = ROWS, seed: int = 7) -> list[tuple[str, str]]:
    """Queries and titles of many lengths."""
    draw = random.Random(seed)

    def text(least: int, most: int) -> str:
        return "".join(draw.choices(CHARACTERS[:60], k=draw.randint(least, most)))

    return [(text(2, 8), text(3, 30)) for _ in range(rows)]


def write_day(folder: Path) -> Path:
    """300 rows in four files of four formats; three of them are rejects."""
    rows = rows_of_a_day()
    (folder / "late").mkdir(parents=True)
    tsv = [("狗追猫", "")] + rows[:119]
    lines = "".join(f"{query}\t{title}\n" for query, title in tsv)
    (folder / "a.tsv").write_text("query\ttitle\n" + lines, encoding="utf-8")
    with gzip.open(folder / "b.jsonl.gz", "wt", encoding="utf-8") as handle:
        for query, title in rows[119:199]:
            handle.write(json.dumps({"query": query, "title": title}, ensure_ascii=False) + "\n")
    queries, titles = zip(*rows[199:259], strict=True)
    pq.write_table(pa.table({"query": queries, "title": titles}), folder / "c.parquet")
    with open(folder / "late" / "d.csv", "w", encoding="utf-8", newline="") as handle:
        out = csv.writer(handle)
        out.writerows([("query", "title"), ("", "猫追狗"), (" ", "狗"), *rows[259:297]])
    return folder


def job_for(model: Path, out: Path | str, **options: Any) -> ScoreJob:
    """A job as the command makes it; its columns come from the scan."""
    return ScoreJob(model=str(model), out=str(out), columns=InputColumns(False, ()), **options)


def reference(job: ScoreJob, inputs: Sequence[str], rows: int, out: Path) -> dict[str, bytes]:
    """The parts that a scorer in this process gives, by name."""
    from qt_bert.cluster.partition import prepared
    from qt_bert.cluster.worker import PartitionScorer

    found = scan(inputs, job.reader, rows, shown=False)
    scorer = PartitionScorer(prepared(replace(job, columns=found.columns, out=str(out))))
    said = [scorer.score(part) for part in found.parts]
    assert all(isinstance(one, Line) for one in said), said
    return parts_in(out)


def parts_in(out: Path) -> dict[str, bytes]:
    """The part files of a run, by name."""
    return {path.name: path.read_bytes() for path in sorted((out / "parts").iterdir())}


def table_of(out: Path) -> pa.Table:
    """All parts of a run, in the order of their names."""
    return pa.concat_tables([pq.read_table(path) for path in sorted((out / "parts").iterdir())])


def hears_ctrl_c() -> None:
    """For `preexec_fn`: what a shell starts in the background ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def importable_tests() -> Iterator[None]:
    """Processes that start in the block find the tests."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), before)))
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def waited(done: Callable[[], bool], seconds: float) -> bool:
    """Whether something is so within some seconds."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def are_gone(processes: Sequence[int]) -> bool:
    """Whether none of them runs; whose parent does not ask for its end is no more than a number."""

    def runs(process: int) -> bool:
        try:
            return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return not any(map(runs, processes))


def main() -> None:
    """`python -m tests.cluster.rays JSON`: score as the command does, with a job of a test."""
    from qt_bert.cluster.score import RayOptions, score_on_ray
    from qt_bert.codec import decode
    from qt_bert.errors import QtBertError

    asked = json.loads(sys.argv[1])
    job: ScoreJob = decode(ScoreJob, asked["job"], "the job")
    options = RayOptions(**asked["options"])
    try:
        score_on_ray(asked["inputs"], job, options, resume=asked["resume"])
    except KeyboardInterrupt:
        sys.exit(130)
    except QtBertError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
