import json

import pytest

import qt_bert
from qt_bert.files import read_json
from qt_bert.models.folder import weights_sha256
from qt_bert.probes.base import probes
from qt_bert.results.heads import HeadsFile
from tests.probes.scored import NOT_OF_HEADS


def test_a_file_that_cannot_be_halved_still_gets_its_evaluation(
    refused, write, checkpoint_of, tmp_path
):
    path = write("one.tsv", "query\ttitle\tgrade\n狗追猫\t猫\t1\n狗追猫\t狗追猫\t5\n")
    out = tmp_path / "report"
    arguments = ("report", "--model", checkpoint_of(), "--pairs", path, "--out", out)
    assert "half of the queries" in refused("what is done so far", *arguments).err
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "missing:" in page and "probe:" in page and 'id="evaluation"' in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--save-heads", "."), "heads.json"),
        (("--save-results", __file__), "give a folder"),
        (("--only", "matchings"), "this run has evaluation"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(
    refused, checkpoint_of, pair_file, tmp_path, options, words
):
    out = tmp_path / "report"
    arguments = ["report", "--model", checkpoint_of(), "--pairs", pair_file, "--out", out]
    assert refused(words, *arguments, *options).err.count("\n") == 1
    assert not out.exists()


def test_all_is_probed_and_the_heads_are_saved(run, checkpoint_of, pair_file, tmp_path):
    model = checkpoint_of()
    out, heads = tmp_path / "report", tmp_path / "heads.json"
    arguments = ["report", "--model", model, "--pairs", pair_file, "--out", out]
    arguments += ["--resamples", "50", "--save-heads", heads]
    ended = run(*arguments)
    assert ended.status == 0, ended.err
    assert "京东小哥" in (out / "report.html").read_text("utf-8") and run(*arguments).status == 2
    without_base = {p.name for p in probes() if not (p.needs_base or p.only_full)}
    assert {path.stem for path in (out / "probes").glob("*.json")} == without_base
    needs_base = ", ".join(probe.name for probe in probes() if probe.needs_base)
    assert f"left out: {needs_base}: " in ended.err and "--base" in ended.err
    sections = json.loads((out / "report.json").read_text("utf-8"))["sections"]
    assert {"answer", "evaluation", "atlas"} <= {section["name"] for section in sections}
    stored = HeadsFile.read(heads)
    assert stored.model.sha256 == weights_sha256(model)
    assert {table.probe for table in stored.probes} == without_base
    # 2 layers of 2 heads; these pairs have no shared term to patch and no equivalent spans.
    for table in stored.probes:
        headless = table.probe in NOT_OF_HEADS | {"patch", "relations"}
        assert len(table.heads) == (0 if headless else 4), table.probe

    saved = heads.read_bytes()
    heads.unlink()
    assert "nothing changed" in run(*arguments, "--resume").err
    assert heads.read_bytes() == saved


def test_the_same_run_elsewhere_saves_the_same_bytes(run, checkpoint_of, pair_file, tmp_path):
    for name in ("one", "two"):
        ended = run(
            "report", "--model", checkpoint_of(), "--pairs", pair_file, "--out", tmp_path / name,
            "--resamples", "50", "--save-heads", tmp_path / f"{name}.json", "--only", "matching,redundancy",
        )  # fmt: skip
        assert ended.status == 0, ended.err
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_models_of_one_score_are_reported(run, checkpoint_of, pair_file, tmp_path):
    out = tmp_path / "report"
    ended = run(
        "report", "--model", checkpoint_of(labels=1), "--pairs", pair_file, "--out", out,
        "--resamples", "50", "--only", "matching",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    data = json.loads((out / "report.json").read_text(encoding="utf-8"))
    titles = [card["title"]["en"] for card in data["summary"]]
    assert titles == ["Pairwise accuracy", "Spearman ρ", "NDCG@5"]


def test_a_plan_reads_the_probes_of_its_own_run_alone(run, fresh_checkpoint, pair_file, tmp_path):
    out = tmp_path / "report"
    model = fresh_checkpoint(layers=2, heads=2)
    arguments = ["report", "--model", model, "--pairs", pair_file, "--out", out, "--resume"]
    arguments += ["--save-heads", model / "heads.json"]  # which no key covers
    for only, functions in (("matching", None), ("plan", "none"), ("matching,plan", "run")):
        ended = run(*arguments, "--only", only, "--resamples", 100)
        assert ended.status == 0, ended.err
        if functions is not None:
            evidence = read_json(out / "plan" / "plan.json")["evidence"]
            assert evidence["functions"] == functions
    assert {path.name for path in (out / "sweeps").iterdir()} <= {"matching", "plan"}
    stages = read_json(out / "run.json")["stages"]
    assert stages["plan"]["needs"] == ["probe:matching"]


def test_a_report_is_that_of_the_command(fake_probe, run, checkpoint_of, pair_file, tmp_path):
    grader = qt_bert.load(checkpoint_of(), max_length=8)
    grader.score([("京东小哥", "京东小哥最近在干嘛")])  # cut, which is not counted in the report
    grader.report(pair_file, out=tmp_path / "api", only=["fake"], resamples=20)
    run(
        "report", "--model", checkpoint_of(), "--max-length", "8", "--pairs", pair_file, "--only",
        "fake", "--resamples", "20", "--out", tmp_path / "command",
    )  # fmt: skip
    files = ("run.json", "evaluation.json", "probes/fake.json")
    ours, theirs = (
        [read_json(tmp_path / folder / name) for name in files] for folder in ("api", "command")
    )
    assert ours[0]["inputs"] == theirs[0]["inputs"] and ours[1:] == theirs[1:]
