import json
import subprocess
import sys

import pytest
from safetensors.numpy import load_file

HEAVY = ("torch", "numpy", "pandas", "transformers", "jieba")


@pytest.mark.parametrize(
    ("arguments", "libraries"), [(["--help"], HEAVY), (["probe", "--list"], ("torch",))]
)
def test_listings_load_no_heavy_library(arguments, libraries):
    code = (
        f"import sys; sys.argv = ['qt-bert', *{arguments}]\n"
        "from qt_bert.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules)"
    )
    *shown, modules = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    assert shown and not set(libraries) & set(modules.split())


def test_help_shows_commands_in_groups(run):
    shown = run("--help").out
    for word in ("check", "score", "evaluate", "compare", "explain", "train", "report", "评分"):
        assert word in shown


def test_calibrate_then_evaluate_calibrated(run, fresh_checkpoint, pair_file, more_pairs):
    model = fresh_checkpoint()
    card = model / "qt_bert.json"
    ended = run("calibrate", "--model", model, "--pairs", pair_file)
    assert ended.status == 0 and "not saved" in ended.err and not card.exists()
    ended = run("calibrate", "--model", model, "--pairs", pair_file, "--save", "--json")
    fitted = json.loads(ended.out)
    stored = json.loads(card.read_text())["calibration"]
    assert stored.pop("weights") == fitted["model"]["sha256"]
    assert fitted["pairs"] == stored.pop("pairs") | {"fitted": fitted["pairs"]["fitted"]}
    assert stored == fitted["calibration"]
    for pairs, warned in ((pair_file, True), (more_pairs, False)):
        ended = run("evaluate", "--model", model, "--pairs", pairs, "--calibrated", "--json")
        assert ended.status == 0 and ("fitted on half of these" in ended.err) is warned
    shown = run("calibrate", "--model", model, "--pairs", pair_file, "--resamples", "50").out
    assert f"temperature {fitted['calibration']['temperature']:.3f}" in shown
    changed = fitted["changes"]["qwk"]
    assert f"{changed['value_a']:.3f}  {changed['value_b']:.3f}" in shown


def test_train_then_score(run, checkpoint_of, pair_file, tmp_path):
    out = tmp_path / "model"
    ended = run(
        "train", "--base", checkpoint_of(), "--pairs", pair_file, "--dev", pair_file, "--epochs",
        "2", "--slots", "96", "--max-length", "48", "--no-compile", "--out", out,
    )  # fmt: skip
    assert ended.status == 0, ended.err
    assert run("score", pair_file, "--model", out, "--out", tmp_path / "s.tsv").status == 0
    assert json.loads((out / "training.json").read_text())["rows"] == {"pairs.tsv": 8}
    again = run("train", "--base", checkpoint_of(), "--pairs", pair_file, "--out", out)
    assert again.status == 2 and "not empty" in again.err


def test_pretrain_then_train(run, checkpoint_of, pair_file, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("北京到上海高铁票价\n怎么去除衣服上的油渍\n" * 200, encoding="utf-8")
    out = tmp_path / "pretrained"
    ended = run(
        "pretrain", "--init", checkpoint_of(), "--layers", "2", "--heads", "2", "--hidden", "16",
        "--text", text, "--pairs", pair_file, "--steps", "2", "--no-compile", "--out", out,
    )  # fmt: skip
    assert ended.status == 0, ended.err
    stored = load_file(out / "model.safetensors")
    assert {str(weight.dtype) for weight in stored.values()} == {"float32"}  # that of --init
    ended = run(
        "train", "--base", out, "--pairs", pair_file, "--dev", pair_file, "--epochs", "1",
        "--no-compile", "--out", tmp_path / "graded",
    )  # fmt: skip
    assert ended.status == 0, ended.err
