"""`qt-bert export` as a user meets it."""

import json
import shutil

import pytest

import qt_bert
from qt_bert.errors import ArgumentError
from qt_bert.planning import export, export_session
from qt_bert.planning.export_session import INT8_MODEL, MODEL, OnnxScorer
from qt_bert.results.plan import EXPORT


@pytest.fixture
def traced_once(monkeypatch, tmp_path):
    """The graph is traced by the first command of a test alone: tracing takes seconds."""
    trace, kept = export.write_onnx, tmp_path / "kept.onnx"

    def write(checkpoint, path):
        if not kept.exists():
            trace(checkpoint, kept)
        shutil.copy(kept, path)

    monkeypatch.setattr(export, "write_onnx", write)


def test_a_model_becomes_a_folder_that_scores(run, checkpoint_of, pair_file, tmp_path, traced_once):
    out = tmp_path / "onnx"
    asked = ("export", "--onnx", "--model", checkpoint_of("ernie"), "--out", out)
    ended = run(*asked)
    assert ended.status == 0, ended.err
    assert "largest difference from torch in a new process, 5 to 64 tokens" in ended.out
    assert f"{MODEL}: " in ended.out and "int8" not in ended.out
    assert OnnxScorer(out).logits([("狗", "猫")]).shape == (1, 5)
    again = run(*asked)
    assert again.status == 2 and "is not empty; choose another folder, or --overwrite" in again.err

    ended = run(*asked, "--overwrite", "--int8", "--pairs", pair_file, "--json")
    assert ended.status == 0, ended.err
    printed = json.loads(ended.out)
    assert printed.pop("out") == str(out)
    assert printed == json.loads((out / EXPORT).read_text(encoding="utf-8"))
    assert printed["int8"]["pairs"]["n_pairs"] == 8 and (out / INT8_MODEL).exists()


def test_what_is_deployed_is_judged(run, checkpoint_of, pair_file, tmp_path, traced_once):
    model, out = checkpoint_of("ernie"), tmp_path / "onnx"
    assert run("export", "--onnx", "--int8", "--model", model, "--out", out).status == 0
    pairs = ("--pairs", pair_file, "--resamples", "20")
    both = [json.loads(run("evaluate", "--model", m, *pairs, "--json").out) for m in (model, out)]
    for name in ("qwk", "nll", "spearman"):
        assert both[1][name]["value"] == pytest.approx(both[0][name]["value"], abs=1e-4)
    assert both[1]["model"]["name"] == "onnx"
    assert both[1]["model"]["sha256"] == json.loads((out / EXPORT).read_text())["sha256"][MODEL]
    ended = run("compare", model, out / INT8_MODEL, "--pairs", pair_file, "--json")
    assert json.loads(ended.out)["b"]["dtype"] == "int8"
    scored = [tmp_path / f"{n}.tsv" for n in (1, 2)]
    for path, opened in zip(scored, (model, out), strict=True):
        ended = run("score", pair_file, "--model", opened, "--out", path)
        assert ended.status == 0, ended.err
    rows = [[line.split("\t") for line in path.read_text("utf-8").splitlines()] for path in scored]
    assert rows[0][0] == rows[1][0]
    for a, b in zip(rows[0][1:], rows[1][1:], strict=True):
        assert float(a[-1]) == pytest.approx(float(b[-1]), abs=1e-4)
    assert run("score", "--dry-run", "--rows", "9", "--model", out, pair_file).status == 0
    kept = tmp_path / "c.json"
    assert run("calibrate", "--model", model, *pairs, "--out", kept).status == 0
    assert run("evaluate", "--model", out, *pairs, "--calibration", kept).status == 0
    exported = qt_bert.load(out)
    assert exported.grade("狗", "猫").probabilities.keys() == set("12345")
    with pytest.raises(ArgumentError, match="is an ONNX export"):
        exported.attention("狗", "猫")
    for refused in (
        ("evaluate", "--model", out, *pairs, "--heads-out", "L0H0"),
        ("evaluate", "--model", out, *pairs, "--dtype", "bfloat16"),
        ("calibrate", "--model", out, *pairs, "--save"),
        ("explain", "狗", "猫", "--model", out),
    ):
        ended = run(*refused)
        assert ended.status == 2 and ended.err.startswith("error: "), refused
        assert ended.err.count("\n") == 1, ended.err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--model", "gone"], "gone: no such folder"),
        (["--model", "."], "no config.json"),
        (["--pairs", "gone.tsv"], "--pairs goes with --int8"),
        (["--int8", "--pairs", "gone.tsv"], "gone.tsv"),
        (["--int8", "--transformers"], "--int8 goes with --onnx"),
    ],
)
def test_an_inputs_fault_is_one_line(run, tmp_path, monkeypatch, options, word):
    monkeypatch.chdir(tmp_path)
    ended = run("export", *options, "--out", tmp_path / "out")
    assert ended.status == 2 and word in ended.err and "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_pruned_model_becomes_a_plain_folder(run, planned, pair_file, tmp_path, monkeypatch):
    assert run("prune", *planned, "--pairs", pair_file).status == 0
    monkeypatch.setattr(export_session, "find_spec", lambda name: None)  # ONNX is not needed
    asked = ("export", "--transformers", "--model", tmp_path / "small", "--out", tmp_path / "plain")
    ended = run(*asked, "--json")
    assert ended.status == 0, ended.err
    said = json.loads(ended.out)
    config = json.loads((tmp_path / "plain" / "config.json").read_text(encoding="utf-8"))
    assert (config["model_type"], config["num_attention_heads"]) == ("bert", 4)
    assert said["difference"] <= 1e-5 and said["weights"][0] < said["weights"][1]
    again = run(*asked)
    assert again.status == 2 and "is not empty" in again.err


def test_without_the_extra_it_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setattr(export_session, "find_spec", lambda name: None)
    ended = run("export", "--out", tmp_path / "out")
    assert ended.status == 2 and "pip install 'qt-bert[export]'" in ended.err
    assert not (tmp_path / "out").exists()
