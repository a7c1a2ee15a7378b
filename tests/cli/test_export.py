"""`qt-bert export` as a user meets it."""

import json
import shutil

import pytest

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
    assert said["difference"] <= 1e-5 and said["parameters"][0] < said["parameters"][1]
    again = run(*asked)
    assert again.status == 2 and "is not empty" in again.err


def test_without_the_extra_it_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setattr(export_session, "find_spec", lambda name: None)
    ended = run("export", "--out", tmp_path / "out")
    assert ended.status == 2 and "pip install 'qt-bert[export]'" in ended.err
    assert not (tmp_path / "out").exists()
