"""`qt-bert prune`."""

import json

import pytest

from qt_bert.models.checkpoint import open_checkpoint


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
