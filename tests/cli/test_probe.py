import json

import pytest

from qt_bert.probes.base import probes
from qt_bert.probes.texts import texts_of
from qt_bert.results.probe import ProbeResult


@pytest.fixture
def probe(fake_probe, run, checkpoint_of, pair_file, tmp_path):
    """Run the fake probe on a tiny model and eight pairs, into one folder."""

    def call(*more):
        model, out = checkpoint_of(), tmp_path / "out"
        return run("probe", "fake", "--model", model, "--pairs", pair_file, "--out", out, *more)

    return call


def test_the_probes_are_listed(fake_probe, run):
    ended = run("probe", "--list")
    assert ended.status == 0 and "Is the model good?" in ended.out and "模型好吗？" in ended.out
    listed = json.loads(run("probe", "--list", "--json").out)
    assert [probe["title"] for probe in listed if probe["name"] == "fake"] == [
        {"zh": "小探针", "en": "Fake"}
    ]


@pytest.mark.parametrize(("name", "words"), [(["fale"], "fake"), ([], "--list")])
def test_without_a_known_name_it_lists_the_names(fake_probe, refused, name, words):
    refused(words, "probe", *name)


def test_a_probe_leaves_its_result_and_says_it(probe, tmp_path):
    ended = probe()
    assert ended.status == 0, ended.err
    assert "一个小探针" in ended.out and "a small probe" in ended.out
    assert "accuracy" in ended.out and "70" in ended.out
    result = ProbeResult.read(tmp_path / "out" / "probes" / "fake.json")
    assert result.pairs.name == "pairs.tsv" and result.settings["profile"] == "quick"


def test_json_alone_goes_to_standard_output(probe, tmp_path):
    ended = probe("--json", "--full", "--seed", "4", "--html")
    stored = json.loads((tmp_path / "out" / "probes" / "fake.json").read_text(encoding="utf-8"))
    assert json.loads(ended.out) == stored
    assert (stored["settings"]["sample"], stored["settings"]["seed"]) == (20, 4)
    page = tmp_path / "out" / "probes" / "fake.html"
    assert page.is_file()
    assert probe("--overwrite").status == 0 and not page.exists()  # it was of another result


def test_a_finished_one_asks_and_is_kept(probe, tmp_path):
    probe()
    again = probe()
    assert again.status == 2 and "--resume" in again.err and "--overwrite" in again.err
    result = tmp_path / "out" / "probes" / "fake.json"
    before = result.stat().st_mtime_ns
    assert probe("--resume").status == 0
    assert result.stat().st_mtime_ns == before
    assert probe("--overwrite").status == 0
    assert result.stat().st_mtime_ns != before
    assert (tmp_path / "out" / "sweeps" / "fake" / "runs.txt").read_text() == "run\n"


def test_another_probe_joins_the_folder_of_a_report(probe, run, checkpoint_of, pair_file, tmp_path):
    out = tmp_path / "out"
    options = ("--model", checkpoint_of(), "--pairs", pair_file, "--out", out)
    assert run("report", *options, "--only", "fake").status == 0
    there = (out / "evaluation.json").stat().st_mtime_ns
    before = (out / "probes" / "fake.json").stat().st_mtime_ns
    assert run("probe", "redundancy", *options, "--resume").status == 0
    assert (out / "probes" / "redundancy.json").is_file()
    assert (out / "probes" / "fake.json").stat().st_mtime_ns == before
    assert (out / "evaluation.json").stat().st_mtime_ns == there
    ended = run("probe", "redundancy", *options, "--resume", "--seed", "1")
    assert ended.status == 2 and "holds evaluation, probe:fake of another" in ended.err
    assert (out / "probes" / "fake.json").is_file()


def test_an_interrupted_one_goes_on_with_its_sweeps(probe, tmp_path):
    assert probe("--seed", "1").status == 0
    stop = tmp_path / "out" / "sweeps" / "stop"
    stop.write_text("")
    ended = probe("--resume")
    assert ended.status == 130 and "--resume" in ended.err
    stop.unlink()
    again = probe()
    assert again.status == 2 and "an unfinished run" in again.err
    assert probe("--resume").status == 0
    assert (tmp_path / "out" / "sweeps" / "fake" / "runs.txt").read_text() == "run\nrun\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--segmenter", "none"], "jieba-search"),
        (["--gold", "missing.txt"], "missing.txt"),
        (["--base", "missing"], "no such folder"),
        (["--second", "missing"], "no such folder"),
        (["--grades", "x"], "--grades"),
        (["--dtype", "float8"], "--dtype"),
    ],
)
def test_bad_options_are_one_line(probe, tmp_path, options, words):
    ended = probe(*options)
    assert ended.status == 2 and words in ended.err and ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_probe_that_needs_a_base_says_so(probe, monkeypatch):
    monkeypatch.setitem(texts_of("fake")._table, "needs_base", True)
    probes.cache_clear()
    ended = probe()
    assert ended.status == 2 and "--base" in ended.err


def test_rejected_rows_are_counted(probe, write, pair_file):
    path = write("some.tsv", pair_file.read_text(encoding="utf-8") + "狗\t\t1\n")
    ended = probe("--pairs", path, "--max-rejects", "0.5")
    assert ended.status == 0 and "1 row rejected" in ended.err
