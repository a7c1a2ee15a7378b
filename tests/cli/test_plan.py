"""`qt-bert plan`: making, going on, drawing, refusing."""

import json

import numpy as np
import pytest

from qt_bert.planning import expectation
from qt_bert.results.plan import Plan
from tests.conftest import CHARACTERS


@pytest.fixture
def many_pairs(tmp_path):
    """48 graded pairs of 24 queries."""
    rng = np.random.default_rng(0)
    rows = []
    for place in range(24):
        query = "".join(rng.choice(list(CHARACTERS), 5)) + str(place)
        for _ in range(2):
            title = "".join(rng.choice(list(CHARACTERS), rng.integers(4, 12)))
            rows.append(f"{query}\t{title}\t{rng.integers(1, 6)}\n")
    path = tmp_path / "many.tsv"
    path.write_text("query\ttitle\tgrade\n" + "".join(rows), encoding="utf-8")
    return path


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
    assert "缩小相关性模型的计划" in page and "report.json" not in page
    again = run(*command, "--budget", "heads=0.5", "--out", out)
    assert again.status == 2 and "--resume" in again.err
    first = (out / "plan.json").read_bytes()
    assert run(*command, "--budget", "heads=0.5", "--out", out, "--resume").status == 0
    assert (out / "plan.json").read_bytes() == first


def test_json_is_the_plan_and_held_out_files_have_their_own_columns(run, command, tmp_path):
    coarse = tmp_path / "coarse.tsv"
    rows = [f"{'北京'[: 1 + i % 2]}{i // 2}\t上海{i}\t{i % 3}\n" for i in range(20)]
    coarse.write_text("q\tt\tl\n" + "".join(rows), encoding="utf-8")
    ended = run(
        *command, "--budget", "layers=1", "--out", tmp_path / "p", "--json", "--held-out", coarse,
        "--held-out-columns", "query=q,title=t,grade=l", "--held-out-grades", "0=1-2,1=3-4,2=5",
        "--limit", "20",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    tests = found["evidence"]["tests"]
    assert [(one["role"], one["coarse"]) for one in tests] == [
        ("validation", False),
        ("held out", True),
    ]
    assert found["evidence"]["discovery"]["n_pairs"] <= 20


def test_means_lie_beside_the_plan(run, command, tmp_path):
    out = tmp_path / "p"
    ended = run(*command, "--budget", "heads=3", "--replace", "mean", "--out", out)
    assert ended.status == 0, ended.err
    assert (out / "means.safetensors").is_file()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--budget", "heads=60%"), "the share that is kept"),
        (("--budget", "heads=4"), "heads=1 to heads=3"),
        (("--budget", "params=0.01"), "is the nearest that can be met"),
        (("--budget", "heads=0.5", "--held-out-grades", "0=1"), "names no file"),
        (("--budget", "heads=0.5", "--held-out", "nowhere.tsv"), "nowhere.tsv"),
        (("--budget", "heads=0.5", "--run", "."), "no finished probe"),
        (("--budget", "heads=0.5", "--replace", "noise"), "noise"),
    ],
)
def test_what_cannot_be_is_said_without_a_traceback(run, command, tmp_path, more, said):
    ended = run(*command, *more, "--out", tmp_path / "p")
    assert ended.status == 2 and said in ended.err
    assert "Traceback" not in ended.err


def test_a_budget_that_cannot_be_leaves_no_folder(run, command, tmp_path):
    for budget in ("heads=9", "layers=2"):
        assert run(*command, "--budget", budget, "--out", tmp_path / "p").status == 2
    assert not (tmp_path / "p").exists()


def test_queries_to_choose_on_must_not_be_tested_on(run, command, many_pairs, tmp_path):
    ended = run(*command, "--budget", "heads=2", "--discovery", many_pairs, "--out", tmp_path / "p")
    assert ended.status == 2 and "also" in ended.err
    ended = run(*command, "--budget", "heads=2", "--held-out", many_pairs, "--out", tmp_path / "q")
    assert ended.status == 2 and "also in many.tsv" in ended.err


def test_stopped_it_goes_on_where_it_was(run, command, tmp_path, monkeypatch):
    out = tmp_path / "p"

    def stopped(*_, **__):
        raise KeyboardInterrupt

    assert run(*command, "--budget", "heads=3", "--out", out).status == 0
    with monkeypatch.context() as patch:
        patch.setattr(expectation, "expected", stopped)
        assert run(*command, "--budget", "heads=2", "--out", out, "--resume").status == 130
    assert not (out / "plan.html").exists()  # it would be of another plan
    there = {path: path.stat().st_mtime_ns for path in out.rglob("logits.npy")}
    assert there and not (out / "plan.json").exists()
    assert run(*command, "--budget", "heads=2", "--out", out, "--resume").status == 0
    assert all(path.stat().st_mtime_ns == then for path, then in there.items())
    assert (out / "plan.json").is_file()
