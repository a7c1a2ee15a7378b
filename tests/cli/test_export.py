import json
import shutil

import pytest

import qt_bert
from qt_bert.errors import ArgumentError
from qt_bert.planning import export, export_session
from qt_bert.planning.export_session import INT8_MODEL, MODEL, OnnxScorer
from qt_bert.results.plan import EXPORT


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("traced") / "kept.onnx"


@pytest.fixture
def traced_once(monkeypatch, kept):
    """The graph is traced by the first command alone: tracing takes seconds."""
    trace = export.write_onnx

    def write(checkpoint, path):
        if not kept.exists():
            trace(checkpoint, kept)
        shutil.copy(kept, path)

    monkeypatch.setattr(export, "write_onnx", write)


def test_a_model_becomes_a_folder_that_scores(
    run, refused, checkpoint_of, pair_file, tmp_path, traced_once
):
    out = tmp_path / "onnx"
    command = ("export", "--onnx", "--model", checkpoint_of("ernie"), "--out", out)
    ended = run(*command)
    assert ended.status == 0, ended.err
    assert "largest difference from torch in a new process, 5 to 64 tokens" in ended.out
    assert f"{MODEL}: " in ended.out and "int8" not in ended.out
    assert OnnxScorer(out).logits([("狗", "猫")]).shape == (1, 5)
    refused("is not empty; choose another folder, or --overwrite", *command)

    ended = run(*command, "--overwrite", "--int8", "--pairs", pair_file, "--json")
    assert ended.status == 0, ended.err
    printed = json.loads(ended.out)
    assert printed.pop("out") == str(out)
    assert printed == json.loads((out / EXPORT).read_text(encoding="utf-8"))
    assert printed["int8"]["pairs"]["n_pairs"] == 8 and (out / INT8_MODEL).exists()


def test_the_export_gives_the_figures_of_its_model(
    run, refused, checkpoint_of, pair_file, tmp_path, traced_once
):
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
    with pytest.raises(ArgumentError, match="gives scores alone"):
        exported.attention("狗", "猫")
    for command in (
        ("evaluate", "--model", out, *pairs, "--heads-out", "L0H0"),
        ("evaluate", "--model", out, *pairs, "--dtype", "bfloat16"),
        ("calibrate", "--model", out, *pairs, "--save"),
        ("explain", "狗", "猫", "--model", out),
    ):
        assert refused("error: ", *command).err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "gone"], "gone: no such folder"),
        (["--model", "."], "no config.json"),
        (["--pairs", "gone.tsv"], "--pairs goes with --int8"),
        (["--int8", "--pairs", "gone.tsv"], "gone.tsv"),
        (["--int8", "--transformers"], "--int8 goes with --onnx"),
    ],
)
def test_bad_options_are_refused(refused, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    refused(words, "export", *options, "--out", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_pruned_model_becomes_a_plain_folder(
    run, refused, planned, pair_file, tmp_path, monkeypatch
):
    assert run("prune", *planned, "--pairs", pair_file).status == 0
    monkeypatch.setattr(export_session, "find_spec", lambda name: None)  # ONNX is not needed
    small, plain = tmp_path / "small", tmp_path / "plain"
    command = ("export", "--transformers", "--model", small, "--out", plain)
    ended = run(*command, "--json")
    assert ended.status == 0, ended.err
    result = json.loads(ended.out)
    config = json.loads((plain / "config.json").read_text(encoding="utf-8"))
    assert (config["model_type"], config["num_attention_heads"]) == ("bert", 4)
    assert result["difference"] <= 1e-5 and result["weights"][0] < result["weights"][1]
    refused("is not empty", *command)


def test_a_missing_library_names_the_extra(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(export_session, "find_spec", lambda name: None)
    refused("pip install 'qt-bert[export]'", "export", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
