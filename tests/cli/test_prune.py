import json

import pytest

from qt_bert.models.opening import open_checkpoint


def test_the_folder_opens_and_the_figures_are_printed(run, planned, pair_file):
    done = run("prune", *planned, "--pairs", pair_file, "--json")
    assert done.status == 0, done.err
    result = json.loads(done.out)
    opened = open_checkpoint(result["folder"], compact=True)
    assert result["parameters"][1] == opened.parameters < result["parameters"][0]
    assert result["difference"] <= 1e-4 and not result["plain"]
    assert [len(layer.heads) for layer in opened.kept.layers] == [2, 0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--plan", "nowhere.json"], "no such result file"),
        (["--pairs", "nowhere.tsv"], "nowhere.tsv"),
    ],
)
def test_bad_input_is_refused(refused, planned, pair_file, change, words):
    refused(words, "prune", *planned, "--pairs", pair_file, *change)


@pytest.fixture
def texts(write):
    return write("texts.txt", "北京到上海高铁票价\n京东小哥\n")


def test_a_vocabulary_is_cut_and_its_cost_is_printed(
    run, refused, checkpoint_of, texts, pair_file, tmp_path
):
    model, cut = ("--model", checkpoint_of()), tmp_path / "cut"
    command = ("prune", "--vocabulary", texts, *model, "--out", cut)
    done = run(*command, "--pairs", pair_file, "--json")
    assert done.status == 0, done.err
    result = json.loads(done.out)
    opened = open_checkpoint(result["folder"])
    assert result["tokens"][1] == len(opened.tokenizer) < result["tokens"][0]
    assert (
        result["texts"]["changed"] == 0 and result["others"]["changed"] > 0 == result["difference"]
    )
    assert result["lost"]["metrics"]["spearman"]["n"] == 8
    command = (*command, "--pairs", pair_file, "--overwrite")
    refused("no text keeps all its tokens", *command, "--min-count", 2)
    done = run(*command, "--keep", 14)
    assert done.status == 0 and "→ 14 tokens" in done.out and "spearman" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give --plan PLAN.json, or --vocabulary TEXTS"),
        (["--keep", "9"], "give --plan PLAN.json, or"),
        (["--vocabulary", "texts.txt", "--shape", "layers=4"], "--shape goes with --plan"),
        (["--vocabulary", "gone.txt"], "gone.txt"),
        (["--vocabulary", "texts.txt", "--keep", "3"], "--keep 3: 5 tokens must stay"),
        (["--vocabulary", "texts.txt", "--pairs", "gone.tsv"], "gone.tsv"),
        (["--vocabulary", "empty.txt"], "empty.txt: the file is empty"),
    ],
)
def test_options_of_a_cut_vocabulary(
    refused, checkpoint_of, texts, tmp_path, monkeypatch, options, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").touch()
    refused(words, "prune", "--model", checkpoint_of(), "--out", "cut", *options)
    assert not (tmp_path / "cut").exists()
