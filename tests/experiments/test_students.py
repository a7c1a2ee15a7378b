"""The study of students on a tiny teacher: what the arms are, their differences, resumed, refused."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from experiments.students import run as study
from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.distill import IMITATION, DistillJob, Student
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import Budget, Plan
from qt_bert.stats.judgements import judge_grades
from qt_bert.stats.metrics import METRICS
from qt_bert.training.finetune import TuneSettings
from qt_bert.training.losses import LossWeights
from qt_bert.training.recipes import PairSource
from tests.planning.conftest import plan_by_hand

ALL = tuple(range(12))
SEEDS = {"plan": 2, "even": 2, "grades": 1}
RUNS = {"plan-0", "plan-1", "even-0", "even-1", "grades-0"}
SETTINGS = TuneSettings(
    max_steps=2, lr=1e-3, slots=192, dtype="float32", evaluations=1, compile=False
)


def plan(*kept):
    return Plan(
        teacher=TeacherRef(name="t", sha256="0", layers=12, heads=12, units=768),
        budget=Budget(kind_of="layers", value=len(kept), share=False, asked="by hand"),
        kept=kept,
    )


FOUR = plan(*(KeptLayer(layer=n, heads=ALL) for n in (0, 1, 4, 5)))


@pytest.fixture
def job_of(checkpoint_of, pair_file):
    def build(labels=5, **changes):
        folder = checkpoint_of("bert", layers=3, heads=4, hidden=32, labels=labels)
        kept = (KeptLayer(layer=0, heads=(0, 2)), KeptLayer(layer=2, heads=(0, 1, 2, 3)))
        student = Student(folder, plan_by_hand(open_checkpoint(folder), kept))
        source = PairSource(pair_file)
        job = DistillJob(student=student, sources=(source,), dev=source, max_length=48)
        return replace(job, **changes)

    return build


def test_drawn_and_doubted_pairs_are_written_a_line_each(job_of, write, tmp_path):
    pairs = [{"query": f"猫\n{n}", "title": f"狗\t{n}"} for n in range(5)]
    path = write("pairs.jsonl", "".join(json.dumps(pair) + "\n" for pair in pairs))
    arms = study.order_arms(job_of(sources=(PairSource(path, unlabelled=True),)), 2, tmp_path)
    for job in arms.values():
        (source,) = job.sources
        texts = {(pair.query, pair.title) for pair in source.read()}
        assert len(texts) == 2 and texts < {(f"猫 {n}", f"狗 {n}") for n in range(5)}


def test_even_spacing_keeps_as_many_layers_heads_and_units():
    even = study.even_plan(FOUR)
    assert [layer.layer for layer in even.kept] == [0, 3, 6, 9]
    assert {(layer.heads, layer.units) for layer in even.kept} == {(ALL, None)}
    uneven = plan(
        KeptLayer(layer=1, heads=(0, 1, 2, 3)),
        KeptLayer(layer=4, heads=(), units=100),
        KeptLayer(layer=5, heads=(7,), units=300),
    )
    even = study.even_plan(replace(uneven, units={"4": tuple(range(100)), "5": tuple(range(300))}))
    assert [layer.heads for layer in even.kept] == [(0, 6), (0, 6), (0,)]
    assert [layer.units for layer in even.kept] == [390, 389, 389] and even.units == {}


def test_arms_differ_in_one_thing_each(job_of):
    job = job_of(loss=replace(IMITATION, soft=2.0))
    arms = study.arms_of(job)
    assert list(arms) == ["plan", "even", "grades"] and arms["plan"] == job
    assert arms["grades"] == replace(job, loss=LossWeights())
    assert arms["even"].loss == job.loss
    with pytest.raises(ArgumentError, match="give soft, mse or margin_mse a weight"):
        study.arms_of(job_of(loss=LossWeights()))


def student(noise, seed):
    """Grades with noise: the louder, the worse."""
    labels = [(1 + n % 5,) for n in range(80)]
    drawn = np.random.default_rng(seed).normal(size=(80, 5)) * noise
    odds = np.exp(np.eye(5)[[label[0] - 1 for label in labels]] * 3 + drawn)
    queries = [f"q{n // 4}" for n in range(80)]
    return judge_grades(odds / odds.sum(1, keepdims=True), labels, queries)


def test_the_difference_is_the_mean_over_the_seeds_both_have():
    ours = {seed: student(1.0, seed) for seed in range(5)}
    theirs = {seed: student(3.0, 50 + seed) for seed in range(3)}
    differences = study.paired_differences(ours, theirs, name="even", on="dev", resamples=200)
    assert [row.metric for row in differences] == ["spearman", "qwk"]
    for row in differences:
        metric = METRICS[row.metric]
        by_hand = [metric.value(ours[seed]) - metric.value(theirs[seed]) for seed in range(3)]
        assert row.difference == pytest.approx(np.mean(by_hand))
        assert row.plan_value - row.rival_value == pytest.approx(row.difference)
        assert row.seeds == 3 and row.ci_low < row.difference < row.ci_high
        assert row.outcome == "better"
    for same in study.paired_differences(ours, ours, name="even", on="dev", resamples=100):
        assert (same.difference, same.ci_low, same.ci_high, same.outcome) == (0, 0, 0, "undecided")


@pytest.mark.parametrize("values", [(0.0, 2.0), (0.0, 1.0, 5.0)])
def test_means_over_drawn_seeds_vary_as_a_mean_of_so_many_does(values):
    """The sample variance over n: 2/2 and 7/3; a plain resample has 1/2 and 2/3 of that."""
    means = study.over_seeds(np.repeat(np.array(values)[:, None], 20_000, axis=1))
    assert means.mean() == pytest.approx(np.mean(values), abs=0.05)
    assert means.var() == pytest.approx(np.var(values, ddof=1) / len(values), rel=0.05)
    assert study.over_seeds(np.array([[1.0, 2.0, 3.0]])).tolist() == [1, 2, 3]


def test_arms_are_trained_compared_and_taken_up(job_of, tmp_path, pair_file):
    job, out = job_of(), tmp_path / "arms"
    record = study.run_arms(job, out, SETTINGS, seeds=SEEDS)
    there = {path.name for path in (out / "runs").iterdir()}
    assert {name for name in there if not name.endswith(".training")} == RUNS
    assert list((out / "runs").glob("*.training/state.safetensors")) == []
    assert {path.name for path in (out / "logits").iterdir()} == {f"{r}.dev.npy" for r in RUNS}
    assert np.load(out / "logits" / "even-1.dev.npy").shape == (8, 5)
    assert record["steps"] == 2
    seeds = {(row.rival, row.seeds) for row in record["differences"]}
    assert seeds == {("even", 2), ("grades", 1)}
    assert len({one["parameters"] for one in record["arms"]}) == 1
    kept = (out / "runs" / "plan-0" / "model.safetensors").stat().st_mtime_ns
    shutil.rmtree(out / "runs" / "even-1")
    validation = PairSource(shutil.copy(pair_file, tmp_path / "validation.tsv"))
    again = study.run_arms(job, out, SETTINGS, seeds=SEEDS, validation=validation, resume=True)
    assert (out / "runs" / "plan-0" / "model.safetensors").stat().st_mtime_ns == kept
    assert [one for one in again["differences"] if one.on == "dev"] == record["differences"]
    stored = json.loads((out / "arms.json").read_text(encoding="utf-8"))
    assert stored["pairs"]["validation"]["name"] == "validation.tsv"
    assert len(stored["differences"]) == 8 and len(stored["runs"]) == 5
    with pytest.raises(RunFolderError, match="not empty"):
        study.run_arms(job, out, SETTINGS, seeds=SEEDS)


def test_what_cannot_be_is_told_before_anything_is_trained(job_of, tmp_path):
    with pytest.raises(ArgumentError, match="names no"):
        study.run_arms(job_of(dev=None), tmp_path / "arms", SETTINGS)
    gone = PairSource(tmp_path / "gone.tsv")
    with pytest.raises(PairFileError, match="gone.tsv"):
        study.run_arms(job_of(), tmp_path / "arms", SETTINGS, seeds=SEEDS, validation=gone)
    assert not (tmp_path / "arms").exists()


def test_a_teacher_of_one_output_has_no_arm_on_grades_alone(job_of, tmp_path):
    impatient = replace(SETTINGS, max_steps=4, evaluations=4, patience=1)
    record = study.run_arms(
        job_of(labels=1), tmp_path / "arms", impatient, seeds=dict.fromkeys(SEEDS, 1)
    )
    assert [arm["name"] for arm in record["arms"]] == ["plan", "even"]
    assert record["steps"] == 4  # all steps, for all arms
