"""No bad input ends in a traceback: one line that names the fault, and a non-zero status."""

import gzip
import json
import lzma
import zipfile

import pytest

HEAD = "query\ttitle\tgrade\n"
GOOD = HEAD + "狗追猫\t猫追狗\t2\n" * 3


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def a_zip(tmp_path):
    path = tmp_path / "p.tsv"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p.tsv", GOOD)
    return path


def a_folder(tmp_path):
    (tmp_path / "p.tsv").mkdir()
    return tmp_path / "p.tsv"


PAIR_FILES = {
    "missing": (lambda t: t / "none.tsv", "none.tsv"),
    "folder": (a_folder, "p.tsv"),
    "empty": (lambda t: write(t, "p.tsv", ""), "p.tsv"),
    "header only": (lambda t: write(t, "p.tsv", HEAD), "no rows"),
    "unknown suffix": (lambda t: write(t, "p.xlsx", "x"), "unknown suffix"),
    "no suffix": (lambda t: write(t, "p", "x"), "unknown suffix"),
    "no title column": (lambda t: write(t, "p.tsv", "query\tname\n狗\t猫\n"), "no column 'title'"),
    "column twice": (lambda t: write(t, "p.tsv", "query\tquery\ttitle\na\tb\tc\n"), "2 columns"),
    "zip named tsv": (a_zip, "p.tsv"),
    "truncated gzip": (
        lambda t: write(t, "p.tsv.gz", gzip.compress(GOOD.encode())[:-9]),
        "p.tsv.gz",
    ),
    "not gzip": (lambda t: write(t, "p.tsv.gz", GOOD), "p.tsv.gz"),
    "truncated xz": (lambda t: write(t, "p.tsv.xz", lzma.compress(GOOD.encode())[:-9]), "p.tsv.xz"),
    "utf-16": (lambda t: write(t, "p.tsv", GOOD.encode("utf-16")), "UTF-16"),
    "all rows empty": (lambda t: write(t, "p.tsv", HEAD + "\t \t1\n" * 4), "not one of 4 rows"),
    "bad json": (lambda t: write(t, "p.jsonl", "{\n" * 20), "bad JSON"),
    "json list": (lambda t: write(t, "p.jsonl", "[1]\n" * 20), "not a JSON object"),
    "not parquet": (lambda t: write(t, "p.parquet", "PAR1"), "p.parquet"),
    "too many rejects": (
        lambda t: write(t, "p.tsv", HEAD + "a\tb\t1\n" * 50 + "x\n" * 11),
        "--max-rejects",
    ),
}


@pytest.mark.parametrize("kind", PAIR_FILES)
@pytest.mark.parametrize("command", ["score", "evaluate", "check"])
def test_a_bad_file_of_pairs(run, checkpoint_of, tmp_path, kind, command):
    make, said = PAIR_FILES[kind]
    path = make(tmp_path)
    arguments = {
        "score": ["score", path, "--model", checkpoint_of(), "--out", tmp_path / "o.tsv"],
        "evaluate": ["evaluate", "--pairs", path, "--model", checkpoint_of()],
        "check": ["check", path],
    }[command]
    ended = run(*arguments)
    assert ended.status == 2, ended
    assert ended.err.startswith("error: ") and said in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "o.tsv").exists()


ARGUMENTS = {
    "columns without =": (["--columns", "q"], "--columns"),
    "unknown column name": (["--columns", "body=x"], "unknown name 'body'"),
    "column that is not there": (["--columns", "query=frage"], "no column 'frage'"),
    "grade out of range": (["--grades", "0=7"], "neither a grade"),
    "grade range backwards": (["--grades", "0=4-2"], "runs backwards"),
    "grades without =": (["--grades", "abc"], "not of the form"),
    "max rejects of -1": (["--max-rejects", "-1"], "max-rejects"),
    "max rejects of nan": (["--max-rejects", "nan"], "max-rejects"),
    "no header in positions": (["--no-header", "--columns", "query=q"], "position"),
    "length of 2": (["--max-length", "2"], "--max-length 2"),
    "length beyond the model": (["--max-length", "999"], "has positions for"),
    "unknown dtype": (["--dtype", "int8"], "choose from"),
    "types neither yes nor no": (["--token-types", "some"], "choose from yes, no"),
    "model grades that do not fit": (["--model-grades", "0=1"], "--model-grades"),
    "calibration that is not there": (["--calibrated"], "has no calibration"),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_a_bad_argument(run, checkpoint_of, pair_file, tmp_path, kind):
    extra, said = ARGUMENTS[kind]
    ended = run("evaluate", "--pairs", pair_file, "--model", checkpoint_of(), *extra)
    assert ended.status == 2 and said in ended.err, ended
    assert "Traceback" not in ended.err


CASES = "id\tphenomenon\trelation\tquery\ttitle\tother\na1\torder\tsame\t狗\t狗追猫\t猫\n"
REQUESTED = {
    "--cases": ("c.tsv", CASES, "line 2: unknown relation 'same'"),
    "--gold": ("g.txt", "狗 追 猫\n".encode() * 40 + b"\xff\xff\xff\n", "line 41: "),
    "--treebank": ("t.conllu", "1\t狗\n", "line 1: 2 columns"),
    "--texts": ("t.tsv", GOOD + "x\n" * 11, "--max-rejects"),
    "--band-from": ("b.tsv", GOOD + "x\n" * 11, "--max-rejects"),
    "--held-out": ("h.tsv", GOOD + "狗\t猫\t\n" * 11, "missing grade"),
    "--baseline-table": ("folder", None, "baselines.json"),
    "--userdict": ("u.txt", "狗 a b c\n", "line 1"),
}


@pytest.mark.parametrize("option", REQUESTED)
def test_a_bad_file_of_a_study_is_refused_before_anything_runs(
    run, checkpoint_of, pair_file, tmp_path, monkeypatch, option
):
    monkeypatch.setattr("qt_bert.run.study.run_one_probe", None)
    name, content, reason = REQUESTED[option]
    path = tmp_path if content is None else write(tmp_path, name, content)
    ended = run(
        "probe", "boundary", "--model", checkpoint_of(), "--pairs", pair_file, option, path,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert ended.status == 2 and reason in ended.err, ended
    assert "Traceback" not in ended.err


def test_a_bad_label_of_a_held_out_file_ends_a_run_before_its_first_stage(
    run, checkpoint_of, pair_file, tmp_path
):
    held_out = write(tmp_path, "h.tsv", HEAD + "狗\t猫\t7\n" * 12)
    out = tmp_path / "out"
    ended = run(
        "probe", "boundary", "--model", checkpoint_of(), "--pairs", pair_file, "--held-out", held_out,
        "--out", out,
    )  # fmt: skip
    assert ended.status == 2 and "bad grade" in ended.err, ended
    assert (
        not (out / "probes").exists() and json.loads((out / "run.json").read_text())["stages"] == {}
    )


def test_an_unknown_option_is_usage(run):
    ended = run("score", "x.tsv", "--nonsense")
    assert ended.status == 2 and "No such option" in ended.err


def test_a_number_that_is_none_is_usage(run, pair_file):
    ended = run("evaluate", "--pairs", pair_file, "--resamples", "many")
    assert ended.status == 2 and "resamples" in ended.err


def test_a_model_that_is_not_there(run, pair_file, tmp_path):
    ended = run("evaluate", "--pairs", pair_file, "--model", tmp_path / "none")
    assert ended.status == 2 and "no such folder" in ended.err


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("config.json", "model_type", "qt_bert-offline-roberta"),
        ("qt_bert.json", "offline", {"layers": 1, "title_start": 12, "title_tokens": 20}),
    ],
)
@pytest.mark.parametrize("command", ["evaluate --model", "train --out {out} --base"])
def test_a_model_that_computes_titles_ahead(
    run, fresh_checkpoint, pair_file, tmp_path, file, key, value, command
):
    folder = fresh_checkpoint("roberta")
    stored = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
    (folder / file).write_text(json.dumps(stored | {key: value}))
    ended = run(*command.format(out=tmp_path / "out").split(), folder, "--pairs", pair_file)
    assert ended.status == 2 and ended.err.count("\n") == 1
    assert str(folder) in ended.err and "qt-bert plan --budget layers=4" in ended.err
    assert not (tmp_path / "out").exists()


def test_a_label_that_is_no_grade_says_how_to_read_it(run, checkpoint_of, tmp_path):
    path = write(tmp_path, "p.tsv", HEAD + "狗\t猫\t0\n" * 30)
    ended = run("evaluate", "--pairs", path, "--model", checkpoint_of())
    assert ended.status == 2 and "--grades '0=1-2,1=3-4,2=5'" in ended.err


def test_a_slice_column_that_is_not_there(run, checkpoint_of, pair_file):
    ended = run("evaluate", "--pairs", pair_file, "--model", checkpoint_of(), "--by", "field")
    assert ended.status == 2 and "no such column" in ended.err


def test_an_output_in_a_folder_one_may_not_write(run, checkpoint_of, pair_file, tmp_path):
    (tmp_path / "file").write_text("x")
    out = tmp_path / "file" / "o.tsv"
    ended = run("score", pair_file, "--model", checkpoint_of(), "--out", out)
    assert ended.status == 2 and ended.err.startswith("error: ")


def test_a_report_folder_that_holds_other_things(run, checkpoint_of, pair_file, tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "diary.txt").write_text("dear")
    for flags in ([], ["--resume"], ["--overwrite"]):
        ended = run(
            "report", "--pairs", pair_file, "--model", checkpoint_of(), "--out", out, *flags
        )
        assert ended.status == 2 and "no run folder" in ended.err
    assert (out / "diary.txt").read_text() == "dear"


def test_an_empty_query_cannot_be_explained(run, checkpoint_of):
    ended = run("explain", " ", "title", "--model", checkpoint_of())
    assert ended.status == 2 and "must both hold text" in ended.err


def test_an_unknown_segmenter_is_named(run, checkpoint_of):
    ended = run("explain", "狗", "猫", "--model", checkpoint_of(), "--segmenter", "none")
    assert ended.status == 2 and "jieba-search" in ended.err


TRAINING = {
    "nothing to train on": ([], "nothing to learn from"),
    "file that is not there": (["--pairs", "none.tsv"], "no such file"),
    "recipe that is not there": (["--recipe", "none.toml"], "not a readable recipe"),
    "more grades than files": (
        ["--pairs", "{pairs}", "--grades", "a=1", "--grades", "b=1"],
        "2 times for 1",
    ),
    "metric that is none": (["--pairs", "{pairs}", "--stop-on", "luck"], "choose from accuracy"),
    "length beyond the base": (["--pairs", "{pairs}", "--max-length", "500"], "the base has"),
    "labels that are no levels": (
        ["--pairs", "{sevens}", "--levels", "2", "--dev", "{sevens}"],
        "bad grade",
    ),
}


@pytest.mark.parametrize("kind", TRAINING)
def test_bad_training_input(run, checkpoint_of, pair_file, tmp_path, kind):
    extra, said = TRAINING[kind]
    sevens = write(tmp_path, "sevens.tsv", HEAD + "狗\t猫\t7\n" * 30)
    named = {"{pairs}": str(pair_file), "{sevens}": str(sevens)}
    filled = [named.get(argument, argument) for argument in extra]
    base = ("--base", checkpoint_of(), "--max-length", "60")
    ended = run("train", *base, "--out", tmp_path / "out", *filled)
    assert ended.status == 2 and said in ended.err, ended
    assert not (tmp_path / "out").exists()


def test_pretraining_without_text(run, checkpoint_of, tmp_path):
    ended = run("pretrain", "--init", checkpoint_of(), "--steps", "1", "--out", tmp_path / "o")
    assert ended.status == 2 and "needs text" in ended.err


def test_pretraining_goes_on_from_a_bert_only(run, checkpoint_of, tmp_path):
    text = write(tmp_path, "t.txt", "狗追猫狗追猫\n" * 9)
    ended = run(
        "pretrain", "--init", checkpoint_of("electra"), "--text", text, "--steps", "1",
        "--out", tmp_path / "o",
    )  # fmt: skip
    assert ended.status == 2 and "from a BERT" in ended.err


def test_a_shard_that_is_cut_short(run, checkpoint_of, tmp_path):
    shard = write(tmp_path, "t.txt.xz", lzma.compress(("狗追猫\n" * 900).encode())[:-20])
    ended = run(
        "pretrain", "--init", checkpoint_of(), "--text", shard, "--steps", "1",
        "--out", tmp_path / "o",
    )  # fmt: skip
    assert ended.status == 2 and "is damaged or cut short" in ended.err
