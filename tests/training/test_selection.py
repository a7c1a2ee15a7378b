"""When a run ends and is judged, and what it refuses to learn from."""

import json
from dataclasses import replace

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.training.finetune import TrainJob, TuneSettings, run_tuning
from qt_bert.training.recipes import PairSource

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


def test_unlabelled_pairs_need_a_teacher(job, tmp_path, pair_file):
    asked = replace(job, sources=(*job.sources, PairSource(pair_file, unlabelled=True)))
    with pytest.raises(ArgumentError, match="or qt-bert distill"):
        run_tuning(asked, tmp_path / "s", TuneSettings(**QUICK))


def test_a_tenth_needs_a_dev_file(job, tmp_path):
    sources = (replace(job.sources[0], tenth="alone"),)
    with pytest.raises(ArgumentError, match="`tenth` goes with a dev file"):
        run_tuning(replace(job, sources=sources, dev=None), tmp_path / "s", TuneSettings(**QUICK))
