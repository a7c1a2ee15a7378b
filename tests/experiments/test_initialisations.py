"""The initialisation study on a tiny model: all four arms, killed and resumed, and bad input."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from experiments.initialisations.job import HeadSettings, StudyJob
from experiments.initialisations.record import (
    ARMS,
    OUTPUTS,
    RECORD,
    Initialisations,
    Try,
    read_initialisations,
)
from experiments.initialisations.run import Study, run_initialisations
from qt_bert.errors import CheckpointError, PairFileError, RunFolderError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.folder import weights_sha256
from qt_bert.scoring.bulk import Scorer
from qt_bert.training.finetune import TuneSettings
from qt_bert.training.recipes import PairSource
from tests.experiments.made_initialisations import written

QUICK = TuneSettings(epochs=2, slots=256, patience=0, compile=False, save_every=1)
HEAD = HeadSettings(passes=6, pairs=32, rates=(3e-3, 3e-2), readings=3)
GOOD, BAD = "北京上海高铁", "怎么去除衣服"


def write(path: Path, count: int, first: int) -> Path:
    """Pairs whose grade is 5 where the title repeats the query, else 1; three to a query."""
    rng, rows = random.Random(first), ["query\ttitle\tgrade"]
    for i in range(count):
        query = GOOD[i // 3 % 4 :] + str(first + i // 3)
        title = query if i % 2 else "".join(rng.choices(BAD, k=5))
        rows.append(f"{query}\t{title}\t{5 if i % 2 else 1}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def job(checkpoint_of, tmp_path_factory) -> StudyJob:
    place = tmp_path_factory.mktemp("study")
    classifier = checkpoint_of(hidden=32, seed=5)
    AutoModel.from_pretrained(classifier).save_pretrained(place / "base")
    AutoTokenizer.from_pretrained(classifier).save_pretrained(place / "base")
    return StudyJob(
        base=place / "base",
        sources=(PairSource(write(place / "train.tsv", 120, 1000)),),
        discovery=PairSource(write(place / "dev.tsv", 30, 2000)),
        validation=PairSource(write(place / "test.tsv", 30, 3000)),
        tuning=QUICK,
        head=HEAD,
        rates=(1e-3, 3e-3),
        seeds=(0, 1),
    )


@pytest.fixture(scope="module")
def finished(job, tmp_path_factory) -> tuple[Path, Initialisations]:
    out = tmp_path_factory.mktemp("whole") / "study"
    return out, run_initialisations(job, out)


def test_every_arm_is_run_at_every_rate_and_with_every_seed(finished):
    _, found = finished
    record = found.record
    assert {arm: len(record.runs(arm)) for arm in ARMS} == dict.fromkeys(ARMS, 2)
    tried = {arm: [one for one in record.tries if one.arm == arm] for arm in ARMS}
    assert {arm: len(runs) for arm, runs in tried.items()} == {
        "untrained": 2,
        "frozen": 3,
        "random": 3,
        "tuned": 3,
    }
    for arm in ("frozen", "random", "tuned"):
        first = [one for one in tried[arm] if one.seed == 0]
        best = max(first, key=lambda one: -1 if one.discovery is None else one.discovery)
        final = [record.tries[record.final[row]] for row in record.runs(arm)]
        assert final[0] == best
        assert {one.rate for one in final} == {best.rate}
        assert [one.seed for one in final] == [0, 1]
    assert found.outputs["validation"].logits.shape == (8, 30, 5)
    assert len(np.unique(found.outputs["validation"].queries)) == 10


def test_outputs_are_those_of_the_folders(finished, job):
    out, found = finished
    texts = [(pair.query, pair.title) for pair in job.validation.read(labelled=True)]
    for row, place in enumerate(found.record.final):
        one = found.record.tries[place]
        if one.folder is not None:
            assert weights_sha256(out / one.folder) == one.sha256
            logits = Scorer(open_checkpoint(out / one.folder)).logits(texts)
            np.testing.assert_array_equal(found.outputs["validation"].logits[row], logits)


def without_seconds(folder: Path) -> dict[str, object]:
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    for one in record["tries"]:
        one.pop("seconds")
    return record


def test_killed_and_resumed_gives_the_same_record(finished, job, tmp_path, monkeypatch):
    out, run, runs = tmp_path / "study", Study._run, []

    def killed(self, arm, seed, rate):
        runs.append(arm)
        found = run(self, arm, seed, rate)
        if len(runs) == 9:
            raise KeyboardInterrupt  # the model is there, before the run's facts are kept
        return found

    monkeypatch.setattr(Study, "_run", killed)
    with pytest.raises(KeyboardInterrupt):
        run_initialisations(job, out)
    assert not (out / RECORD).exists()
    with pytest.raises(RunFolderError, match="--resume"):
        run_initialisations(job, out)
    runs.clear()
    monkeypatch.setattr(Study, "_run", run)
    again: list[Try] = []
    run_initialisations(job, out, resume=True, said=again.append)
    whole, _ = finished
    assert without_seconds(out) == without_seconds(whole)
    assert (out / OUTPUTS).read_bytes() == (whole / OUTPUTS).read_bytes()
    assert len(again) == 11


def test_what_does_not_fit_is_refused(finished, job, checkpoint_of, tmp_path):
    with pytest.raises(RunFolderError, match="rates"):
        run_initialisations(replace(job, rates=(5e-3,)), finished[0], resume=True)
    with pytest.raises(CheckpointError, match="fine-tuned"):
        run_initialisations(replace(job, base=checkpoint_of()), tmp_path / "study")


def test_files_without_labels_or_with_shared_queries_are_refused(job, tmp_path):
    plain = tmp_path / "plain.tsv"
    plain.write_text("query\ttitle\n北京\t上海\n", encoding="utf-8")
    for wrong in (
        {"discovery": PairSource(plain)},
        {"sources": (PairSource(plain),)},
        {"validation": job.discovery},
        {"validation": job.sources[0]},
    ):
        with pytest.raises(PairFileError):
            run_initialisations(replace(job, **wrong), tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_damage_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="no such result file"):
        read_initialisations(tmp_path)
    folder = written(tmp_path, "c" * 64)
    stored = (folder / OUTPUTS).read_bytes()
    (folder / OUTPUTS).write_bytes(stored[:-1])
    with pytest.raises(RunFolderError, match="not the file"):
        read_initialisations(folder)
    (folder / OUTPUTS).unlink()
    with pytest.raises(RunFolderError, match="missing"):
        read_initialisations(folder)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("final", [0, 1], "not every arm"),
        ("final", list(range(7)), "not every arm"),
        ("final", [0, 2, 4, 6], "do not fit"),
        ("final", [99], "not there"),
        ("grades", [[1], [2]], "do not fit"),
        ("tries", "none", "a list"),
    ],
)
def test_a_record_that_its_outputs_do_not_fit_is_refused(tmp_path, key, value, says):
    folder = written(tmp_path, "c" * 64)
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    record[key] = value
    (folder / RECORD).write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(RunFolderError, match=says):
        read_initialisations(folder)


def test_no_text_is_in_the_record(finished):
    out, _ = finished
    text = (out / RECORD).read_text(encoding="utf-8")
    assert not set(text) & set(GOOD + BAD)
    with np.load(out / OUTPUTS, allow_pickle=False) as stored:
        assert all(stored[name].dtype.kind in "fib" for name in stored.files)
