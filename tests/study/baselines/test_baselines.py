"""`qt-bert baselines` end to end on tiny models: made, gone on with, read back, and bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from typer.testing import CliRunner

from qt_bert.cli import app, register  # noqa: F401 - declares the commands
from qt_bert.encoder import open_checkpoint
from qt_bert.errors import ArgumentError, CheckpointError, QtBertError, RunFolderError
from qt_bert.evaluation import METRICS, judge_grades
from qt_bert.probes.split import PairFiles
from qt_bert.results.baselines import CHARACTERS, LEXICAL, MODELS, NO_PAIRS, RANDOM, read_baselines
from qt_bert.scoring.bulk import Scorer
from qt_bert.study.baselines import heads
from qt_bert.study.baselines.folder import BaselinesFolder
from qt_bert.study.baselines.job import ENTRIES, BaselinesJob
from qt_bert.study.baselines.tuning import Tuning
from qt_bert.training.recipes import load_recipe
from qt_bert.training.run_pretrain import NewShape
from tests.study.baselines.small import command, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def base(checkpoint_of: Callable[..., Path]) -> Path:
    return checkpoint_of("bert")


@pytest.fixture(scope="module")
def made(data: Path, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "table"
    run(*command(data, base, out))
    return out


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_table_has_every_row_and_no_text(made: Path, data: Path) -> None:
    found = read_baselines(made)
    assert [row.name for row in found.record.rows] == list(MODELS)
    validation = found.record.pairs.n_pairs
    assert found.probabilities.shape == (len(MODELS), validation, 5)
    assert np.allclose(found.probabilities.sum(-1), 1, atol=1e-5)
    stored = (made / "baselines.json").read_text(encoding="utf-8")
    first = (data / "test.tsv").read_text(encoding="utf-8").splitlines()[1].split("\t")
    assert first[0] not in stored and first[1] not in stored


def test_steps_sizes_and_speed_are_in_it(made: Path) -> None:
    record = read_baselines(made).record
    tuned = [row for row in record.rows if row.name != LEXICAL]
    assert {row.steps for row in tuned} == {3}
    assert {row.pairs_seen for row in tuned} and all(row.pairs_seen > 0 for row in tuned)
    assert all(row.pairs_per_second > 0 and row.parameters > 0 for row in record.rows)
    assert [one.steps for one in record.pretraining] == [4, 3, 4]
    assert {(one.first_layers, one.first_steps) for one in record.pretraining} == {(1, 3)}
    characters, _, without = record.pretraining
    assert characters.characters == without.characters > 0
    assert without.pair_accuracy is None and not without.pair_objective


def test_each_architecture_has_the_rate_that_was_best_in_its_trials(made: Path) -> None:
    record = read_baselines(made).record
    for row in record.rows:
        if row.rate_of is not None:
            assert row.rate == record.row(row.rate_of).rate and row.tried == ()
        elif row.name != LEXICAL:
            reached = {one.rate: one.reached for one in row.tried}
            assert list(reached) == [1e-3, 3e-3]
            assert row.rate == max(reached, key=lambda rate: reached[rate] or -1)
    assert [row.name for row in record.rows if row.rate_of] == [CHARACTERS, "words", NO_PAIRS]
    assert not list((made / "trials").iterdir())  # their models are thrown away


def test_without_trials_the_recipes_rate_is_taken(data: Path, base: Path, tmp_path: Path) -> None:
    job = BaselinesJob(
        base=base,
        recipe=replace(load_recipe(data / "recipe.toml", data), trials={}),
        files=PairFiles(pairs=data / "test.tsv"),
        shape=NewShape(1, 2, 16, 48),
    )
    tuning = Tuning(job, BaselinesFolder(tmp_path), print)
    assert {tuning._rate(entry, tuning._tried(entry), {}) for entry in ENTRIES} == {3e-4}


def test_the_figure_on_discovery_is_that_of_the_models_outputs(made: Path, data: Path) -> None:
    scorer = Scorer(open_checkpoint(made / "models" / CHARACTERS))
    labels = scorer.checkpoint.settings.labels
    pairs = PairFiles(pairs=data / "test.tsv").read(labels).discovery
    logits = scorer.logits([(p.query, p.title) for p in pairs]).astype(float)
    p = softmax(logits, axis=-1).astype(np.float32)  # as they are stored
    judged = judge_grades(
        p.astype(float), [q.grades or () for q in pairs], [q.query for q in pairs]
    )
    row = read_baselines(made).record.row(CHARACTERS)
    assert row.discovery == pytest.approx(METRICS["spearman"].value(judged), abs=1e-5)


def test_heads_of_the_models_pretrained_anew_are_in_it(made: Path) -> None:
    found = read_baselines(made)
    read = {one.model: one for one in found.record.boundary}
    assert set(read) == {CHARACTERS, "words", NO_PAIRS, RANDOM}
    assert {CHARACTERS, NO_PAIRS, RANDOM} <= set(found.boundary)
    one, other = found.boundary[CHARACTERS], found.boundary[RANDOM]
    assert (one.labels == other.labels).all() and len(one.values) == len(one.queries)


def test_a_model_whose_tokens_are_words_is_not_asked(
    made: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "LEAST_COVERAGE", 1.01)
    scorer = Scorer(open_checkpoint(made / "models" / CHARACTERS))
    halves = PairFiles(pairs=data / "test.tsv").read(scorer.checkpoint.settings.labels)
    for read in (heads.boundary, heads.matching):
        arrays = read(scorer, halves, 0)
        assert arrays == {}
        assert heads.head_read("words", arrays).reason == heads.OF_WORDS


def test_a_finished_table_is_taken_as_it_is(made: Path, data: Path, base: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.rglob("model.safetensors")}
    measured = {path: path.stat().st_mtime_ns for path in (made / "measured").iterdir()}
    assert before and measured
    told = json.loads(run(*command(data, base, made, "--resume", "--json")))
    assert told["rows"][0]["name"] == MODELS[0]
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert measured == {path: path.stat().st_mtime_ns for path in measured}


def test_what_is_lost_is_made_again_alike(
    made: Path, data: Path, base: Path, tmp_path: Path
) -> None:
    out = tmp_path / "table"
    shutil.copytree(made, out)
    shutil.rmtree(out / "models" / "two-tower")
    shutil.rmtree(out / "models" / "two-tower.training")
    shutil.rmtree(out / "measured")  # the trials too
    (out / "baselines.json").unlink()
    run(*command(data, base, out, "--resume"))
    one, other = read_baselines(made), read_baselines(out)
    assert np.array_equal(one.probabilities, other.probabilities)
    assert one.record.boundary == other.record.boundary
    assert [row.sha256 for row in one.record.rows] == [row.sha256 for row in other.record.rows]


def test_flags_and_other_inputs(made: Path, data: Path, base: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="--resume goes on with it"):
        run(*command(data, base, made))
    with pytest.raises(RunFolderError, match="begun with another recipe"):
        run(*command(data, base, made, "--resume", "--words", "30"))
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RunFolderError, match="no table of baselines"):
        run(*command(data, base, tmp_path, "--overwrite"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('file = "dev.tsv"', 'file = "absent.tsv"'), "does not exist"),
        (("steps = 2", ""), "how long is a trial"),
        (("rates = [1e-3, 3e-3]", "rates = 3"), "rates = 3 is no"),
        (("rates = [1e-3, 3e-3]", "rates = [3.0]"), "rate between 0 and 1"),
        (("lr = 1e-3", "lr = 3.0"), "between 0 and 1"),
        (('stop_on = "spearman"', 'stop_on = "luck"'), "choose from"),
        (("max_length = 48", "max_length = 4800"), "positions"),
        (("long = 48", "long = 64"), "longer than"),
        (('[dev]\nfile = "dev.tsv"', '[dev]\nfile = "test.tsv"'), "chosen on it"),
        (("[models.lstm-attention]", "[models.lstm]"), "no model 'lstm'"),
        (("[pretraining.models.words]", "[pretraining.models.word]"), "no model 'word'"),
        (("steps = 4", ""), "how long"),
        (("grown = {layers = 1", "grown = {layers = 3"), "3 layers for 3 steps"),
        (('[[pairs]]\nfile = "train.tsv"', ""), "no \\[\\[pairs\\]\\]"),
        (('[dev]\nfile = "dev.tsv"', ""), "no \\[dev\\]"),
        (('[[pairs]]\nfile = "train.tsv"', '[[pairs]]\nfile = "test.tsv"'), "are judged too"),
        (("max_length = 48", ""), "give max_length"),
        (('text = ["text.txt"]', ""), "no \\[pretraining\\] with `text`"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_refused_before_anything_is_made(
    change: tuple[str, str], said: str, data: Path, base: Path, tmp_path: Path
) -> None:
    other = tmp_path / "data"
    shutil.copytree(data, other)
    recipe = other / "recipe.toml"
    old, new = change
    assert old in recipe.read_text(encoding="utf-8")
    recipe.write_text(recipe.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(QtBertError, match=said):
        run(*command(other, base, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_base_without_heads_is_refused_before_anything_is_made(
    made: Path, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match="has no attention heads"):
        run(*command(data, made / "models" / "two-tower", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_command_prints_intervals_sizes_and_speed(made: Path, data: Path, base: Path) -> None:
    told = run(*command(data, base, made, "--resume"))
    head, first = told.splitlines()[:2]
    assert head.split() == [
        "model",
        "ρ",
        "95",
        "%",
        "interval",
        "rate",
        "parameters",
        "pairs",
        "seen",
        "pairs/s",
    ]
    assert first.startswith("cross-encoder") and "[" in first


def test_the_probe_reads_it(made: Path, data: Path, tmp_path: Path) -> None:
    model = made / "models" / CHARACTERS
    asked = ["probe", "baselines", "--model", str(model), "--pairs", str(data / "test.tsv")]
    run(*asked, "--baseline-table", str(made), "--out", str(tmp_path / "out"))
    stored = json.loads((tmp_path / "out" / "baselines.json").read_text(encoding="utf-8"))
    names = {finding["id"] for finding in stored["findings"]}
    assert {"baselines.over_lstm", "baselines.words_of_bert", "baselines.words_of_lstm"} <= names
    with pytest.raises(ArgumentError, match="measured on the"):
        other = ["probe", "baselines", "--model", str(model), "--pairs", str(data / "train.tsv")]
        run(*other, "--baseline-table", str(made), "--out", str(tmp_path / "other"))
