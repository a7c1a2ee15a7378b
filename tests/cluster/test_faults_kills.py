"""Actors, nodes and the command itself killed at drawn moments: the same bits in the end."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.common.nodes import is_actor, nodes
from qt_bert.cluster import ray as cluster_module
from qt_bert.cluster.partition import ScoreJob
from qt_bert.cluster.processes import Helper
from qt_bert.cluster.score import RayOptions, RayReport, score_on_ray
from qt_bert.codec import encode
from qt_bert.data.reader import ReaderOptions
from tests.cluster.planted import ROOT
from tests.cluster.rays import (
    are_gone,
    hears_ctrl_c,
    importable_tests,
    job_for,
    parts_in,
    reference,
    waited,
    write_day,
)

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("alone_with_ray")]
READER = ReaderOptions(max_rejects=0.05)
ROWS = 8
_PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""How long Ray waits for a head that is gone: a minute, if nobody says otherwise."""


@pytest.fixture
def day(tmp_path: Path) -> Path:
    return write_day(tmp_path / "day")


@pytest.fixture
def job(checkpoint_of: Any, tmp_path: Path) -> ScoreJob:
    """Slow enough to be killed at work."""
    scorer = "tests.cluster.planted_ray:slow"
    return job_for(checkpoint_of(), tmp_path / "out", reader=READER, scorer=scorer)


@pytest.fixture
def wanted(job: ScoreJob, day: Path, tmp_path: Path) -> dict[str, bytes]:
    out = tmp_path / "reference"
    return reference(replace(job, scorer=None, out=str(out)), [str(day)], ROWS, out)


def lines_in(out: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (out / "manifest").glob("*.jsonl"))


def actors_of(parent: int) -> list[psutil.Process]:
    """The actors of the cluster that a process has started, at work or idle."""
    return [one for one in psutil.Process(parent).children(recursive=True) if is_actor(one)]


def whole(report: RayReport, out: Path, wanted: dict[str, bytes]) -> None:
    assert report.record.complete and parts_in(out) == wanted
    totals = report.record.totals
    assert totals is not None and (totals.pairs, totals.rejected) == (297, 3)


def killed_one(draw: random.Random, killed: list[int]) -> bool:
    """Kill an actor, if there is one just now."""
    with suppress(psutil.NoSuchProcess):
        if found := actors_of(os.getpid()):
            victim = draw.choice(found)
            victim.kill()
            killed.append(victim.pid)
            return True
    return False


@pytest.mark.parametrize("seed", [0, 1])
def test_actors_killed_at_drawn_moments(
    job: ScoreJob, day: Path, wanted: dict[str, bytes], seed: int
) -> None:
    out, draw = Path(job.out), random.Random(seed)
    killed: list[int] = []

    def kill() -> None:
        for number in (1, 8, 15, 20):
            waited(lambda: lines_in(out) >= number, 120)  # noqa: B023 - called at once
            time.sleep(draw.random() * 0.3)
            waited(lambda: killed_one(draw, killed), 120)

    killer = threading.Thread(target=kill)
    killer.start()
    with importable_tests():
        report = score_on_ray([str(day)], job, RayOptions(actors=2, rows=ROWS))
    killer.join()
    assert len(killed) == 4
    whole(report, out, wanted)


@pytest.mark.parametrize("server", ["raylet", "gcs_server"])
def test_ray_itself_is_killed(
    job: ScoreJob,
    day: Path,
    wanted: dict[str, bytes],
    server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray ends the process that is connected then, without a word; another cluster is started."""
    monkeypatch.setenv(_PATIENCE, "10")
    helpers: list[Helper] = []
    monkeypatch.setattr(cluster_module, "Helper", lambda: helpers.append(Helper()) or helpers[-1])
    out = Path(job.out)
    over = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        waited(lambda: lines_in(out) >= 2 or over.is_set(), 120)
        for one in [] if over.is_set() else psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if one.name() == server:
                    one.kill()
                    killed.append(len(helpers))

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with importable_tests():
            report = score_on_ray([str(day)], _slower(job), RayOptions(actors=2, rows=ROWS))
    finally:
        over.set()
        killer.join()
    assert len(killed) == 1 and len(helpers) > killed[0], "nobody missed it"
    whole(report, out, wanted)


def test_the_head_is_lost(
    job: ScoreJob, day: Path, wanted: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_PATIENCE, "10")
    monkeypatch.setattr(cluster_module, "_COME_BACK_SECONDS", 1.0)
    out = Path(job.out)
    errors: list[Exception] = []
    with importable_tests(), nodes() as started:
        started.add(2)
        options = RayOptions(address=started.address, rows=ROWS)

        def work() -> None:
            try:
                score_on_ray([str(day)], _slower(job), options)
            except Exception as error:
                errors.append(error)

        runs = threading.Thread(target=work, daemon=True)
        runs.start()
        assert waited(lambda: lines_in(out) >= 2, 120)
        [head] = [one for one in started.processes() if one.name() == "gcs_server"]
        head.kill()
        runs.join(300)
    assert not runs.is_alive() and errors
    assert re.search(
        r"Ray gave up: --address \S+: nobody answers there .* \(3 rounds in a row\); [0-9]+ of 300 "
        "rows are done; see to the cluster, and --resume goes on",
        str(errors[0]),
    )
    with importable_tests():
        report = score_on_ray(
            [str(day)], _slower(job), RayOptions(actors=2, rows=ROWS), resume=True
        )
    whole(report, out, wanted)


def _slower(job: ScoreJob) -> ScoreJob:
    """So slow that a head that is gone is missed before the work is done."""
    return replace(job, scorer="tests.cluster.planted_ray:slower")


@pytest.mark.parametrize("seed", [0, 1])
def test_the_command_killed_at_drawn_moments_and_resumed(
    job: ScoreJob, day: Path, wanted: dict[str, bytes], seed: int
) -> None:
    out, draw = Path(job.out), random.Random(seed)
    for number, how in enumerate((signal.SIGKILL, signal.SIGINT, signal.SIGKILL)):
        started = command(job, day, resume=number > 0)
        least = lines_in(out) + draw.randint(1, 6)
        assert waited(lambda: lines_in(out) >= least, 120)  # noqa: B023 - called at once
        at_work = [one.pid for one in psutil.Process(started.pid).children(recursive=True)]
        started.send_signal(how)
        status = started.wait(60)
        assert status == (130 if how == signal.SIGINT else -how)
        assert waited(lambda: are_gone(at_work), 30)  # noqa: B023
    last = command(job, day, resume=True)
    assert last.wait(300) == 0, last.communicate()[1]
    with importable_tests():
        report = score_on_ray([str(day)], job, RayOptions(rows=ROWS), resume=True)
    assert report.already
    whole(report, out, wanted)
    assert max(_counted(out).values()) <= 2


def _counted(out: Path) -> Counter[str]:
    """How often the manifest has a line for each partition: again only where it was under way."""
    texts = [path.read_text() for path in (out / "manifest").glob("*.jsonl")]
    lines = [line for text in texts for line in text.split("\n") if line.endswith("}")]
    return Counter(json.loads(line)["partition"] for line in lines)


def command(job: ScoreJob, day: Path, *, resume: bool) -> subprocess.Popen[str]:
    asked = {
        "job": encode(job),
        "inputs": [str(day)],
        "options": {"actors": 2, "rows": ROWS},
        "resume": resume,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.rays", json.dumps(asked)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hears_ctrl_c,
    )


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_node_is_lost(
    job: ScoreJob, day: Path, wanted: dict[str, bytes], comes_back: bool
) -> None:
    out = Path(job.out)
    with importable_tests(), nodes() as started:
        first, _ = started.add(2)
        options = RayOptions(address=started.address, rows=ROWS)
        reports: list[RayReport] = []
        work: Callable[[], None] = lambda: reports.append(  # noqa: E731
            score_on_ray([str(day)], job, options)
        )
        runs = threading.Thread(target=work)
        runs.start()
        assert waited(lambda: lines_in(out) >= 4, 120)
        started.lose(first)
        if comes_back:
            started.add()
        runs.join(300)
        assert reports, "the run ended with an error, or not at all"
    whole(reports[0], out, wanted)
