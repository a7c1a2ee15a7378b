"""A model without heads on the command line: what takes it, and what says that it does not."""

from __future__ import annotations

import json

import pytest

TRAINING = ["--epochs", "1", "--dtype", "float32", "--no-compile", "--max-length", "48"]


@pytest.fixture
def model(run, checkpoint_of, pair_file, tmp_path):
    """A two-tower model trained by the command, and the folder of its base."""
    out = tmp_path / "towers"
    ended = run(
        *("train", "--arch", "two-tower", "--pairs", pair_file, "--dev", pair_file),
        *("--base", checkpoint_of(), "--out", out, *TRAINING),
    )
    assert ended.status == 0, ended.err
    assert "two-tower, " in ended.err and " parameters" in ended.err
    return out


def test_score_evaluate_compare_calibrate_and_explain_take_it(
    run, model, pair_file, checkpoint_of, tmp_path
):
    ended = run("score", pair_file, "--model", model, "--out", tmp_path / "scored.tsv")
    assert ended.status == 0, ended.err
    ended = run("evaluate", "--model", model, "--pairs", pair_file, "--json", "--resamples", "9")
    assert json.loads(ended.out)["model"]["family"] == "qt_bert-two-tower"
    ended = run("compare", checkpoint_of(), model, "--pairs", pair_file, "--json")
    assert ended.status == 0, ended.err
    ended = run("calibrate", "--model", model, "--pairs", pair_file)
    assert ended.status == 0, ended.err
    ended = run("evaluate", "--model", model, "--pairs", pair_file, "--calibrated", "--json")
    assert ended.status == 0, ended.err
    ended = run("explain", "京东小哥", "京东小哥最近在干嘛", "--model", model, "--json")
    found = json.loads(ended.out)
    assert found["terms"] and found["heads"] is None and found["restoring"] is None
    assert found["filler"] == "[UNK]"
    shown = run("explain", "京东小哥", "京东小哥最近在干嘛", "--model", model).out
    assert "only terms are explained" in shown and "put back" not in shown


def test_what_needs_heads_says_so(run, model, pair_file, checkpoint_of, tmp_path):
    out = tmp_path / "out"
    given = ("--model", model, "--pairs", pair_file)
    for command in (
        ("sweep", *given, "--out", out),
        ("probe", "redundancy", *given, "--out", out),
        ("report", *given, "--out", out),
        ("plan", *given, "--budget", "heads=0.5", "--out", out),
        ("export", "--model", model, "--out", out),
        ("evaluate", *given, "--heads-out", "L0H0"),
        ("train", "--pairs", pair_file, "--base", model, "--out", out, *TRAINING),
    ):
        ended = run(*command)
        assert ended.status == 2, (command, ended.out, ended.err)
        assert "(two-tower) has no attention heads" in ended.err, (command, ended.err)
        assert "Traceback" not in ended.err


def test_an_unknown_architecture_names_those_there_are(run, pair_file, checkpoint_of, tmp_path):
    ended = run(
        *("train", "--arch", "siamese", "--pairs", pair_file, "--base", checkpoint_of()),
        *("--out", tmp_path / "out"),
    )
    assert ended.status == 2
    assert "choose from cross-encoder, lstm-attention, two-tower, bert+lstm" in ended.err
