"""Teachers from outside: what a file or another model says of pairs, and what is learned of it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from qt_bert.data.reader import read_pairs
from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.models.card import ModelLabels
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.training import teachers
from qt_bert.training.finetune import TrainJob, TuneSettings, run_tuning
from qt_bert.training.losses import LossWeights
from qt_bert.training.recipes import LossOptions, PairSource, TeacherSource
from qt_bert.training.teachers import MISSING, TeacherTargets
from tests.conftest import FIVE, ONE, PAIRS

TEXTS = [(query, title) for query, title, _ in PAIRS]
SETTINGS = TuneSettings(
    max_steps=30, lr=1e-2, slots=192, dtype="float32", evaluations=1, compile=False
)


@pytest.fixture
def scores_file(tmp_path):
    """`scores_file(rows)`: a file with a column for each further value of a row."""

    def write(rows, names=("score",), name="scores.tsv"):
        lines = ["\t".join(("query", "title", *names))]
        lines += ["\t".join(map(str, row)) for row in rows]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / name

    return write


@pytest.fixture
def taught(pair_file, tmp_path):
    """`taught(source, labels)`: what a source says of the eight pairs, and the teaching."""
    pairs = PairSource(pair_file).read(labelled=True)

    def ask(source, labels=FIVE, times=1):
        made = TeacherTargets(source, labels, tmp_path, torch.device("cpu"), "float32")
        return made(pairs * times), made

    return ask


def test_a_score_on_the_scale_of_the_labels_is_taken_as_it_is(scores_file, taught):
    rows = [(q, t, g - 0.5 if g == 5 else g) for q, t, g in reversed(PAIRS)]
    rows.append(("别的", "标题", 99))
    values, made = taught(TeacherSource(scores_file(rows), ("score",)))
    assert values[:, 0].tolist() == [4.5, 1, 3, 2, 4.5, 4, 2, 2] and values.dtype == np.float32
    assert made.facts["covered"] == 8
    with pytest.raises(PairFileError, match="repeat a pair with another score.* 2 and 11"):
        taught(TeacherSource(scores_file([*rows, (*rows[0][:2], 4.5)]), ("score",)))


def test_probabilities_come_in_columns(scores_file, taught):
    shares = np.random.default_rng(0).dirichlet(np.ones(5), 8)
    shares[0] = [1, 0, 0, 0, 0]
    names = tuple(f"p_{grade}" for grade in range(1, 6))
    file = scores_file([(*pair, *row) for pair, row in zip(TEXTS, shares, strict=True)], names)
    values, made = taught(TeacherSource(file, names))
    np.testing.assert_allclose(np.exp(values), shares, atol=2e-6)
    assert made.facts["covered"] == 8


def test_other_scores_get_the_mean_and_the_spread_of_the_labels(scores_file, taught, capsys):
    scores = np.array([3.1, -9, 0.5, -2, 8, 1, -1, -3])
    file = scores_file([(*pair, score) for pair, score in zip(TEXTS, scores, strict=True)])
    source = TeacherSource(file, ("score",))
    values, made = taught(source, times=3)
    grades = np.array([grade for *_, grade in PAIRS])
    start, slope = made.facts["scale"]
    assert slope == pytest.approx(grades.std() / scores.std())
    assert start == pytest.approx(grades.mean() - slope * scores.mean())
    np.testing.assert_allclose(values[:8, 0], np.clip(start + slope * scores, 1, 5), rtol=1e-6)
    assert "score" in capsys.readouterr().err
    np.testing.assert_allclose(taught(source, ONE)[0][:, 0], scores)  # a logit has no scale
    with pytest.raises(ArgumentError, match="fewer than 20 labelled pairs"):
        taught(source)


def test_pairs_that_a_file_does_not_know_are_listed(scores_file, taught, tmp_path, capsys):
    rows = [(*pair, 3 + number % 3 / 2) for number, pair in enumerate(TEXTS)]
    rows[2] = (*TEXTS[2], "1_5")
    source = TeacherSource(scores_file(rows[:-1]), ("score",))
    with pytest.raises(ArgumentError, match="no score for 2 of 8"):
        taught(source)
    missing = [(pair.query, pair.title) for pair in read_pairs(tmp_path / MISSING)]
    assert missing == [TEXTS[2], TEXTS[7]]
    values, made = taught(replace(source, coverage=0.75))
    assert np.isnan(values[:, 0]).nonzero()[0].tolist() == [2, 7] and made.facts["covered"] == 6
    nobody = scores_file([("别的", "标题", 3)], name="nobody.tsv")
    with pytest.raises(ArgumentError, match=r"no score for 8 of 8 .*; score them$"):
        taught(TeacherSource(nobody, ("score",), coverage=0.0))


@pytest.mark.parametrize(
    ("columns", "cells", "chosen", "message"),
    [
        ("a b", (1, 2), "a b", "2 numbers a pair"),
        ("a b c d e", (1, 2, 3, 4, 5), "a b c d e", "no probabilities"),
        ("a b c d e", (1.5, -0.5, 0, 0, 0), "a b c d e", "no probabilities"),
        ("score", (1,), "grade_of_llm", "no column 'grade_of_llm'.* are score"),
    ],
)
def test_columns_that_teach_nothing_are_named(scores_file, taught, columns, cells, chosen, message):
    file = scores_file([(*pair, *cells) for pair in TEXTS], tuple(columns.split()))
    with pytest.raises(ArgumentError, match=message):
        taught(TeacherSource(file, tuple(chosen.split())))


def test_a_model_of_another_family_teaches_its_logits(checkpoint_of, taught, tmp_path):
    folder = checkpoint_of("xlm-roberta", seed=3)
    values, made = taught(TeacherSource(folder))
    np.testing.assert_array_equal(values, Scorer(open_checkpoint(folder)).logits(TEXTS))
    assert made.facts["sha256"] == open_checkpoint(folder).sha256
    (stored,) = tmp_path.glob("teacher-*.f32")
    (values + 1).tofile(stored)  # a run that goes on asks nobody again
    np.testing.assert_array_equal(taught(TeacherSource(folder))[0], values + 1)


def test_killed_scoring_goes_on_after_its_last_whole_chunk(
    checkpoint_of, taught, tmp_path, monkeypatch
):
    monkeypatch.setattr(teachers, "CHUNK", 3)
    source = TeacherSource(checkpoint_of("roberta"), store=tmp_path / "store")
    source.store.mkdir()
    values, _ = taught(source)
    (stored,) = source.store.iterdir()
    # Four pairs and a piece of the fifth were written; the first three are taken as they are.
    part = stored.rename(stored.with_suffix(".part"))
    part.write_bytes((values[:5] + 1).tobytes()[:-3])
    again, _ = taught(source)
    np.testing.assert_array_equal(again[:3], values[:3] + 1)
    np.testing.assert_allclose(again[3:], values[3:], atol=1e-5)
    assert list(source.store.iterdir()) == [stored]
    # A stored file of another length is scored anew.
    for wrong in (
        again[:-1].tobytes(),
        again.tobytes() + again[:1].tobytes(),
        again.tobytes()[:-2],
    ):
        stored.write_bytes(wrong)
        np.testing.assert_allclose(taught(source)[0], values, atol=1e-5)


def test_the_length_that_a_teacher_reads_is_part_of_what_is_stored(checkpoint_of, taught, tmp_path):
    folder = checkpoint_of("roberta")
    whole, _ = taught(TeacherSource(folder))
    short, _ = taught(TeacherSource(folder, max_length=6))
    assert np.abs(whole - short).max() > 1e-4
    assert len(list(tmp_path.glob("teacher-*.f32"))) == 2


def test_what_a_teacher_says_is_scored_anew_where_its_folder_changes(
    fresh_checkpoint, taught, tmp_path
):
    folder = fresh_checkpoint()
    before, _ = taught(TeacherSource(folder))
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}), "utf-8")
    after, _ = taught(TeacherSource(folder))
    np.testing.assert_array_equal(after, Scorer(open_checkpoint(folder)).logits(TEXTS))
    assert np.abs(after - before).max() > 1e-4
    assert len(list(tmp_path.glob("teacher-*.f32"))) == 2


def test_a_model_with_other_outputs_teaches_its_score(checkpoint_of, taught):
    folder = checkpoint_of("roberta", labels=1)
    logits = Scorer(open_checkpoint(folder)).logits(TEXTS)
    np.testing.assert_array_equal(taught(TeacherSource(folder), ONE)[0], logits)
    values, made = taught(TeacherSource(folder), times=3)
    assert np.corrcoef(values[:8, 0], logits[:, 0])[0, 1] > 0.9 and "scale" in made.facts
    five, _ = taught(TeacherSource(checkpoint_of()), ModelLabels(2, ((1,), (5,))))
    logits = torch.from_numpy(Scorer(open_checkpoint(checkpoint_of())).logits(TEXTS))
    expected = logits.softmax(-1) @ torch.arange(1.0, 6)
    np.testing.assert_allclose(five[:, 0], expected, rtol=1e-5)


# Training with them.


@pytest.fixture
def train(checkpoint_of, pair_file, tmp_path):
    """`train(loss, teacher, …)`: facts, and the log."""
    source = PairSource(pair_file)

    def call(loss=None, teacher=None, sources=(source,), name="m", settings=SETTINGS, **how):
        job = TrainJob(base=checkpoint_of(), sources=sources, dev=source, max_length=48)
        job = replace(job, stop_on="spearman", loss=loss, teacher=teacher)
        facts = run_tuning(job, tmp_path / name, settings, **how)
        log = (tmp_path / name / "training_log.jsonl").read_text("utf-8").splitlines()
        return facts, [json.loads(line) for line in log]

    return call


@pytest.mark.parametrize("name", ["nll", "ordinal", "margin", "listwise"])
def test_every_loss_learns_the_order(train, name):
    facts, log = train(LossWeights(**{"nll": 0.0, name: 1.0}))
    assert facts["best"] > 0.9 and log[-1]["train_loss"] < log[0]["train_loss"]
    assert (f"train_{name}" in log[-1]) == (name != "nll")


def test_what_a_teacher_says_is_learned(train, scores_file, pair_file, tmp_path):
    """Against the labels: it says 6 − grade."""
    file = scores_file([(q, t, 6 - g) for q, t, g in PAIRS])
    texts_only = (PairSource(pair_file, unlabelled=True),)
    source, longer = TeacherSource(file, ("score",)), replace(SETTINGS, max_steps=100, patience=0)
    for name in ("mse", "margin_mse"):
        weights = LossWeights(**{"nll": 0.0, name: 1.0})
        facts, log = train(weights, source, texts_only, name, settings=longer)
        assert log[-1][f"train_{name}"] < 0.3 * log[0][f"train_{name}"]
        assert log[-1]["dev_spearman"] < -0.6 and facts["taught_by"]["covered"] == 8


def test_a_run_with_another_teacher_does_not_go_on(train, scores_file):
    first = scores_file([(q, t, g) for q, t, g in PAIRS], name="a.tsv")
    other = scores_file([(q, t, 6 - g) for q, t, g in PAIRS], name="b.tsv")
    facts, _ = train(None, TeacherSource(first, ("score",)))
    assert facts["loss"] == {"nll": 1.0, "mse": 1.0}
    with pytest.raises(ArgumentError, match="the teacher gives a score; learn mse"):
        train(LossWeights(soft=1.0), TeacherSource(first, ("score",)), name="soft")
    again, _ = train(None, TeacherSource(first, ("score",)), resume=True)
    assert again["best_step"] == facts["best_step"]
    with pytest.raises(RunFolderError, match="teacher"):
        train(None, TeacherSource(other, ("score",)), resume=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"teacher_scores": "scores.tsv"}, "write FILE:COLUMN"),
        ({"teacher_scores": "nowhere.tsv:a"}, "no such file 'nowhere.tsv'"),
        ({"teacher_scores": "pairs.tsv:a", "teacher": "x"}, "give one of them"),
        ({"min_coverage": float("nan")}, "--min-coverage nan: give a share"),
    ],
)
def test_options_that_cannot_be_meant(options, message):
    with pytest.raises(ArgumentError, match=message):
        LossOptions(**options).source()


def test_options_name_file_and_columns(pair_file):
    options = LossOptions(teacher_scores=f"{pair_file}:p_1,p_2", min_coverage=0.5)
    assert options.source() == TeacherSource(pair_file, ("p_1", "p_2"), 0.5)
    assert LossOptions(teacher="m").source() == TeacherSource("m")
    assert LossOptions().source() is None
