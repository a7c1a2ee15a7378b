"""The initialisation study on a tiny model: all four arms, killed and resumed, and bad input."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.manifest import weights_sha256
from qt_bert.errors import ArgumentError, CheckpointError, PairFileError, RunFolderError
from qt_bert.results.initialisations import ARMS, OUTPUTS, RECORD, Arm, Initialisations, Try
from qt_bert.scoring.bulk import Scorer
from qt_bert.training.finetune import TuneSettings
from qt_bert.training.initialisations import study
from qt_bert.training.initialisations.job import HeadSettings, StudyJob
from qt_bert.training.initialisations.study import run_initialisations
from qt_bert.training.initialisations.tuned import random_start
from qt_bert.training.sources import PairSource

Build = Callable[..., Path]
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
def job(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> StudyJob:
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
def finished(
    job: StudyJob, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Initialisations]:
    out = tmp_path_factory.mktemp("whole") / "study"
    return out, run_initialisations(job, out)


def test_every_arm_is_run_at_every_rate_and_with_every_seed(
    finished: tuple[Path, Initialisations],
) -> None:
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


def test_outputs_are_those_of_the_folders(
    finished: tuple[Path, Initialisations], job: StudyJob
) -> None:
    out, found = finished
    texts = [(pair.query, pair.title) for pair in job.validation.read(labelled=True)]
    for row, place in enumerate(found.record.final):
        one = found.record.tries[place]
        if one.folder is not None:
            assert weights_sha256(out / one.folder) == one.sha256
            logits = Scorer(open_checkpoint(out / one.folder)).logits(texts)
            np.testing.assert_array_equal(found.outputs["validation"].logits[row], logits)


def test_no_text_is_in_the_record(finished: tuple[Path, Initialisations]) -> None:
    out, _ = finished
    text = (out / RECORD).read_text(encoding="utf-8")
    assert not set(text) & set(GOOD + BAD)
    with np.load(out / OUTPUTS, allow_pickle=False) as stored:
        assert all(stored[name].dtype.kind in "fib" for name in stored.files)


def without_seconds(folder: Path) -> dict[str, object]:
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    for one in record["tries"]:
        one.pop("seconds")
    return record


@pytest.mark.parametrize(("killed_at", "model_is_there"), [(2, False), (9, True)])
def test_killed_and_resumed_gives_the_same_record(
    finished: tuple[Path, Initialisations],
    job: StudyJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed_at: int,
    model_is_there: bool,
) -> None:
    out, run, runs = tmp_path / "study", study.Study._run, []

    def killed(self: study.Study, arm: Arm, seed: int, rate: float | None) -> Try:
        runs.append(arm)
        found = run(self, arm, seed, rate) if len(runs) < killed_at or model_is_there else None
        if len(runs) == killed_at:
            raise KeyboardInterrupt  # before the run's facts are kept
        assert found is not None
        return found

    monkeypatch.setattr(study.Study, "_run", killed)
    with pytest.raises(KeyboardInterrupt):
        run_initialisations(job, out)
    assert not (out / RECORD).exists()
    with pytest.raises(RunFolderError, match="--resume"):
        run_initialisations(job, out)
    runs.clear()
    monkeypatch.setattr(study.Study, "_run", run)
    again: list[Try] = []
    run_initialisations(job, out, resume=True, said=again.append)
    whole, _ = finished
    assert without_seconds(out) == without_seconds(whole)
    assert (out / OUTPUTS).read_bytes() == (whole / OUTPUTS).read_bytes()
    assert len(again) == 11


def test_a_study_asked_for_otherwise_is_not_gone_on_with(
    finished: tuple[Path, Initialisations], job: StudyJob
) -> None:
    out, _ = finished
    before = (out / RECORD).read_bytes()
    run_initialisations(job, out, resume=True)
    assert (out / RECORD).read_bytes() == before
    with pytest.raises(RunFolderError, match="rates"):
        run_initialisations(replace(job, rates=(5e-3,)), out, resume=True)


def test_random_weights_come_from_the_seed(job: StudyJob, tmp_path: Path) -> None:
    made = [random_start(job.base, tmp_path / str(n), n // 2, 64) for n in range(3)]
    one, same, other = (weights_sha256(folder) for folder in made)
    assert one == same != other != weights_sha256(job.base)
    assert open_checkpoint(made[0]).settings.max_length == 64


def test_a_folder_that_holds_something_else_is_left_alone(job: StudyJob, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")
    for flags in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(RunFolderError, match="not empty"):
            run_initialisations(job, tmp_path, **flags)
    assert (tmp_path / "mine.txt").exists()


def test_a_tuned_base_is_refused(job: StudyJob, checkpoint_of: Build, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="fine-tuned"):
        run_initialisations(replace(job, base=checkpoint_of()), tmp_path / "study")


def test_files_without_labels_or_with_shared_queries_are_refused(
    job: StudyJob, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.tsv"
    plain.write_text("query\ttitle\n北京\t上海\n", encoding="utf-8")
    for wrong in (
        {"discovery": PairSource(plain)},
        {"sources": (PairSource(plain),)},
        {"validation": job.discovery},
        {"validation": job.sources[0]},
    ):
        with pytest.raises(PairFileError):
            run_initialisations(replace(job, **wrong), tmp_path / "study")  # type: ignore[arg-type]
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rates": ()}, "--lr"),
        ({"rates": (2.0,)}, "--lr 2"),
        ({"seeds": (1, 1)}, "each once"),
        ({"seeds": (-1,)}, "0 or more"),
        ({"metric": "nothing"}, "choose from"),
        ({"head": HeadSettings(passes=0)}, "passes"),
        ({"max_length": 65}, "has 64 positions"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    job: StudyJob, tmp_path: Path, change: dict[str, object], says: str
) -> None:
    with pytest.raises(ArgumentError, match=says):
        run_initialisations(replace(job, **change), tmp_path / "study")  # type: ignore[arg-type]
