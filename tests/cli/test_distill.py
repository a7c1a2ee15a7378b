import json

import pytest

from qt_bert.models.opening import open_checkpoint


@pytest.fixture
def options(planned, tmp_path, pair_file):
    """A plan on disk with its teacher, an --out, and a recipe of two steps."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'[[pairs]]\nfile = "{pair_file.name}"\nunlabelled = true\n[dev]\nfile = "{pair_file.name}"\n'
        "[settings]\nmax_steps = 2\nslots = 192\ncompile = false\nevaluations = 1\n"
        "[loss]\nsoft = 0.5\n[job]\nmax_length = 48\n",
        encoding="utf-8",
    )
    return [*planned, "--recipe", recipe, "--data", tmp_path, "--dtype", "float32"]


def test_a_student_by_recipe_and_options(run, options, pair_file, tmp_path):
    done = run("distill", *options, "--pairs", pair_file, "--unlabelled", pair_file, "--seed", "3")
    assert done.status == 0, done.err
    assert f"pairs to train on: {pair_file.name} 24\n" in done.err
    assert "best qwk" in done.err and str(tmp_path / "small") in done.err
    assert "after 2 steps 100% of them is the start" in done.err  # 0.998 ** 2
    facts = json.loads((tmp_path / "small" / "training.json").read_text("utf-8"))
    assert (facts["labelled"], facts["unlabelled"], facts["steps"]) == (8, 16, 2)
    assert facts["asked"]["loss"]["soft"] == 0.5 and facts["asked"]["seed"] == 3
    assert [len(layer.heads) for layer in open_checkpoint(tmp_path / "small").kept.layers] == [2, 0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--unlabelled", "nowhere.tsv"], "--unlabelled nowhere.tsv: no such file"),
        (["--pairs", "nowhere.tsv"], "--pairs nowhere.tsv: no such file"),
        (["--plan", "nowhere.json"], "no such result file"),
        (["--lr", "7"], "--lr 7"),
        (["--steps", "-1"], "max_steps is -1"),
        (["--epochs", "1", "--steps", "2"], "--epochs and --steps"),
        (["--recipe", "nowhere.toml"], "not a readable recipe"),
    ],
)
def test_bad_input_is_named(refused, options, change, words):
    refused(words, "distill", *options, *change)


def test_a_key_of_a_job_that_is_an_option_is_named(refused, options, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(recipe.read_text("utf-8") + 'teacher = "models/big"\n', encoding="utf-8")
    refused("[job]: unknown key 'teacher'; there are levels", "distill", *options)


def test_nothing_to_learn_from(refused, planned):
    refused("nothing to learn from", "distill", *planned)


@pytest.fixture
def training(checkpoint_of, pair_file):
    """Options of `train` for one short epoch."""
    files = ("--pairs", pair_file, "--dev", pair_file, "--base", checkpoint_of())
    return (*files, "--epochs", "1", "--slots", "96", "--max-length", "48", "--no-compile")


def test_epochs_asked_for_are_run_whole_whatever_the_recipe_says(run, training, tmp_path):
    recipe, steps = tmp_path / "recipe.toml", []
    for text in ("", "max_steps = 1\n"):
        recipe.write_text(f"[settings]\naverage = 0.9\n{text}", encoding="utf-8")
        done = run("train", "--recipe", recipe, *training, "--out", tmp_path / "m", "--overwrite")
        assert done.status == 0, done.err
        assert ("after 2 steps 81% of them is the start" in done.err) == (not text)  # said once
        steps.append(json.loads((tmp_path / "m" / "training.json").read_text("utf-8"))["steps"])
    assert steps[0] == steps[1] > 1


def test_a_loss_and_a_file_of_scores_over_the_recipes(run, options, pair_file, tmp_path):
    scores = ("--teacher-scores", f"{pair_file}:grade", "--loss", "listwise,margin-mse=0.5")
    done = run("distill", *options, *scores, "--pairs", pair_file)
    assert done.status == 0, done.err
    facts = json.loads((tmp_path / "small" / "training.json").read_text("utf-8"))
    assert facts["loss"] == {"listwise": 1, "margin_mse": 0.5}
    assert facts["taught_by"]["covered"] == 16


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--loss", "nll,soft"), "--loss soft learns from a teacher"),
        (("--teacher", "nowhere"), "nowhere"),
        (("--teacher-scores", "{pairs}:none"), "no column 'none'"),
    ],
)
def test_train_names_what_cannot_teach(refused, training, pair_file, tmp_path, change, words):
    change = [option.format(pairs=pair_file) for option in change]
    refused(words, "train", *training, *change, "--out", tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_train_with_a_loss_and_texts_for_a_teacher(
    run, training, checkpoint_of, pair_file, tmp_path
):
    teacher = ("--unlabelled", pair_file, "--teacher", checkpoint_of("roberta"))
    loss = ("--loss", "ordinal,soft=0.5")
    done = run("train", *training, *teacher, *loss, "--out", tmp_path / "m")
    assert done.status == 0, done.err
    facts = json.loads((tmp_path / "m" / "training.json").read_text("utf-8"))
    assert facts["loss"] == {"ordinal": 1, "soft": 0.5, "temperature": 1}
