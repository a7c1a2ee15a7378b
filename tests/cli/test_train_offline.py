"""`qt-bert train --offline-layers` as a user meets it, and what other commands say of such a model."""

import json

import pytest

TRAINING = ("--epochs", "1", "--slots", "96", "--max-length", "48", "--no-compile")


@pytest.fixture
def train(run, checkpoint_of, pair_file, tmp_path):
    """`train("name", "--offline-layers", "1")`: how it ended, and the folder."""

    def call(name, *options):
        out = tmp_path / name
        given = ("--pairs", pair_file, "--dev", pair_file, "--base", checkpoint_of())
        return run("train", *given, *TRAINING, *options, "--out", out), out

    return call


def test_an_offline_model_is_named_wherever_it_goes(run, train, pair_file, tmp_path):
    ended, out = train("offline", "--offline-layers", "1")
    assert ended.status == 0, ended.err
    said = (
        "lowest 1; titles begin at position 12 (95% of the queries of pairs.tsv) and keep up to 35"
    )
    assert f"offline layers: the {said} tokens" in ended.err
    block = {"layers": 1, "title_start": 12, "title_tokens": 35}
    assert json.loads((out / "qt_bert.json").read_text("utf-8"))["offline"] == block

    ended = run("evaluate", "--pairs", pair_file, "--model", out)
    assert "offline (offline layers: the lowest 1) on pairs.tsv: 8 pairs" in ended.out
    ended = run("evaluate", "--pairs", pair_file, "--model", out, "--json")
    assert json.loads(ended.out)["model"]["offline"] == block
    ended = run("calibrate", "--model", out, "--pairs", pair_file, "--save")
    assert ended.status == 0, ended.err
    assert json.loads((out / "qt_bert.json").read_text("utf-8"))["offline"] == block
    ended = run("evaluate", "--pairs", pair_file, "--model", out, "--max-length", "40")
    assert ended.status == 2 and "give 48 or more" in ended.err

    ended = run("export", "--model", out, "--out", tmp_path / "onnx")
    assert ended.status == 2 and "offline is an offline model" in ended.err
    assert not (tmp_path / "onnx").exists()
    ended, control = train("control")
    assert ended.status == 0 and "offline layers" not in ended.err
    ended = run("average", out, control, "--out", tmp_path / "mean")
    assert ended.status == 2 and "read pairs in different ways" in ended.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--offline-layers", "2"), "2 offline layers of 2"),
        (("--offline-layers", "-1"), "--offline-layers -1: give 0 or more"),
        (("--title-start", "12"), "--title-start places titles of an offline model"),
        (("--offline-layers", "1", "--title-tokens", "48"), "give 61 or more"),
        (("--layers-above", "0"), "give --offline-layers"),
        (("--offline-layers", "1", "--layers-above", "0-1"), "such as 0,1,4"),
        (("--offline-layers", "1", "--layers-above", "0,1"), "names 2 layers"),
    ],
)
def test_what_cannot_be_meant_is_one_line(train, options, said):
    ended, out = train("offline", *options)
    assert ended.status == 2 and said in ended.err and "Traceback" not in ended.err
    assert not out.exists()


def test_a_recipe_asks_for_it_too(train, pair_file, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[job]\noffline_layers = 1\ntitle_start = 14\n", encoding="utf-8")
    ended, out = train("offline", "--recipe", recipe, "--data", tmp_path)
    assert ended.status == 0 and "begin at position 14 (asked for)" in ended.err
    recipe.write_text('[job]\noffline_layers = "one"\n', encoding="utf-8")
    ended, _ = train("other", "--recipe", recipe, "--data", tmp_path)
    assert ended.status == 2 and "offline_layers = 'one' is no int | None" in ended.err


def test_lifted_layers_are_part_of_what_was_asked(train):
    asked = ("--offline-layers", "1", "--layers-above", "0")
    ended, out = train("lifted", *asked)
    assert ended.status == 0, ended.err
    facts = json.loads((out / "training.json").read_text("utf-8"))
    assert facts["asked"]["layers_above"] == "0"
    ended, _ = train("lifted", "--offline-layers", "1", "--resume")
    assert ended.status == 2 and "layers_above" in ended.err
