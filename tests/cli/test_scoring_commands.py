import json
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from pyarrow.parquet import read_schema

from qt_bert.cli.terminal import metrics_table
from tests.conftest import write_pairs


def test_resuming_a_finished_output_changes_nothing(run, checkpoint_of, pair_file, tmp_path):
    out = tmp_path / "o.tsv"
    arguments = ("score", pair_file, "--model", checkpoint_of(), "--out", out)
    assert run(*arguments).status == 0
    before = out.stat().st_mtime_ns
    ended = run(*arguments, "--resume")
    assert ended.status == 0 and out.stat().st_mtime_ns == before
    assert "complete already" in ended.err and "pairs scored" not in ended.err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pairs.tsv", "is the file of pairs itself"),
        ("mine.tsv", "is there already"),
        ("errors.xlsx", "--errors"),
    ],
)
def test_errors_are_checked_before_the_model_is_opened(refused, pair_file, tmp_path, name, words):
    (tmp_path / "mine.tsv").write_text("mine")
    before = pair_file.read_bytes()
    model = tmp_path / "no model"
    evaluate = ("evaluate", "--pairs", pair_file, "--model", model)
    assert "no such folder" not in refused(words, *evaluate, "--errors", tmp_path / name).err
    assert pair_file.read_bytes() == before
    assert (tmp_path / "mine.tsv").read_text() == "mine"


@pytest.mark.parametrize("suffix", [".tsv", ".parquet"])
def test_errors_leave_nothing_beside_them(run, checkpoint_of, pair_file, tmp_path, suffix):
    out = tmp_path / f"errors{suffix}"
    ended = run(
        "evaluate", "--pairs", pair_file, "--model", checkpoint_of(), "--resamples", "10",
        "--errors", out,
    )  # fmt: skip
    assert ended.status == 0, ended.err
    assert {path.name for path in tmp_path.iterdir()} == {"pairs.tsv", out.name}
    if suffix == ".parquet":  # numbers stay numbers, Python's and NumPy's
        schema = read_schema(out)
        assert [str(schema.field(name).type) for name in ("error", "p_3")] == ["double", "float"]


def test_slices_have_the_number_of_ranked_queries():
    metrics = {
        "accuracy": {"value": 0.5, "n": 40},
        "ndcg_at_5": {"value": 0.9134, "n": 40, "n_eligible": 3, "n_queries": 12},
    }
    result = {"model": {"name": "m"}, "pairs": {"name": "p", "n_pairs": 40}}
    result["metrics"] = metrics | dict.fromkeys(
        ("qwk", "mae"), {"value": None, "n": 40, "reason": "why"}
    )
    shown = metrics_table(result | {"slices": {"field": {"law": metrics}}})
    assert shown.splitlines()[-1].split() == ["law", "40", "0.500", "0.913", "(3/12)"]
    assert "no qwk, mae: why" in shown.splitlines()


def test_compare_takes_the_meaning_of_each_model(run, checkpoint_of, pair_file):
    ended = run(
        "compare", checkpoint_of(), checkpoint_of("bert", labels=3), "--pairs", pair_file,
        "--model-grades-b", "0=1-2,1=3-4,2=5", "--max-length", "16", "--json",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    assert json.loads(ended.out)["metrics"]["ndcg_at_5"]["difference"] is not None
    assert ended.err.count("were cut at 16 tokens") == 2


@pytest.fixture
def many_pairs(tmp_path):
    """40 queries of three titles with a column `field` of two values."""
    rows = (
        (f"票价{q}{w}", f"高铁{q}{t}", (q + t) % 5 + 1, w)
        for q, t, w in product(range(40), range(3), "我你")
    )
    return write_pairs(tmp_path / "many.tsv", rows, "field")


def test_compare_by_a_column_and_through_a_gate(run, checkpoint_of, many_pairs, tmp_path):
    gate = tmp_path / "gate.toml"
    gate.write_text('[metrics]\nqwk = 2.0\n[slices.field."我"]\nspearman = 2.0\n', encoding="utf-8")
    models = (checkpoint_of(), checkpoint_of(seed=1))
    command = ("compare", *models, "--pairs", many_pairs, "--gate", gate)
    ended = run(*command, "--detect", "0.05", "--json")
    assert ended.status == 0, ended.err
    compared = json.loads(ended.out)
    assert compared["gate"]["passed"] and len(compared["gate"]["rules"]) == 2
    change = compared["slices"]["field"]["我"]["spearman"]
    assert change["n_queries"] == 40 and change["q"] >= change["p"]
    half = (change["ci_high"] - change["ci_low"]) / 2
    # 2.8016 standard errors, of which the half-width is 1.96, show a difference with 80 % power.
    assert change["queries"] == pytest.approx(40 * (half / 1.96 * 2.8016 / 0.05) ** 2, rel=0.01)
    gate.write_text('[slices.field."我"]\nspearman = 0.0\n', encoding="utf-8")
    ended = run(*command)
    assert ended.status == 1 and "B may not replace A: 1 of 1" in ended.err
    assert "spearman, field 我" in ended.err


def test_a_gate_of_behaviours_reads_the_labels_that_are_named(
    run, refused, checkpoint_of, write, tmp_path
):
    rows = ((f"票价{n // 3}", f"高铁{n}", n % 5 + 1) for n in range(90))
    path = write_pairs(tmp_path / "rated.tsv", rows, label="人工")
    gate = write("gate.toml", 'behaviours = ["negation"]\n')
    models = [checkpoint_of(labels=1, seed=seed) for seed in (0, 1)]
    ended = run("compare", *models, "--pairs", path, "--labels", "人工", "--gate", gate, "--json")
    (rule,) = json.loads(ended.out)["gate"]["rules"]
    assert rule["what"] == "negation" and ended.status == (rule["reason"] is not None)
    column = ("compare", f"{path}:人工", models[0], "--pairs", path, "--labels", "人工")
    assert "scoring" not in refused("scores no cases", *column, "--gate", gate).err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--detect", "0", "above 0"),
        ("--gate", "none.toml", "none.toml"),
        ("--by", "colour", "field"),
    ],
)
def test_compare_refuses_bad_options(refused, checkpoint_of, many_pairs, option, value, words):
    command = ("compare", checkpoint_of(), checkpoint_of(), "--pairs", many_pairs)
    assert refused(words, *command, option, value).err.count("\n") == 1


def test_evaluate_writes_queries_and_finds_slices(
    run, refused, checkpoint_of, many_pairs, tmp_path
):
    out = tmp_path / "queries.tsv"
    command = ("evaluate", "--model", checkpoint_of(), "--pairs", many_pairs, "--resamples", "20")
    ended = run(*command, "--auto-slices", "--queries", out)
    assert ended.status == 0, ended.err
    assert "query length ≥ 5" in ended.out and "rest" in ended.out
    head, *rows = out.read_text(encoding="utf-8").splitlines()
    gains = [float(row.split("\t")[head.split("\t").index("gain")]) for row in rows]
    assert len(rows) == 80 and gains == sorted(gains, reverse=True)
    refused("is there already", *command, "--queries", out)
    new = tmp_path / "new.tsv"
    refused("a file of its own", *command, "--queries", new, "--errors", new)
    refused("a file of its own", *command, "--errors", new, "--rejects", new)


def test_few_labels_a_judge_and_files_for_other_tools(run, refused, checkpoint_of, tmp_path):
    rng, model = np.random.default_rng(0), checkpoint_of()
    rows = [
        (f"查询{n // 2}", f"狗{n % 7}追猫{n}", *rng.integers(1, 6, 2), 1 + n // 2 % 3)
        for n in range(160)
    ]
    rows = [(q, t, p if n % 8 < 4 else "", j, w) for n, (q, t, p, j, w) in enumerate(rows)]
    path = write_pairs(tmp_path / "few.tsv", rows, "llm", "pv", label="人工")
    command = ("evaluate", "--model", model, "--pairs", path, "--resamples", "50")
    command = (*command, "--labels", "人工", "--judge", "llm", "--weights", "pv", "--relevant", "3")
    files = {name: tmp_path / name for name in ("suspects.tsv", "trec")}
    ended = run(*command, "--suspects", files["suspects.tsv"], "--trec", files["trec"])
    assert ended.status == 0, ended.err
    assert "80 labels of people (40 queries), 80 more of llm (40 queries)" in ended.out
    squares = sum(1 + query % 3 for query in range(80) if query % 4 < 2) ** 2 / sum(
        (1 + query % 3) ** 2 for query in range(80) if query % 4 < 2
    )
    assert f"pv: 40 queries tell as much as {squares:.0f} of equal weight" in ended.err
    assert "80 titles without a label" in ended.err and "relevant from 3" in ended.err
    assert len((files["trec"] / "run.txt").read_text("utf-8").splitlines()) == 160
    assert "p_likely" in files["suspects.tsv"].read_text("utf-8")
    few = json.loads(run(*command, "--json").out)["few_labels"]
    assert few["metrics"]["qwk"]["labels"] == 80 and few["metrics"]["qwk"]["worth"] > 0
    refused("is there already", *command, "--trec", files["trec"])
    options = ("--pairs", path, "--labels", "人工", "--judge", "llm", "--detect", "0.3")
    ended = run("compare", model, model, *options)
    assert ended.status == 0 and "labels for 0.3" in ended.out, ended.err
    out = tmp_path / "next.tsv"
    options = ("agree", path, "--raters", "人工,llm", "--next", "20", "--out")
    ended = run(*options, out)
    assert ended.status == 0 and "label the first" in ended.out, ended.err
    refused("is there already", *options, out)


@pytest.mark.parametrize("labels", [1, 5])
def test_a_collapsed_model_is_noticed(run, checkpoint_of, tmp_path, labels):
    rows = ((f"查询{n % 6}", f"狗追猫{n}", 1 + n % 5) for n in range(24))
    path = write_pairs(tmp_path / "p.tsv", rows)
    model = checkpoint_of("bert", labels=labels, initializer_range=1e-4)
    ended = run("evaluate", "--pairs", path, "--model", model, "--resamples", "10", "--json")
    assert "warning: scores hardly differ: nine tenths of 24 lie between" in ended.err
    assert json.loads(ended.out)["alike"] in ended.err
    ended = run("score", path, "--model", model, "--out", tmp_path / "o.tsv")
    assert ended.status == 0 and "warning: scores hardly differ" in ended.err
    lively = checkpoint_of("bert", labels=labels)
    ended = run("score", path, "--model", lively, "--out", tmp_path / "o2.tsv")
    assert ended.status == 0 and "hardly differ" not in ended.err


WITHOUT_TORCH = """
import sys
from qt_bert.cli import main
for arguments in (
    "evaluate --model {0}:score --baseline {0}:grade",
    "compare {0}:score {0}:grade",
    "calibrate --model {0}:score",
):
    sys.argv = ["qt-bert", *arguments.format(sys.argv[-1]).split(), "--pairs", sys.argv[-1]]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
    assert not {"torch", "transformers"} & set(sys.modules)
"""


def test_a_column_is_judged_without_torch(tmp_path):
    rows = ((f"q{n // 3}", f"t{n}", n % 5 + 1, n % 5 + n % 3) for n in range(90))
    path = write_pairs(tmp_path / "log.tsv", rows, "score")
    code = [sys.executable, "-c", WITHOUT_TORCH, path]
    ended = subprocess.run(code, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "baseline" in ended.stdout and "B − A" in ended.stdout and "precision" in ended.stdout


def test_a_column_read_in_place_of_a_model(run, refused, write, tmp_path):
    rows = "查询\t标题\t标注\t得分\n狗\t猫\t2\t3\n狗\t狗\t5\t4\n羊\t牛\t1\t\n"
    path, listed = write("log.tsv", rows.encode("gb18030")), tmp_path / "r.tsv"
    columns = ("--columns", "query=查询,title=标题,grade=标注")
    evaluate = ("evaluate", "--pairs", path, *columns, "--resamples", "5", "--rejects", listed)
    ended = run(*evaluate, "--model", f"{path}:得分", "--json")
    assert json.loads(ended.out)["pairwise_accuracy"]["value"] == 1.0
    assert "pairs without a score: 1" in ended.err and "--model-grades 1=1,2=2" in ended.err
    for words, command in (
        ("there are 标注, 得分", (*evaluate, "--model", f"{path}:分")),
        ("a column of scores", ("explain", "狗", "猫", "--model", f"{path}:得分")),
        ("a column of scores", ("score", path, "--out", listed, "--model", f"{path}:得分")),
        ("a column of scores", (*evaluate, "--model", f"{path}:得分", "--heads-out", "L0H0")),
        ("no such file", (*evaluate, "--model", f"{tmp_path}/none.tsv:得分")),
    ):
        assert refused(words, *command).err.splitlines()[-1].startswith("error")


def test_compare_several_seeds_a_model(run, tmp_path):
    rows = ((f"q{n // 3}", f"t{n}", n % 5 + 1, n % 5, n % 4, n % 3) for n in range(90))
    path = write_pairs(tmp_path / "log.tsv", rows, *"abc")
    a, b, c = (f"{path}:{name}" for name in "abc")
    values, spreads = {}, {}
    for models in (f"{a},{b}", a, b):
        result = json.loads(run("compare", models, c, "--pairs", path, "--json").out)
        metric = result["metrics"]["pairwise_accuracy"]
        values[models], spreads[models] = metric["value_a"], metric["ci_high"] - metric["ci_low"]
    assert values[f"{a},{b}"] == pytest.approx((values[a] + values[b]) / 2) and values[a] == 1
    assert spreads[f"{a},{b}"] > max(spreads[a], spreads[b])
    assert len(json.loads(run("compare", f"{a},{b}", c, "--pairs", path, "--json").out)["a"]) == 2


def test_rejects_of_unlabelled_pairs_are_listed_where_they_are_alone(run, tmp_path):
    rows = [(f"q{n // 3}", f"t{n}") for n in range(90)]
    scored = ((*row, n % 5 + 1, n % 4) for n, row in enumerate(rows))
    path = write_pairs(tmp_path / "log.tsv", scored, "a")
    traffic = write_pairs(tmp_path / "traffic.tsv", [*rows, ("x",), ("y",)])
    listed = tmp_path / "rejects.tsv"
    models = (f"{path}:a", f"{path}:grade")
    command = ("compare", *models, "--unlabelled", traffic, "--rejects", listed)
    assert "2 rows rejected; without --pairs" in run(*command, "--pairs", path).err
    assert not listed.exists()
    ended = run(*command)
    assert f"2 rows rejected, listed in {listed}" in ended.err
    assert "\nno moved_one, moved_two: both models must give the same grades" in ended.out
    assert ended.out.count("moved_one") == 1
    assert len(listed.read_text("utf-8").splitlines()) == 3


def test_compare_without_labels(run, refused, checkpoint_of, write, tmp_path):
    rows = ((f"票价{n // 2}", f"高铁{n}") for n in range(60))
    path = write_pairs(tmp_path / "traffic.tsv", rows)
    models = (checkpoint_of(), checkpoint_of(seed=1))
    ended = run("compare", *models, "--unlabelled", path, "--json")
    assert ended.status == 0, ended.err
    result = json.loads(ended.out)
    assert "metrics" not in result and result["agreement"]["metrics"]["first_title"]["n"] == 30
    assert len(result["agreement"]["queries"]) == 20
    gate = write("gate.toml", "[agreement]\nfirst_title = 0.0\n")
    ended = run("compare", *models, "--unlabelled", path, "--gate", gate)
    assert (
        ended.status == 1 and "first_title: " in ended.err and "0 allowed: it may be" in ended.err
    )
    assert "rank_correlation" in ended.out and "where their ranking differs most" in ended.out
    refused("none.tsv", "compare", *models, "--unlabelled", tmp_path / "none.tsv")


def test_a_file_without_a_header_is_held_against_one_with(run, write):
    raw = write("raw.tsv", "1\t猫\t狗\t3\n2\t人\t车\t1\n")
    train = write("train.tsv", "query\ttitle\tgrade\n猫\t狗\t3\n")
    options = ("--no-header", "--columns", "query=2,title=3,grade=4", "--json")
    shared = json.loads(run("check", raw, *options, "--against", train).out)
    named = write("named.tsv", "q\tt\tgrade\n猫\t狗\t3\n人\t车\t1\n")
    options = ("--columns", "query=q,title=t", "--json")
    again = json.loads(run("check", named, *options, "--against", train).out)
    assert [report["shared_pairs"]["distinct"] for report in (shared, again)] == [1, 1]
    assert (again["rows"], again["shared_queries"]["rows"]) == (2, 1)
