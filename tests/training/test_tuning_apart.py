"""Models that read the texts apart, trained: the packed forward, the loss, a run that is cut off."""

from __future__ import annotations

import json
import random
from functools import partial

import numpy as np
import pytest
import torch

from qt_bert.encoder import Checkpoint, ModelLabels, ModelSettings, open_checkpoint, open_tokenizer
from qt_bert.encoder.architectures import ARCHITECTURES, opening
from qt_bert.errors import ArgumentError
from qt_bert.pairs import GRADES, PairTokenizer
from qt_bert.scoring.bulk import Scorer
from qt_bert.training.finetune import Tuner, TuneSettings
from qt_bert.training.finetune_batches import BatchLayout, plan_epoch, to_tensors
from qt_bert.training.labelled import training_set
from qt_bert.training.run_train import TrainJob, run_train
from qt_bert.training.sources import PairSource
from qt_bert.training.tuning_apart import ApartTuning

LABELS = ModelLabels(5, tuple((grade,) for grade in GRADES))
QUICK = {"slots": 384, "dtype": "float32", "compile": False, "patience": 0}
NAMES = sorted(ARCHITECTURES)


@pytest.fixture(autouse=True)
def small_matcher(monkeypatch):
    """An LSTM of 32 units, where 192 would only take time."""
    monkeypatch.setattr(opening, "PairConfig", partial(opening.PairConfig, matcher_size=32))


def opened(folder, name, auxiliaries=()):
    return ApartTuning.open(ARCHITECTURES[name], folder, 5, dict(auxiliaries), seed=0)


def data_of(folder, *sources):
    reading = PairTokenizer(open_tokenizer(folder), 48)
    return training_set(sources, reading, LABELS, split=True)


def batches_of(model, folder, examples, slots=480):
    tokenizer = open_tokenizer(folder)
    layout = BatchLayout.of(model.family, tokenizer.pad_token_id, 49, slots)
    return [(plan, layout) for plan in plan_epoch(examples, layout, 0, 0)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_packed_logits_are_those_of_the_scorer(checkpoint_of, pair_file, name, family):
    folder = checkpoint_of(family)
    model, data = opened(folder, name).eval(), data_of(folder, PairSource(pair_file))
    pairs = [(p.query, p.title) for p in PairSource(pair_file).read(labelled=True)]
    view = Checkpoint(
        "m",
        folder,
        model.model,
        open_tokenizer(folder),
        model.kind,
        ModelSettings(LABELS, 48),
        "float32",
    )
    expected = Scorer(view).logits(pairs)
    for plan, layout in batches_of(model, folder, data.examples):
        batch = to_tensors(plan, data.examples, layout)
        order = [i for row in plan.rows for i in row]
        with torch.inference_mode():
            _, logits = model.seen(batch)
        np.testing.assert_allclose(logits[: len(order)].numpy(), expected[order], atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_losses_of_two_processes_add_up_to_one(checkpoint_of, pair_file, name):
    folder = checkpoint_of()
    model, data = opened(folder, name), data_of(folder, PairSource(pair_file))
    for plan, layout in batches_of(model, folder, data.examples, slots=112):
        whole = model.loss(to_tensors(plan, data.examples, layout))
        parts = [
            model.loss(to_tensors(plan, data.examples, layout, rank=r, size=2)) for r in (0, 1)
        ]
        torch.testing.assert_close(parts[0] + parts[1], whole)


def test_auxiliary_pairs_leave_the_grades_alone(checkpoint_of, pair_file):
    folder = checkpoint_of()
    data = data_of(folder, PairSource(pair_file, auxiliary="current"))
    model = opened(folder, "bert+lstm", data.auxiliaries)
    ((plan, layout),) = batches_of(model, folder, data.examples)
    model.loss(to_tensors(plan, data.examples, layout)).backward()
    assert model.model.classifier.weight.grad.abs().sum() == 0
    assert model.auxiliaries[0].weight.grad.abs().sum() > 0


@pytest.fixture
def planted(tmp_path):
    """Equal texts are grade 5, texts without a character in common grade 1."""
    rng, rows = random.Random(0), ["query\ttitle\tgrade"]
    for i in range(120):
        text = "".join(rng.sample("北京到上海高铁票价", 4))
        other = "".join(rng.sample("怎么去除衣服油渍", 4))
        rows.append(f"{text}\t{text if i % 2 else other}\t{5 if i % 2 else 1}")
    path = tmp_path / "planted.tsv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_training_finds_a_planted_rule(checkpoint_of, planted, tmp_path, name):
    job = TrainJob(
        checkpoint_of(),
        (PairSource(planted),),
        PairSource(planted),
        max_length=48,
        architecture=name,
    )
    settings = TuneSettings(epochs=10, lr=1e-2, evaluations=1, **QUICK)
    facts = run_train(job, tmp_path / "out", settings)
    lines = (tmp_path / "out" / "training_log.jsonl").read_text("utf-8").splitlines()
    losses = [json.loads(line)["train_loss"] for line in lines]
    assert losses[-1] < 0.1 < losses[0] and facts["best"] > 0.95
    assert facts["architecture"] == name
    checkpoint = open_checkpoint(tmp_path / "out")
    assert facts["parameters"] == checkpoint.parameters
    scorer = Scorer(checkpoint)
    assert scorer.logits([("北京上海", "北京上海"), ("北京上海", "怎么去除")]).argmax(
        1
    ).tolist() == [4, 0]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_cut_off_ends_in_the_same_bytes(
    checkpoint_of, planted, tmp_path, monkeypatch, name
):
    source = PairSource(planted)
    job = TrainJob(checkpoint_of(), (source,), source, max_length=48, architecture=name)
    settings = TuneSettings(epochs=2, lr=1e-3, save_every=1, average=0.9, **QUICK)
    run_train(job, tmp_path / "whole", settings)
    step = Tuner._step

    def killed(tuner, plan):
        if tuner.standing.step == 3:
            raise KeyboardInterrupt
        return step(tuner, plan)

    monkeypatch.setattr(Tuner, "_step", killed)
    with pytest.raises(KeyboardInterrupt):
        run_train(job, tmp_path / "killed", settings)
    monkeypatch.setattr(Tuner, "_step", step)
    run_train(job, tmp_path / "killed", settings, resume=True)
    run_train(job, tmp_path / "killed", settings, resume=True)  # finished: it says so and stays
    for file in ("model.safetensors", "config.json", "training.json", "training_log.jsonl"):
        whole = (tmp_path / "whole" / file).read_bytes()
        assert (tmp_path / "killed" / file).read_bytes() == whole, file


def test_an_unknown_architecture_is_refused(checkpoint_of, pair_file, tmp_path):
    job = TrainJob(checkpoint_of(), (PairSource(pair_file),), architecture="siamese")
    with pytest.raises(ArgumentError, match="--arch 'siamese': choose from cross-encoder"):
        run_train(job, tmp_path / "out", TuneSettings(**QUICK))
