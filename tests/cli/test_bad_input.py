"""No bad input ends in a traceback: one line that names the fault, and a non-zero status."""

import gzip
import io
import json
import lzma
import os
import shlex
import sys
import zipfile

import pytest

HEAD = "query\ttitle\tgrade\n"
GOOD = HEAD + "狗追猫\t猫追狗\t2\n" * 3
ROWS = GOOD.encode()


def a_zip():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("p.tsv", GOOD)
    return content.getvalue()


PAIR_FILES = {
    "missing": ("none.tsv", None, "none.tsv"),
    "folder": ("p.tsv", None, "p.tsv"),
    "empty": ("p.tsv", "", "p.tsv"),
    "header only": ("p.tsv", HEAD, "no rows"),
    "unknown suffix": ("p.xlsx", "x", "unknown suffix"),
    "no title column": ("p.tsv", "query\tname\n狗\t猫\n", "no column 'title'"),
    "column twice": ("p.tsv", "query\tquery\ttitle\na\tb\tc\n", "2 columns"),
    "zip named tsv": ("p.tsv", a_zip(), "p.tsv"),
    "truncated gzip": ("p.tsv.gz", gzip.compress(ROWS)[:-9], "p.tsv.gz"),
    "utf-16": ("p.tsv", GOOD.encode("utf-16"), "UTF-16"),
    "all rows empty": ("p.tsv", HEAD + "\t \t1\n" * 4, "not one of 4 rows"),
    "bad json": ("p.jsonl", "{\n" * 20, "bad JSON"),
    "json list": ("p.jsonl", "[1]\n" * 20, "not a JSON object"),
    "not parquet": ("p.parquet", "PAR1", "p.parquet"),
    "too many rejects": ("p.tsv", GOOD + "x\n" * 11, "--max-rejects"),
}
"""Name, content (None: not written) and the words of the refusal."""


@pytest.mark.parametrize("kind", PAIR_FILES)
@pytest.mark.parametrize("command", ["score", "evaluate", "check"])
def test_a_bad_file_of_pairs(run, checkpoint_of, tmp_path, write, kind, command):
    name, content, words = PAIR_FILES[kind]
    path = tmp_path / name if content is None else write(name, content)
    if kind == "folder":
        path.mkdir()
    arguments = {
        "score": ["score", path, "--model", checkpoint_of(), "--out", tmp_path / "o.tsv"],
        "evaluate": ["evaluate", "--pairs", path, "--model", checkpoint_of()],
        "check": ["check", path],
    }[command]
    ended = run(*arguments)
    assert ended.status == 2, ended
    assert ended.err.startswith("error: ") and words in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "o.tsv").exists()


def test_a_name_that_is_no_text_is_refused_before_any_work(refused, tmp_path):
    name = os.fsdecode("你.tsv".encode("gb18030"))
    refused(r"\udcc4\udce3.tsv: no utf-8 name", "check", tmp_path / name)


def test_what_the_output_cannot_show_is_escaped(run, monkeypatch):
    monkeypatch.setattr("qt_bert.cli.register.app", lambda: print("\udcc4"))
    assert run().out == "\\udcc4\n"


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="a loop resolves to itself")
def test_a_link_to_itself(refused, checkpoint_of, pair_file, tmp_path):
    loop = tmp_path / "loop.tsv"
    loop.symlink_to("loop.tsv")
    command = ("evaluate", "--pairs", pair_file, "--model", checkpoint_of())
    refused("Symlink loop", *command, "--errors", loop)


ARGUMENTS = {
    "columns without =": (["--columns", "q"], "--columns"),
    "unknown column name": (["--columns", "body=x"], "unknown name 'body'"),
    "column that is not there": (["--columns", "query=frage"], "no column 'frage'"),
    "grade out of range": (["--grades", "0=7"], "neither a grade"),
    "max rejects of -1": (["--max-rejects", "-1"], "max-rejects"),
    "no header in positions": (["--no-header", "--columns", "query=q"], "position"),
    "length of 2": (["--max-length", "2"], "--max-length 2"),
    "length beyond the model": (["--max-length", "999"], "has positions for"),
    "unknown dtype": (["--dtype", "int8"], "choose from"),
    "types neither yes nor no": (["--token-types", "some"], "choose from yes, no"),
    "model grades that do not fit": (["--model-grades", "0=1"], "--model-grades"),
    "calibration that is not there": (["--calibrated"], "has no calibration"),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_a_bad_argument(refused, checkpoint_of, pair_file, kind):
    options, words = ARGUMENTS[kind]
    refused(words, "evaluate", "--pairs", pair_file, "--model", checkpoint_of(), *options)


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
    run, checkpoint_of, pair_file, tmp_path, write, monkeypatch, option
):
    monkeypatch.setattr("qt_bert.run.study.run_one_probe", None)
    name, content, reason = REQUESTED[option]
    path = tmp_path if content is None else write(name, content)
    asked = ("--pairs", pair_file, option, path, "--out", tmp_path / "out")
    ended = run("probe", "boundary", "--model", checkpoint_of(), *asked)
    assert ended.status == 2 and reason in ended.err, ended
    assert "Traceback" not in ended.err


def test_a_bad_label_of_a_held_out_file_ends_a_run_before_its_first_stage(
    run, checkpoint_of, pair_file, tmp_path, write
):
    held_out = write("h.tsv", HEAD + "狗\t猫\t7\n" * 12)
    out = tmp_path / "out"
    asked = ("--pairs", pair_file, "--held-out", held_out, "--out", out)
    ended = run("probe", "boundary", "--model", checkpoint_of(), *asked)
    assert ended.status == 2 and "bad grade" in ended.err, ended
    assert not (out / "probes").exists()
    assert json.loads((out / "run.json").read_text())["stages"] == {}


OTHERS = {
    "unknown option": ("score x.tsv --nonsense", "No such option"),
    "number that is none": ("evaluate --pairs {pairs} --resamples many", "resamples"),
    "model that is not there": ("evaluate --pairs {pairs} --model {tmp}/none", "no such folder"),
    "seed beyond libraries": ("check {pairs} --shortcuts --seed 4294967296", "--seed"),
    "no grade": ("evaluate --pairs {zeros} --model {model}", "--grades '0=1-2,1=3-4,2=5'"),
    "no such slice": ("evaluate --pairs {pairs} --model {model} --by field", "no column 'field'"),
    "columns of no file": ("check {pairs} --against-columns query=q", "goes with --against"),
    "output below a file": ("score {pairs} --model {model} --out {zeros}/o.tsv", "error: "),
    "empty query": ("explain ' ' title --model {model}", "must both hold text"),
    "unknown segmenter": ("explain 狗 猫 --model {model} --segmenter none", "jieba-search"),
    "no text": ("pretrain --init {model} --steps 1 --out {tmp}/o", "needs text"),
    "electra": ("pretrain --init {electra} --text {text} --steps 1 --out {tmp}/o", "from a BERT"),
    "cut shard": ("pretrain --init {model} --text {cut} --steps 1 --out {tmp}/o", "cut short"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_bad_input(refused, checkpoint_of, pair_file, tmp_path, write, kind):
    command, words = OTHERS[kind]
    cut = lzma.compress(("狗追猫\n" * 900).encode())[:-20]
    places = {"model": checkpoint_of(), "electra": checkpoint_of("electra"), "tmp": tmp_path}
    places |= {"pairs": pair_file, "zeros": write("p.tsv", HEAD + "狗\t猫\t0\n" * 30)}
    places |= {"text": write("t.txt", "狗追猫狗追猫\n" * 9)}
    places |= {"cut": write("t.txt.xz", cut)}
    refused(words, *(part.format(**places) for part in shlex.split(command)))


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("config.json", "model_type", "qt_bert-offline-roberta"),
        ("qt_bert.json", "offline", {"layers": 1, "title_start": 12, "title_tokens": 20}),
    ],
)
@pytest.mark.parametrize("command", ["evaluate --model", "train --out {out} --base"])
def test_a_model_that_computes_titles_ahead(
    refused, fresh_checkpoint, pair_file, tmp_path, file, key, value, command
):
    folder = fresh_checkpoint("roberta")
    stored = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
    (folder / file).write_text(json.dumps(stored | {key: value}))
    arguments = [*command.format(out=tmp_path / "out").split(), folder, "--pairs", pair_file]
    ended = refused("qt-bert distill --shape", *arguments)
    assert str(folder) in ended.err and ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_report_folder_that_holds_other_things(refused, checkpoint_of, pair_file, tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "diary.txt").write_text("dear")
    for flags in ([], ["--resume"], ["--overwrite"]):
        model = ("--model", checkpoint_of(), *flags)
        refused("no run folder", "report", "--pairs", pair_file, *model, "--out", out)
    assert (out / "diary.txt").read_text() == "dear"


TRAINING = {
    "nothing to train on": ("", "nothing to learn from"),
    "file that is not there": ("--pairs none.tsv", "no such file"),
    "recipe that is not there": ("--recipe none.toml", "not a readable recipe"),
    "grades": ("--pairs {pairs} --grades a=1 --grades b=1", "2 times for 1"),
    "metric that is none": ("--pairs {pairs} --stop-on luck", "choose from accuracy"),
    "length beyond the base": ("--pairs {pairs} --max-length 500", "the base has"),
    "labels that are no levels": ("--pairs {sevens} --levels 2 --dev {sevens}", "bad grade"),
}


@pytest.mark.parametrize("kind", TRAINING)
def test_bad_training_input(refused, checkpoint_of, pair_file, tmp_path, write, kind):
    options, words = TRAINING[kind]
    sevens = write("sevens.tsv", HEAD + "狗\t猫\t7\n" * 30)
    command = f"train --base {checkpoint_of()} --max-length 60 --out {tmp_path}/out {options}"
    refused(words, *shlex.split(command.format(pairs=pair_file, sevens=sevens)))
    assert not (tmp_path / "out").exists()
