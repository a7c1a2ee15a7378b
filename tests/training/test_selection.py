"""When a run ends and is judged, and what it refuses to learn from."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.training.finetune import TrainJob, TuneSettings, run_tuning
from qt_bert.training.losses import LossWeights
from qt_bert.training.recipes import PairSource, TeacherSource
from tests.conftest import PAIRS, write_pairs

QUICK = {"slots": 48, "dtype": "float32", "compile": False, "patience": 0}


@pytest.fixture
def job(checkpoint_of, pair_file):
    source = PairSource(pair_file)
    return TrainJob(base=checkpoint_of(), sources=(source,), dev=source, max_length=48)


def steps_judged(folder):
    lines = (folder / "training_log.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_steps_end_a_run_whatever_the_epochs(job, tmp_path):
    epoch = run_tuning(job, tmp_path / "one", TuneSettings(epochs=1, evaluations=1, **QUICK))
    a_pass = epoch["planned_steps"]
    assert steps_judged(tmp_path / "one") == [a_pass]
    longer = TuneSettings(epochs=1, max_steps=a_pass + 2, evaluations=1, **QUICK)
    assert run_tuning(job, tmp_path / "two", longer)["steps"] == a_pass + 2
    assert steps_judged(tmp_path / "two") == [a_pass, a_pass + 2]
    shorter = TuneSettings(epochs=3, max_steps=1, evaluations=1, **QUICK)
    assert run_tuning(job, tmp_path / "three", shorter)["steps"] == 1


def test_labels_between_two_grades_are_judged_by_their_order(job, tmp_path, capsys):
    """With 3-4 beside 3 and 4 there is no QWK: no evaluation would be the best one."""
    rows = [(q, t, "3-4" if grade == 3 else grade) for q, t, grade in PAIRS]
    dev = PairSource(write_pairs(tmp_path / "dev.tsv", rows))
    once = TuneSettings(epochs=1, evaluations=1, **QUICK)
    facts = run_tuning(replace(job, dev=dev), tmp_path / "m", once)
    assert facts["figure"] == "spearman" and facts["best"] is not None
    assert (
        "dev is judged by spearman and not by qwk: the labels are sets" in capsys.readouterr().err
    )
    assert run_tuning(job, tmp_path / "n", once)["figure"] == "qwk"
    assert "dev:" not in capsys.readouterr().err
    dev = PairSource(write_pairs(tmp_path / "one.tsv", [(q, t, 3) for q, t, _ in PAIRS]))
    run_tuning(replace(job, dev=dev), tmp_path / "o", once)
    assert "dev: all 8 pairs have one label" in capsys.readouterr().err


def test_rows_without_a_label_are_counted_and_listed(job, tmp_path, capsys):
    source = PairSource(write_pairs(tmp_path / "more.tsv", [*PAIRS, ("甲", "乙", "")]))
    once = TuneSettings(epochs=1, evaluations=1, **QUICK)
    facts = run_tuning(replace(job, sources=(source,), dev=source), tmp_path / "m", once)
    assert facts["rows"] == {"more.tsv": 8} and facts["dev_pairs"] == 8
    said = capsys.readouterr().err
    for name in ("rejects-1.tsv", "rejects-dev.tsv"):
        listed = tmp_path / "m.training" / name
        assert f"more.tsv: 1 row rejected, listed in {listed}" in said
        assert len(listed.read_text("utf-8").splitlines()) == 2


TEACHER, MARGIN = TeacherSource(Path("teacher")), LossWeights(margin=1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda one: {"sources": (one, replace(one, unlabelled=True))}, "or qt-bert distill"),
        (lambda one: {"sources": (replace(one, tenth="alone"),), "dev": None}, "with a dev file"),
        (lambda one: {"loss": LossWeights(soft=1.0)}, "give --teacher"),
        (lambda one: {"loss": MARGIN, "teacher": TEACHER}, "no part of --loss"),
        (
            lambda one: {"sources": (replace(one, auxiliary="clicks"),), "teacher": TEACHER},
            "all pairs are auxiliary",
        ),
        (
            lambda one: {"sources": (replace(one, labels=("4",)),), "loss": MARGIN},
            "no query of the training pairs has two",
        ),
    ],
)
def test_a_job_that_cannot_run_is_refused(job, tmp_path, changes, message):
    asked = replace(job, **changes(job.sources[0]))
    with pytest.raises(ArgumentError, match=message):
        run_tuning(asked, tmp_path / "s", TuneSettings(**QUICK))
