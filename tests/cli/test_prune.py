"""`qt-bert prune`."""

from __future__ import annotations

import json

import pytest

from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.pruned import reference_of
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Budget, Plan, layer_map


@pytest.fixture
def asked(checkpoint_of, tmp_path):
    """A plan on disk, with the options that name it, its teacher and an --out."""
    folder = checkpoint_of("bert", layers=3, heads=4, hidden=32)
    teacher = open_checkpoint(folder)
    kept = (KeptLayer(layer=0, heads=(0, 2)), KeptLayer(layer=2, heads=()))
    plan = Plan(
        teacher=reference_of(teacher.model, teacher.family, teacher.name, teacher.sha256),
        budget=Budget(kind_of="layers", value=2, share=False, asked="layers=2"),
        replacement="zero",
        kept=kept,
        layer_map=layer_map(kept, 3),
    )
    plan.write(tmp_path / "plan.json")
    return ["--plan", tmp_path / "plan.json", "--model", folder, "--out", tmp_path / "small"]


def test_the_folder_opens_and_the_figures_are_printed(run, asked, pair_file):
    done = run("prune", *asked, "--pairs", pair_file, "--json")
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
def test_bad_input_is_one_plain_line(run, asked, pair_file, change, says):
    done = run("prune", *asked, "--pairs", pair_file, *change)
    assert done.status == 2 and says in done.err and "Traceback" not in done.err
