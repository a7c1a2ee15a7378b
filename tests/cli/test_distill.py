"""`qt-bert distill` as a user meets it."""

from __future__ import annotations

import json

import pytest

from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.pruned import reference_of
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Budget, Plan, layer_map

SHAPE = {"layers": 3, "heads": 4, "hidden": 32}


@pytest.fixture
def asked(checkpoint_of, tmp_path, pair_file):
    """A plan on disk with its teacher, a recipe of two steps, and an --out."""
    folder = checkpoint_of("bert", **SHAPE)
    teacher = open_checkpoint(folder)
    kept = (KeptLayer(layer=0, heads=(0, 2)), KeptLayer(layer=2, heads=()))
    Plan(
        teacher=reference_of(teacher.model, teacher.family, teacher.name, teacher.sha256),
        budget=Budget(kind_of="layers", value=2, share=False, asked="layers=2"),
        replacement="zero",
        kept=kept,
        layer_map=layer_map(kept, 3),
    ).write(tmp_path / "plan.json")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'[[pairs]]\nfile = "{pair_file.name}"\nunlabelled = true\n[dev]\nfile = "{pair_file.name}"\n'
        "[settings]\nmax_steps = 2\nslots = 192\ncompile = false\nevaluations = 1\n"
        "[loss]\nhidden = 0.5\n[job]\nmax_length = 48\n",
        encoding="utf-8",
    )
    arguments = ["--plan", tmp_path / "plan.json", "--model", folder, "--out", tmp_path / "s"]
    return [*arguments, "--recipe", recipe, "--data", tmp_path, "--dtype", "float32"]


def test_a_student_by_recipe_and_options(run, asked, pair_file, tmp_path):
    done = run("distill", *asked, "--pairs", pair_file, "--unlabelled", pair_file, "--seed", "3")
    assert done.status == 0, done.err
    assert "best qwk" in done.err and str(tmp_path / "s") in done.err
    facts = json.loads((tmp_path / "s" / "training.json").read_text("utf-8"))
    assert (facts["labelled"], facts["unlabelled"], facts["steps"]) == (8, 16, 2)
    assert facts["asked"]["loss"]["hidden"] == 0.5 and facts["asked"]["seed"] == 3
    assert [len(one.heads) for one in open_checkpoint(tmp_path / "s").kept.layers] == [2, 0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--unlabelled", "nowhere.tsv"], "--unlabelled nowhere.tsv: no such file"),
        (["--pairs", "nowhere.tsv"], "--pairs nowhere.tsv: no such file"),
        (["--plan", "nowhere.json"], "no such result file"),
        (["--lr", "7"], "--lr 7"),
        (["--steps", "-1"], "max_steps is -1"),
        (["--recipe", "nowhere.toml"], "not a readable recipe"),
    ],
)
def test_bad_input_is_named(run, asked, change, says):
    done = run("distill", *asked, *change)
    assert done.status == 2 and says in done.err and "Traceback" not in done.err


def test_nothing_to_learn_from_is_said(run, asked):
    arguments = asked[: asked.index("--recipe")]
    done = run("distill", *arguments)
    assert done.status == 2 and "nothing to learn from" in done.err
