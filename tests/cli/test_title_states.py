"""`title-states`, and the commands that read what it stored."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import PAIRS


@pytest.fixture
def model(offline_checkpoint_of) -> Path:
    return offline_checkpoint_of("bert", below=1)


def scores(path: Path) -> np.ndarray:
    rows = [line.split("\t")[4:9] for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return np.array(rows, float)


def test_stored_then_read(run, model, pair_file, tmp_path):
    states = tmp_path / "states"
    ended = run("title-states", pair_file, "--model", model, "--out", states)
    assert ended.status == 0, ended.err
    assert "8 titles of 8 rows, equal ones once" in ended.err and "bytes a title" in ended.err
    arguments = ("score", pair_file, "--model", model)
    assert run(*arguments, "--out", tmp_path / "whole.tsv").status == 0
    read = run(*arguments, "--out", tmp_path / "read.tsv", "--title-states", states)
    assert read.status == 0, read.err
    assert "8 pairs with stored title states" in read.err and read.out == ""
    np.testing.assert_allclose(
        scores(tmp_path / "read.tsv"), scores(tmp_path / "whole.tsv"), atol=1e-5
    )
    asked = run(
        *arguments, "--out", tmp_path / "all.tsv", "--title-states", states, "--compare-whole"
    )
    assert "largest difference of a logit" in asked.out and "accuracy" in asked.out


def test_smaller_formats_say_what_they_change(run, model, pair_file, tmp_path):
    titles, states = tmp_path / "titles.txt", tmp_path / "states"
    titles.write_text("\n".join(title for _, title, _ in PAIRS[:6]), encoding="utf-8")
    ended = run("title-states", titles, "--model", model, "--out", states, "--dtype", "int8")
    assert ended.status == 0, ended.err
    read = run(
        "score", pair_file, "--model", model, "--out", tmp_path / "o.tsv", "--title-states", states
    )
    assert "2 with unknown titles, 0 with queries beyond 12 tokens" in read.err
    difference = float(re.search(r"whole: (\S+) \(the first 8 pairs\)", read.out)[1])
    assert 0 < difference < 0.5
    assert "8 of them have a grade" in read.out and "qwk" in read.out


def test_evaluate_reads_them_too(run, model, pair_file, tmp_path):
    states = tmp_path / "states"
    run("title-states", pair_file, "--model", model, "--out", states)
    arguments = ("evaluate", "--pairs", pair_file, "--model", model, "--resamples", "10", "--json")
    read, whole = run(*arguments, "--title-states", states), run(*arguments)
    assert "8 pairs with stored title states" in read.err
    found, plain = json.loads(read.out), json.loads(whole.out)
    assert found["model"]["title_states"]["titles"] == 8
    assert found["nll"]["value"] == pytest.approx(plain["nll"]["value"], abs=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dtype", "int4"], "stored as float32, float16, int8"),
        (["--model", "plain"], "is no offline model"),
        (["--columns", "title=gone"], "no column 'gone'"),
        (["--out", "pairs.tsv"], "is a file; --out names a folder"),
    ],
)
def test_bad_arguments(run, model, checkpoint_of, pair_file, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").symlink_to(checkpoint_of())
    ended = run("title-states", pair_file, "--model", model, "--out", "states", *options)
    assert ended.status == 2 and said in ended.err and ended.err.startswith("error: ")


def test_score_refuses_states_that_are_not_its_own(
    run, model, checkpoint_of, offline_checkpoint_of, pair_file, tmp_path
):
    states = tmp_path / "states"
    run("title-states", pair_file, "--model", model, "--out", states)
    arguments = ("score", pair_file, "--out", tmp_path / "o.tsv")
    for given, said in (
        (["--model", checkpoint_of(), "--title-states", states], "is no offline model"),
        (["--model", model, "--title-states", tmp_path / "gone"], "no title states"),
        (
            ["--model", offline_checkpoint_of("bert", seed=4), "--title-states", states],
            "another model",
        ),
        (["--model", model, "--title-states", states, "--heads-out", "L0H0"], "leave one out"),
        (["--model", model, "--compare-whole"], "--compare-whole goes with --title-states"),
    ):
        ended = run(*arguments, *given)
        assert ended.status == 2 and said in ended.err, ended
    assert not (tmp_path / "o.tsv").exists()
