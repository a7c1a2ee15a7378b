"""Scoring on a cluster whose two actors take all its CPUs: the same bits as in one process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.common.nodes import nodes
from qt_bert.cluster.ray import cluster
from qt_bert.cluster.score import RayOptions, prove_nodes, score_on_ray
from qt_bert.cluster.worker import program
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.score import score_file
from tests.cluster.planted import job_of
from tests.cluster.rays import importable_tests, job_for, parts_in, reference, table_of, write_day
from tests.conftest import make_checkpoint

pytestmark = pytest.mark.usefixtures("alone_with_ray")

READER = ReaderOptions(max_rejects=0.05)
ROWS = 32


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A head without CPUs, and two nodes with one each."""
    with importable_tests(), nodes() as started:
        started.add(2)
        yield started.address


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("ray") / "model")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_day(tmp_path_factory.mktemp("ray") / "day")


@pytest.fixture(scope="module")
def scored(address: str, model: Path, day: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run."""
    out = tmp_path_factory.mktemp("ray") / "out"
    report = score_on_ray([str(day)], job_for(model, out, reader=READER), options(address))
    assert report.record.complete and not report.already
    return out


def options(address: str | None = None, **given: Any) -> RayOptions:
    return RayOptions(address=address, rows=ROWS, **given)


def test_the_parts_have_the_bits_of_a_scorer_in_this_process(
    scored: Path, model: Path, day: Path, tmp_path: Path
) -> None:
    alone = reference(job_for(model, tmp_path, reader=READER), [str(day)], ROWS, tmp_path)
    assert parts_in(scored) == alone
    assert len(alone) == 4 + 3 + 2 + 2


def test_the_scores_are_those_of_plain_score(
    scored: Path, model: Path, day: Path, tmp_path: Path
) -> None:
    run = table_of(scored).to_pandas().set_index(["file", "line"])
    scorer = Scorer(open_checkpoint(model))
    files = [day / "a.tsv", day / "b.jsonl.gz", day / "c.parquet", day / "late" / "d.csv"]
    for number, file in enumerate(files):
        out = tmp_path / f"{number}.parquet"
        score_file(file, ReaderOptions(max_rejects=0.9), scorer, out)
        plain = pq.read_table(out).to_pandas()
        mine = run.loc[str(file)].reset_index()
        assert list(mine.columns) == ["line", *plain.columns]
        numbers = list(plain.select_dtypes("number").columns)
        assert np.abs(mine[numbers] - plain[numbers]).to_numpy().max() < 1e-5
        texts = [name for name in plain.columns if name not in numbers]
        assert mine[texts].equals(plain[texts])


def test_every_row_is_scored_or_rejected(scored: Path) -> None:
    record = json.loads((scored / "run.json").read_text())
    rejects = (scored / "rejects.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert record["rows"] == 300
    assert (record["totals"]["pairs"], record["totals"]["rejected"]) == (297, 3)
    assert [row.split("\t")[1:3] for row in rejects] == [
        ["2", "empty title"],
        ["2", "empty query"],
        ["3", "empty query"],
    ]
    settings = record["settings"]
    assert (settings["actors"], settings["restarts"], settings["round"]) == (2, 20, 512)
    assert (settings["attempts"], settings["idle_rounds"], settings["stall"]) == (3, 3, 600)
    assert record["arguments"]["model"].startswith("/")
    assert not (scored / "begun").exists() and not (scored / "rejects").exists()


@pytest.mark.slow
def test_resume_does_only_what_is_missing(
    address: str, scored: Path, model: Path, day: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = parts_in(scored)
    lost = sorted((scored / "parts").iterdir())[3]
    times = {path.name: path.stat().st_mtime_ns for path in (scored / "parts").iterdir()}
    lost.unlink()
    (day / "new.tsv").write_text("query\ttitle\n狗\t猫\n", encoding="utf-8")
    try:
        job = job_for(model, scored, reader=READER)
        report = score_on_ray([str(day)], job, options(address), resume=True)
    finally:
        (day / "new.tsv").unlink()
    assert parts_in(scored) == before
    later = {path.name: path.stat().st_mtime_ns for path in (scored / "parts").iterdir()}
    assert [name for name in times if times[name] != later[name]] == [lost.name]
    assert list(report.put_back.values()) == [f"parts/{lost.name} is missing"]
    assert report.late == [str(day / "new.tsv")]
    assert capfd.readouterr().out == ""
    again = score_on_ray([str(day)], job, options(), resume=True)
    assert again.already, "and no cluster is needed for that"


def test_a_run_with_other_inputs_or_rows_is_another_run(
    scored: Path, model: Path, day: Path
) -> None:
    job = job_for(model, scored, reader=READER)
    with pytest.raises(RunFolderError, match="another inputs"):
        score_on_ray([str(day / "a.tsv")], job, options(), resume=True)
    with pytest.raises(RunFolderError, match="another --rows-per-partition"):
        score_on_ray([str(day)], job, RayOptions(rows=31), resume=True)


def test_files_that_changed_are_told_before_a_cluster_is_there(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = write_day(tmp_path / "day")
    job = job_for(model, tmp_path / "out", reader=READER)
    monkeypatch.setattr("qt_bert.cluster.score.cluster", _no_cluster)
    with pytest.raises(KeyboardInterrupt):
        score_on_ray([str(day)], job, options())
    with open(day / "a.tsv", "ab") as handle:
        handle.write("狗\t猫\n".encode())
    with pytest.raises(PairFileError, match="a.tsv: changed since it was scanned"):
        score_on_ray([str(day)], job, options(), resume=True)


def _no_cluster(*rest: Any, **options: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_the_proof_names_the_machine_and_what_differs(
    address: str, model: Path, day: Path, tmp_path: Path
) -> None:
    job = job_of(model, day / "a.tsv", tmp_path, reader=READER)
    sizes = {str(day / "a.tsv"): (day / "a.tsv").stat().st_size}
    folder = os.getcwd()
    with cluster(address) as there:
        assert (there.own, there.cpus, len(there.nodes)) == (False, 2, 2)
        prove_nodes(there, sizes, job, program(), folder)
        assert not list((tmp_path / "begun").iterdir())
        with pytest.raises(
            ArgumentError, match=r"machine 127.0.0.1: .*no-such.tsv: cannot be read"
        ):
            prove_nodes(there, {str(day / "no-such.tsv"): 1}, job, program(), folder)
        with pytest.raises(ArgumentError, match=r"torch .*\(1 other machines fail too\)"):
            prove_nodes(there, sizes, job, program() | {"torch": "1.0"}, folder)
        with pytest.raises(ArgumentError, match="no answer within 0 seconds"):
            prove_nodes(there, sizes, job, program(), folder, seconds=0)
