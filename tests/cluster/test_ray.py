"""Runs on a real Ray of this machine: equal bytes, kills, faults, and nothing left behind."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.common.command import QT_BERT
from qt_bert.cluster.ray import cluster_size, run_on_ray
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.score import score_file
from qt_bert.shipped import STUDENT, shipped
from tests.conftest import write_pairs

pytest.importorskip("ray")
NIGHTLY_ROWS = int(os.environ.get("QT_BERT_NIGHTLY_ROWS", "20000"))
"""Rows of the kill test; a million takes some quarter of an hour."""


def day_of(folder: Path, rows: int) -> Path:
    folder.mkdir()
    for number in range(4):
        pairs = ((f"查询{number}之{row}", f"标题{row % 97}好用吗") for row in range(rows // 4))
        write_pairs(folder / f"{number}.tsv", pairs)
    return folder


def command(day: Path, out: Path, *more: str) -> list[str]:
    options = ("--engine", "ray", "--out", str(out), "--model", str(shipped(STUDENT)))
    return [*QT_BERT, "score", str(day), *options, *more]


def ended(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True)


def parts_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "parts").glob("*.parquet"))}


def left_behind() -> list[str]:
    """Processes of Ray that work in a folder of ours."""
    result = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    return [line[:80] for line in result.splitlines() if "/qtb-" in line and "ray" in line]


def wait_for_parts(out: Path, number: int, process: subprocess.Popen[Any]) -> None:
    end = time.monotonic() + 240
    while len(list((out / "parts").glob("*.parquet"))) < number:
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.1)


@pytest.mark.slow
def test_a_run_gives_the_scores_of_plain_score_and_goes_on_after_a_kill(tmp_path):
    day = day_of(tmp_path / "day", 12_000)
    options = ["--rows-per-partition", "250"]
    whole = ended(day, tmp_path / "whole", *options)
    assert whole.returncode == 0 and "12,000 pairs scored" in whole.stderr, whole.stderr
    scored = pd.read_parquet(tmp_path / "whole" / "parts").sort_values(["file", "line"])
    scorer = Scorer(open_checkpoint(shipped(STUDENT), compact=True))
    score_file(day / "2.tsv", ReaderOptions(), scorer, tmp_path / "plain.parquet")
    expected = pd.read_parquet(tmp_path / "plain.parquet")
    mine = scored[scored["file"] == str(day / "2.tsv")]
    assert mine["predicted_grade"].tolist() == expected["predicted_grade"].tolist()
    assert (mine["expected_grade"].values - expected["expected_grade"].values).max() < 1e-5

    with subprocess.Popen(
        command(day, tmp_path / "killed", *options), stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for_parts(tmp_path / "killed", 3, process)
        process.kill()
    time.sleep(5)
    assert left_behind() == []
    done = len(parts_of(tmp_path / "killed"))
    assert 3 <= done < 48
    again = ended(day, tmp_path / "killed", *options, "--resume")
    assert again.returncode == 0, again.stderr
    assert parts_of(tmp_path / "killed") == parts_of(tmp_path / "whole")


@pytest.mark.slow
def test_ctrl_c_takes_everything_down_and_changed_inputs_are_refused(tmp_path):
    day = day_of(tmp_path / "day", 12_000)
    options = ["--rows-per-partition", "100"]
    with subprocess.Popen(
        command(day, tmp_path / "out", *options), stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for_parts(tmp_path / "out", 2, process)
        process.send_signal(signal.SIGINT)
        words = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "--resume goes on" in words
    assert left_behind() == []
    before = (day / "3.tsv").read_bytes()
    (day / "3.tsv").write_bytes(before.replace("好用吗".encode(), "难用吗".encode()))
    refused = ended(day, tmp_path / "out", *options, "--resume")
    assert refused.returncode == 2 and "another content of" in refused.stderr, refused.stderr
    (day / "3.tsv").write_bytes(before)
    whole = ended(day, tmp_path / "out", *options, "--resume")
    assert whole.returncode == 0 and len(parts_of(tmp_path / "out")) == 120


KILLER = """
import json, os, signal, sys
class Worker:
    def __init__(self, fatal): self.fatal = fatal
    def __call__(self, item):
        if item == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"item": item, "threads": os.environ["OMP_NUM_THREADS"]}
"""


@pytest.mark.slow
def test_an_item_that_kills_its_actors_is_left_out_and_all_others_are_done(tmp_path, monkeypatch):
    (tmp_path / "planted_killer.py").write_text(KILLER)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    items = [str(number) for number in range(12)]
    results = list(run_on_ray("planted_killer:Worker", {"fatal": "5"}, items, actors=2))
    broken = list(run_on_ray("planted_killer:Nothing", {}, items[:3], actors=2))
    assert sorted(int(row["item"]) for row in results) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert {row["threads"] for row in results} == {"1"}
    assert all("has no attribute 'Nothing'" in row["fatal"] for row in broken) and len(broken) == 3
    assert left_behind() == []


@pytest.mark.parametrize(
    ("address", "words"),
    [("here", "HOST:PORT"), ("ray://x:1", "HOST:PORT"), ("127.0.0.1:1", "nobody answers")],
)
def test_an_address_where_no_cluster_is(address: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        cluster_size(address)


def test_a_cluster_without_a_gpu_is_named(monkeypatch) -> None:
    size = {"machines": 2, "cpus": 8, "gpus": 0}
    monkeypatch.setattr("qt_bert.cluster.ray._replies", lambda *_: iter([size]))
    assert cluster_size("host:1") == (2, 8)
    with pytest.raises(ArgumentError, match="host:1: no machine lends a GPU"):
        cluster_size("host:1", 1)


@pytest.mark.nightly
def test_ten_kills_give_the_same_bytes(tmp_path):
    """The command and actors are killed at drawn moments; --resume until it is done."""
    day = day_of(tmp_path / "day", NIGHTLY_ROWS)
    options = ["--rows-per-partition", str(max(50, NIGHTLY_ROWS // 120))]
    ended(day, tmp_path / "whole", *options).check_returncode()
    total, out = len(parts_of(tmp_path / "whole")), tmp_path / "killed"
    moments = sorted(random.Random(0).sample(range(2, int(0.9 * total)), 10))
    process: subprocess.Popen[str] | None = None
    for number, parts in enumerate(moments):
        if process is None:
            more = ["--resume"] if (out / "run.json").exists() else []
            process = subprocess.Popen(
                command(day, out, *options, *more), stderr=subprocess.DEVNULL, text=True
            )
        wait_for_parts(out, parts, process)
        if number % 2:
            process.kill()
            process.wait()
            process = None
        else:
            subprocess.run(["pkill", "-9", "-f", "ray::MapWorker"])
    assert process is None and len(parts_of(out)) < total
    last = ended(day, out, *options, "--resume")
    assert last.returncode == 0, last.stderr
    assert parts_of(out) == parts_of(tmp_path / "whole")
    time.sleep(5)
    assert left_behind() == []
