"""When a run ends and is judged, what it refuses to learn from; the mean of models of one shape."""

import json
from dataclasses import replace

import pytest
import torch

from qt_bert.errors import ArgumentError
from qt_bert.models.opening import open_checkpoint
from qt_bert.training.finetune import TrainJob, TuneSettings, run_tuning
from qt_bert.training.recipes import PairSource
from qt_bert.training.selection import average_models


def test_every_weight_is_the_mean(checkpoint_of, tmp_path):
    folders = [checkpoint_of("bert", seed=seed) for seed in (0, 1, 2)]
    out = average_models(folders, tmp_path / "mean")
    states = [open_checkpoint(f).model.state_dict() for f in folders]
    for name, weight in open_checkpoint(out).model.state_dict().items():
        expected = sum(state[name] for state in states) / 3
        torch.testing.assert_close(weight, expected, atol=1e-3, rtol=1e-3)


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


@pytest.mark.parametrize("other", [{"labels": 3}, {"layers": 1}])
def test_models_that_differ_have_no_mean(checkpoint_of, tmp_path, other):
    first = checkpoint_of()
    with pytest.raises(ArgumentError, match="differ in shape"):
        average_models([first, checkpoint_of("bert", **other)], tmp_path / "mean")
    with pytest.raises(ArgumentError, match="two models or more"):
        average_models([first], tmp_path / "mean")
