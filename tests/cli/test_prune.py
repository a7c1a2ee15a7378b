"""`qt-bert prune`."""

import json

import pytest

from qt_bert.models.opening import open_checkpoint


def test_the_folder_opens_and_the_figures_are_printed(run, planned, pair_file):
    done = run("prune", *planned, "--pairs", pair_file, "--json")
    assert done.status == 0, done.err
    said = json.loads(done.out)
    opened = open_checkpoint(said["folder"], compact=True)
    assert said["parameters"][1] == opened.parameters < said["parameters"][0]
    assert said["difference"] <= 1e-4 and not said["plain"]
    assert [len(one.heads) for one in opened.kept.layers] == [2, 0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--units", "7.5"], "--units '7.5'"),
        (["--plan", "nowhere.json"], "no such result file"),
        (["--pairs", "nowhere.tsv"], "nowhere.tsv"),
    ],
)
def test_bad_input_is_one_plain_line(run, planned, pair_file, change, says):
    done = run("prune", *planned, "--pairs", pair_file, *change)
    assert done.status == 2 and says in done.err and "Traceback" not in done.err


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("北京到上海高铁票价\n京东小哥\n", encoding="utf-8")
    return path


def test_a_vocabulary_is_cut_and_what_that_costs_is_printed(
    run, checkpoint_of, texts, pair_file, tmp_path
):
    asked = ("prune", "--vocabulary", texts, "--model", checkpoint_of(), "--out", tmp_path / "cut")
    done = run(*asked, "--pairs", pair_file, "--json")
    assert done.status == 0, done.err
    said = json.loads(done.out)
    opened = open_checkpoint(said["folder"])
    assert said["tokens"][1] == len(opened.tokenizer) < said["tokens"][0]
    assert said["texts"]["changed"] == 0 and said["others"]["changed"] > 0 == said["difference"]
    assert said["lost"]["metrics"]["spearman"]["n"] == 8
    done = run(*asked, "--pairs", pair_file, "--overwrite", "--min-count", 2)
    assert done.status == 2 and "no text keeps all its tokens" in done.err
    done = run(*asked, "--pairs", pair_file, "--overwrite", "--keep", 14)
    assert done.status == 0 and "→ 14 tokens" in done.out and "spearman" in done.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "give --plan PLAN.json, or --vocabulary TEXTS"),
        (["--keep", "9"], "give --plan PLAN.json, or"),
        (["--vocabulary", "texts.txt", "--units", "0.5"], "--units goes with --plan"),
        (["--vocabulary", "gone.txt"], "gone.txt"),
        (["--vocabulary", "texts.txt", "--keep", "3"], "--keep 3: 5 tokens must stay"),
        (["--vocabulary", "texts.txt", "--pairs", "gone.tsv"], "gone.tsv"),
        (["--vocabulary", "empty.txt"], "empty.txt: the file is empty"),
    ],
)
def test_a_vocabulary_is_asked_for_in_one_way(
    run, checkpoint_of, texts, tmp_path, monkeypatch, options, says
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").touch()
    done = run("prune", "--model", checkpoint_of(), "--out", "cut", *options)
    assert done.status == 2 and says in done.err and "Traceback" not in done.err
    assert not (tmp_path / "cut").exists()
