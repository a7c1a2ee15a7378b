"""A distilling run from files to a folder that opens again."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.distill import IMITATION
from qt_bert.planning.prune import prune
from qt_bert.results.kept import KeptFile, KeptLayer
from qt_bert.scoring.bulk import Scorer
from qt_bert.training.finetune import run_tuning
from qt_bert.training.losses import LossWeights
from qt_bert.training.recipes import PairSource, TeacherSource
from qt_bert.training.selection import reading
from tests.conftest import PAIRS, write_pairs

TEXTS = [("狗追猫", "猫追狗"), ("京东小哥", "京东小哥最近在干嘛")]


def last_line(folder):
    return json.loads((folder / "training_log.jsonl").read_text("utf-8").splitlines()[-1])


def test_the_student_opens_and_its_log_keeps_the_parts_apart(job_of, settings, tmp_path):
    job = job_of()
    facts = run_tuning(job, tmp_path / "s", settings)
    assert facts["labelled"] == 8 and facts["unlabelled"] == 8 and facts["steps"] == 6
    opened = open_checkpoint(tmp_path / "s", compact=True)
    assert opened.kept is not None and opened.kept.layers == job.student.plan.kept
    assert KeptFile.read(tmp_path / "s").names["L1H3"] == "L2H3"
    assert opened.settings.max_length == 48
    start = smaller_checkpoint(open_checkpoint(job.student.model), job.student.plan.kept)
    gap = Scorer(opened).logits(TEXTS) - Scorer(start).logits(TEXTS)
    assert np.abs(gap).max() > 1e-3
    last = last_line(tmp_path / "s")
    assert last["step"] == 6 and "dev_qwk" in last
    parts = [last[f"train_{name}"] for name in IMITATION.parts]
    assert sum(parts) == pytest.approx(last["train_loss"], abs=1e-4)
    assert min(parts) > 0
    assert facts["taught_by"]["sha256"] == open_checkpoint(job.student.model).sha256


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("gte", {}),
        ("modernbert", {"classifier_pooling": "mean"}),
        ("qwen3", {"num_key_value_heads": 2}),
        ("deberta-v2", {}),
    ],
)
def test_a_student_of_another_family_is_judged_as_it_opens(
    job_of, settings, tmp_path, family, options
):
    """Without its lowest layer, and with half the heads of another."""
    kept = (KeptLayer(layer=1, heads=(2, 3)), KeptLayer(layer=2, heads=(0, 1, 2, 3)))
    job = job_of(kept, family=family, **options)
    facts = run_tuning(job, tmp_path / "s", settings)
    dev = job.dev.read(labelled=True)
    texts = [(pair.query, pair.title) for pair in dev]
    for compact in (True, False):
        opened = open_checkpoint(tmp_path / "s", compact=compact)
        assert opened.family.model_type == family and opened.family.fast
        logits = Scorer(opened).logits(texts)
        figure = reading(logits, dev, opened.settings.labels, facts["figure"])
        assert figure[0] == pytest.approx(facts["best"], abs=0.02)


def test_a_finished_run_asked_again_says_so_and_other_settings_are_refused(
    job_of, settings, tmp_path
):
    job = job_of()
    facts = run_tuning(job, tmp_path / "s", settings)
    before = (tmp_path / "s" / "model.safetensors").stat().st_mtime_ns
    again = run_tuning(job, tmp_path / "s", settings, resume=True)
    assert again["best_step"] == facts["best_step"]
    assert (tmp_path / "s" / "model.safetensors").stat().st_mtime_ns == before
    other = replace(job, loss=replace(IMITATION, temperature=2.0))
    with pytest.raises(RunFolderError, match="loss"):
        run_tuning(other, tmp_path / "s", settings, resume=True)
    with pytest.raises(RunFolderError, match="not empty"):
        run_tuning(job, tmp_path / "s", settings)


@pytest.mark.parametrize(("labels", "figure"), [(1, "spearman"), (3, "qwk")])
def test_models_without_five_grades_teach_too(
    job_of, settings, texts_file, pair_file, tmp_path, labels, figure
):
    job = job_of(labels=labels)
    if labels == 3:
        levels = tmp_path / "levels.tsv"
        rows = pair_file.read_text("utf-8").splitlines()
        text = [rows[0], *(f"{row[:-1]}{n % 3}" for n, row in enumerate(rows[1:]))]
        levels.write_text("\n".join(text) + "\n", encoding="utf-8")
        job = replace(job, sources=(PairSource(levels),), dev=PairSource(levels))
    facts = run_tuning(job, tmp_path / "s", settings)
    assert facts["figure"] == figure and facts["best"] is not None
    assert facts["labelled"] == 8


def test_a_narrower_student_starts_as_the_pruned_model(job_of, settings, tmp_path):
    kept = (KeptLayer(layer=0, heads=(0, 2), units=24), KeptLayer(layer=2, heads=(1,)))
    job = job_of(kept)
    teacher = open_checkpoint(job.student.model)
    dev = job.dev.read(labelled=True)
    start = job.student.start_of(teacher, dev)
    prune(teacher, job.student.plan, dev, tmp_path / "pruned")
    pruned = open_checkpoint(tmp_path / "pruned", compact=True)
    logits = [Scorer(opened).logits(TEXTS) for opened in (start, pruned)]
    np.testing.assert_allclose(*logits, atol=1e-4)
    run_tuning(job, tmp_path / "s", settings)
    assert open_checkpoint(tmp_path / "s").kept.layers == kept


def test_a_student_starts_with_the_units_that_its_plan_names(job_of):
    job = job_of((KeptLayer(layer=1, heads=(0,), units=2),))
    plan = replace(job.student.plan, units={"1": (5, 60)})
    student = replace(job.student, plan=plan)
    teacher = open_checkpoint(student.model)
    start = student.start_of(teacher, [])  # no pair is asked
    up = teacher.model.bert.encoder.layer[1].intermediate.dense.weight[[5, 60]]
    torch.testing.assert_close(start.model.bert.encoder.layer[0].intermediate.dense.weight, up)
    assert student.describe()["units"] == {"1": [5, 60]}
    assert "units" not in job.student.describe()


def test_the_teacher_is_never_overwritten(job_of, settings):
    job = job_of()
    with pytest.raises(ArgumentError, match="which is read"):
        run_tuning(job, job.student.model, settings, overwrite=True)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            lambda of: replace(of(), student=replace(of().student, model=of(seed=1).student.model)),
            "this plan was made for",
        ),
        (lambda of: replace(of(), stop_on="luck"), "--stop-on 'luck'"),
        (lambda of: replace(of(), max_length=65), "--max-length 65"),
        (lambda of: of(labels=1, loss=LossWeights()), "has one output"),
        (lambda of: replace(of(loss=LossWeights()), sources=of().sources[1:]), "labelled pairs"),
        (
            lambda of: replace(of(), sources=(replace(of().sources[0], auxiliary="other"),)),
            "no auxiliary outputs",
        ),
    ],
)
def test_a_job_that_cannot_run_is_refused(job_of, settings, tmp_path, job, message):
    with pytest.raises(ArgumentError, match=message):
        run_tuning(job(job_of), tmp_path / "s", settings)


@pytest.mark.parametrize("labels", [5, 1])
def test_another_model_teaches_in_the_place_of_the_plans(
    job_of, checkpoint_of, settings, tmp_path, labels
):
    """The other teacher has another tokenizer."""
    other = TeacherSource(checkpoint_of("xlm-roberta", labels=labels, seed=5))
    job = job_of(labels=labels)
    facts = run_tuning(replace(job, teacher=other), tmp_path / "s", settings)
    assert facts["loss"] == {"nll": 1, "soft": 1, "temperature": 1}
    assert facts["taught_by"]["sha256"] == open_checkpoint(other.path).sha256
    run_tuning(job, tmp_path / "own", settings)
    seen = [Scorer(open_checkpoint(tmp_path / name)).logits(TEXTS) for name in ("s", "own")]
    assert np.abs(seen[0] - seen[1]).max() > 1e-3
    with pytest.raises(RunFolderError, match="other_teacher"):
        run_tuning(job, tmp_path / "s", settings, resume=True)


def test_scores_of_a_file_teach_a_student_of_one_output_the_order(job_of, settings, tmp_path):
    rows = [(q, t, 100 * g) for q, t, g in PAIRS]
    path = write_pairs(tmp_path / "scores.tsv", rows, label="score")
    weights = LossWeights(nll=0, margin_mse=1e-4, margin=1, listwise=1)
    job = job_of(labels=1, loss=weights)
    job = replace(job, teacher=TeacherSource(path, ("score",)))
    facts = run_tuning(job, tmp_path / "s", replace(settings, max_steps=40, lr=1e-2))
    assert facts["best"] > 0.8 and last_line(tmp_path / "s")["train_margin_mse"] > 0
