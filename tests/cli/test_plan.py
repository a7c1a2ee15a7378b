import json
from pathlib import Path

import pytest
import typer.main

from qt_bert.cli.plan import _frontier_as_text
from qt_bert.cli.register import app
from qt_bert.planning import frontier as frontiers
from qt_bert.planning import make_plan
from qt_bert.request import Request
from qt_bert.results.frontier import Frontier
from qt_bert.results.plan import Plan
from tests.results.made_plan import frontier


@pytest.fixture
def command(checkpoint_of, many_pairs):
    return ("plan", "--model", checkpoint_of(), "--pairs", many_pairs, "--resamples", "20")


def test_a_plan_and_its_page(run, command, tmp_path):
    out = tmp_path / "plan"
    ended = run(*command, "--budget", "heads=0.5", "--out", out)
    assert ended.status == 0, ended.err
    assert "2 of 2 layers and 2 of 4 heads stay" in ended.out and "spearman" in ended.out
    plan = Plan.read(out / "plan.json")
    assert plan.budget.asked == "heads=0.5"
    page = (out / "plan.html").read_text(encoding="utf-8")
    assert "缩小相关性模型" in page and "report.json" not in page
    again = run(*command, "--budget", "heads=0.5", "--out", out)
    assert again.status == 2 and "--resume" in again.err
    first = (out / "plan.json").read_bytes()
    assert run(*command, "--budget", "heads=0.5", "--out", out, "--resume").status == 0
    assert (out / "plan.json").read_bytes() == first


def test_rejected_rows_are_counted(run, command, write, tmp_path):
    path = command[command.index("--pairs") + 1]
    path = write("some.tsv", path.read_text(encoding="utf-8") + "狗\t\t1\n")
    more = ("--pairs", path, "--budget", "layers=1", "--out", tmp_path / "plan")
    ended = run(*command, *more, "--max-rejects", "0.5")
    assert ended.status == 0 and "1 row rejected" in ended.err


def test_a_frontier_its_page_and_the_commands(run, command, pair_file, tmp_path, monkeypatch):
    monkeypatch.setattr(frontiers, "details", lambda *_: ())
    # The latencies of so small a model are noise: all shapes are kept.
    monkeypatch.setattr(frontiers, "on_frontier", lambda _, values: [*range(len(values))])
    out = tmp_path / "plan"
    ended = run(*command, "--pairs-to-train", pair_file, "--trial", "1", "--out", out)
    assert ended.status == 0, ended.err
    assert "ρ, 4 steps" in ended.out
    frontier = Frontier.read(out / "frontier.json")
    assert f"--plan {out / 'frontier.json'} --shape" in ended.out
    page = (out / "plan.html").read_text(encoding="utf-8")
    assert "缩小相关性模型" in page and "plan_frontier" in page
    shape, model = str(frontier.rows[-1].shape), command[2]
    of = ("--plan", out / "frontier.json", "--shape", shape, "--model", model)
    ended = run("prune", *of, "--out", tmp_path / "small")
    assert ended.status == 0, ended.err
    ended = run("prune", *of[:2], "--model", model, "--out", tmp_path / "other")
    assert ended.status == 2 and "give --shape" in ended.err


def test_the_next_commands_have_the_options_that_they_are_printed_with():
    of_model = {"model_grades": "0=1-2,1=3-5", "max_length": 40, "token_types": "yes"}
    request = Request(model="m", pairs=Path("p.tsv"), **of_model)
    text = _frontier_as_text(frontier(trial=False), Path("f.json"), request)
    known, types = typer.main.get_command(app).commands, "--token-types"
    every = {"--model-grades", "--max-length", types}
    printed = [line.split()[1:] for line in text.splitlines() if line.startswith("qt-bert ")]
    for name, *words in printed:
        has = {option for parameter in known[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= has, name
    assert [(name, every & {*words}) for name, *words in printed] == [
        ("export", {"--model-grades", types}),
        ("plan", every),
        ("prune", {types}),
        ("distill", {"--max-length", types}),
        ("export", set()),  # of the student, whose card has them
        ("compare", every),
    ]


def test_a_plan_is_not_made_in_the_folder_of_another_run(run, command, tmp_path):
    out = tmp_path / "both"
    assert run(*command, "--budget", "layers=1", "--out", out).status == 0
    stored = (out / "plan.json").read_bytes()
    ended = run(*command, "--out", out, "--resume")
    assert ended.status == 2 and "holds plan of another run" in ended.err
    assert (out / "plan.json").read_bytes() == stored


def test_json_is_the_plan_and_held_out_files_have_their_own_columns(run, command, write, tmp_path):
    rows = [f"{'北京'[: 1 + i % 2]}{i // 2}\t上海{i}\t{i % 3}\n" for i in range(20)]
    coarse = write("coarse.tsv", "q\tt\tl\n" + "".join(rows))
    ended = run(
        *command, "--budget", "layers=1", "--out", tmp_path / "p", "--json", "--held-out", coarse,
        "--held-out-columns", "query=q,title=t,grade=l", "--held-out-grades", "0=1-2,1=3-4,2=5",
        "--limit", "20",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    evidence = json.loads(ended.out)["evidence"]
    tests = [(test["role"], test["coarse"]) for test in evidence["tests"]]
    assert tests == [("validation", False), ("held out", True)]
    assert evidence["discovery"]["n_pairs"] <= 20


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--budget", "heads=60%"), "the share that is kept"),
        (("--budget", "heads=4"), "heads=1 to heads=3"),
        (("--budget", "params=0.01"), "heads= or layers="),
        (("--run", "."), "--run goes with --budget"),
        (("--held-out", "nowhere.tsv"), "--held-out goes with --budget"),
        (("--budget", "heads=0.5", "--trial", "3"), "--trial goes without --budget"),
        (("--trial", "3"), "--trial goes with --pairs-to-train"),
        (("--pairs-to-train", "nowhere.tsv"), "--pairs-to-train nowhere.tsv: no such file"),
        (("--budget", "heads=0.5", "--held-out-grades", "0=1"), "names no file"),
        (("--budget", "heads=0.5", "--held-out", "nowhere.tsv"), "nowhere.tsv"),
        (("--budget", "heads=0.5", "--run", "."), "no finished probe"),
    ],
)
def test_bad_options_are_refused(refused, command, tmp_path, options, words):
    refused(words, *command, *options, "--out", tmp_path / "p")


def test_an_invalid_budget_leaves_no_folder(run, command, tmp_path):
    for budget in ("heads=9", "layers=2"):
        assert run(*command, "--budget", budget, "--out", tmp_path / "p").status == 2
    assert not (tmp_path / "p").exists()


def test_discovery_and_test_queries_must_differ(refused, command, many_pairs, tmp_path):
    options = (*command, "--budget", "heads=2", "--out")
    refused("also", *options, tmp_path / "p", "--discovery", many_pairs)
    refused("also in many.tsv", *options, tmp_path / "q", "--held-out", many_pairs)


def test_stopped_it_goes_on_where_it_was(run, command, tmp_path, monkeypatch):
    out = tmp_path / "p"

    def stopped(*_, **__):
        raise KeyboardInterrupt

    assert run(*command, "--budget", "heads=3", "--out", out).status == 0
    with monkeypatch.context() as patch:
        patch.setattr(make_plan, "plan_tests", stopped)
        assert run(*command, "--budget", "heads=2", "--out", out, "--resume").status == 130
    assert not (out / "plan.html").exists()  # it would be of another plan
    there = {path: path.stat().st_mtime_ns for path in out.rglob("logits.npy")}
    assert there and not (out / "plan.json").exists()
    assert run(*command, "--budget", "heads=2", "--out", out, "--resume").status == 0
    assert all(path.stat().st_mtime_ns == then for path, then in there.items())
    assert (out / "plan.json").is_file()


def test_a_shape_is_distilled_by_the_recipe(run, refused, checkpoint_of, pair_file, tmp_path):
    out, files = tmp_path / "s", ("--pairs", pair_file, "--dev", pair_file)
    command = ("distill", "--model", checkpoint_of(), *files, "--out", out)
    refused("give --shape layers=4, or --plan", *command)
    refused("write layers=4", *command, "--shape", "4")
    refused("has 2 layers", *command, "--shape", "layers=3")
    short = ("--steps", "2", "--slots", "192", "--no-compile")
    ended = run(*command, "--shape", "layers=1,units=0.5", *short)
    assert ended.status == 0, ended.err
    facts = json.loads((out / "training.json").read_text(encoding="utf-8"))
    (kept,) = facts["asked"]["plan"]["kept"]
    assert len(facts["asked"]["plan"]["units"][str(kept["layer"])]) == kept["units"]
    asked = {name: facts["asked"][name] for name in ("lr", "average", "evaluations", "max_steps")}
    assert asked == {"lr": 5e-4, "average": 0.998, "evaluations": 4, "max_steps": 2}
