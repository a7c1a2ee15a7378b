import csv
import json

import numpy as np
import pytest

from qt_bert.ablation.folder import SweepFolder
from qt_bert.ablation.sweep import SweepWork
from qt_bert.data.reader import read_pairs
from qt_bert.data.splits import half_of
from tests.conftest import write_pairs


@pytest.fixture
def command(checkpoint_of, pair_file):
    """The arguments of a short sweep on eight pairs."""
    return ("sweep", "--model", checkpoint_of(), "--pairs", pair_file, "--resamples", "20")


def test_every_single_head_by_default(run, command, tmp_path):
    ended = run(*command, "--out", tmp_path / "s")
    assert ended.status == 0, ended.err
    assert "8 pairs, 4 variants; unmasked accuracy" in ended.out
    assert str(tmp_path / "s") in ended.out and "L1H1" in ended.out
    with open(tmp_path / "s" / "variants.csv", encoding="utf-8") as handle:
        names = [row["name"] for row in csv.DictReader(handle)]
    assert names == ["none", "L0H0", "L0H1", "L1H0", "L1H1"]


def test_json_is_the_record_and_the_effects(run, command, tmp_path):
    masks = ["layers", "L0H1", "sublayers"]
    options = [part for mask in masks for part in ("--masks", mask)]
    ended = run(*command, "--out", tmp_path / "s", *options, "--json")
    record = json.loads(ended.out)
    assert record["complete"] and record["guards"]["unmasked"] <= record["guards"]["bound"]
    assert record["arguments"]["masks"] == masks
    sublayers = {f"L{layer}:{part}" for layer in (0, 1) for part in ("feed_forward", "both")}
    assert {row["name"] for row in record["effects"]} == {"L0", "L1", "L0H1"} | sublayers
    assert sublayers & set(record["guards"]["variants"])
    row = next(r for r in record["effects"] if (r["name"], r["metric"]) == ("L1", "accuracy"))
    assert row["absolute"] == pytest.approx(row["value"] - row["base"])


@pytest.mark.parametrize(
    ("mode", "masks"),
    [*((mode, "random") for mode in ("zero", "uniform", "mean", "block")), ("zero", "halves")],
)
def test_every_family_in_every_mode(run, command, tmp_path, mode, masks):
    options = ("--masks", masks, "--mode", mode, "--draws", "2", "--json")
    ended = run(*command, *options, "--out", tmp_path / "s")
    assert ended.status == 0, ended.err
    assert (json.loads(ended.out)["means"] is not None) == (mode == "mean")
    folder = SweepFolder.read(tmp_path / "s")
    assert set(folder.variants["mode"][1:]) == {mode}
    assert folder.variants["draw"].notna().any()


def test_means_come_from_the_discovery_half_or_from_a_reference(run, command, pair_file, tmp_path):
    discovery = [pair for pair in read_pairs(pair_file) if half_of(pair.query) == "discovery"]
    rows = [(pair.query, pair.title) for pair in discovery]
    reference = write_pairs(tmp_path / "reference.tsv", rows)
    options = ("--masks", "L0H1", "--mode", "mean", "--json")
    means = [
        json.loads(run(*command, "--out", tmp_path / str(n), *options, *more).out)["means"]
        for n, more in enumerate([(), ("--reference", reference), ("--reference", pair_file)])
    ]
    assert means[0] == means[1] != means[2]


def test_limit_keeps_whole_queries(run, command, many_pairs, tmp_path):
    arguments = [many_pairs if part == command[4] else part for part in command]
    assert run(*arguments, "--out", tmp_path / "s", "--limit", "15").status == 0
    taken = SweepFolder.read(tmp_path / "s").pairs
    everything = read_pairs(many_pairs)
    queries = {pair.query for pair in taken}
    assert [p.line for p in taken] == [p.line for p in everything if p.query in queries]
    assert 15 <= len(taken) < len(everything)


def test_a_file_without_grades(run, checkpoint_of, write, tmp_path):
    path = write("p.csv", "query,title\n狗,猫\n狗,追\n猫,狗追\n")
    ended = run("sweep", "--model", checkpoint_of(), "--pairs", path, "--out", tmp_path / "s")
    assert ended.status == 0, ended.err
    assert "unmasked kl 0.000" in ended.out


def test_ctrl_c_says_how_to_go_on(run, command, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(SweepWork, "store", interrupted)
    ended = run(*command, "--out", tmp_path / "s")
    assert ended.status == 130 and "--resume goes on" in ended.err


def test_finished_then_resumed_shows_the_table_again(run, command, tmp_path):
    first = run(*command, "--out", tmp_path / "s")
    logits = tmp_path / "s" / "logits.npy"
    before = logits.stat().st_mtime_ns
    again = run(*command, "--out", tmp_path / "s", "--resume")
    assert (again.status, again.out) == (0, first.out)
    assert logits.stat().st_mtime_ns == before
    assert np.load(logits).shape == (5, 8, 5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--masks", "L7H0"], "there is no head L7H0"),
        (["--masks", "every"], "--masks 'every'"),
        (["--masks", "gone.csv"], "gone.csv: cannot be read"),
        (["--masks", "single", "--masks", "L0H0"], "two variants are named 'L0H0'"),
        (["--mode", "off"], "mode 'off': choose from"),
        (["--limit", "0"], "--limit 0"),
        (["--masks", "random", "--draws", "0"], "at least one draw"),
        (["--resamples", "-1"], "-1 resamples"),
        (["--max-length", "500"], "--max-length 500"),
        (["--dtype", "int8"], "--dtype 'int8'"),
        (["--mode", "mean", "--reference", "gone.tsv"], "gone.tsv"),
        (["--pairs", "gone.tsv"], "gone.tsv"),
    ],
)
def test_bad_options_are_refused(refused, command, tmp_path, options, words):
    refused(words, *command, "--out", tmp_path / "s", *options)
    assert not (tmp_path / "s").exists()
