"""`qt-bert report` where a probe cannot run."""

from __future__ import annotations


def test_a_file_that_cannot_be_halved_still_gets_its_evaluation(run, checkpoint_of, tmp_path):
    path = tmp_path / "one.tsv"
    path.write_text("query\ttitle\tgrade\n狗追猫\t猫\t1\n狗追猫\t狗追猫\t5\n", encoding="utf-8")
    out = tmp_path / "report"
    ended = run("report", "--model", checkpoint_of(), "--pairs", path, "--out", out)
    assert ended.status == 2
    assert "what is done so far" in ended.err and "half of the queries" in ended.err
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "missing:" in page and "probe:" in page and 'id="evaluation"' in page


def test_a_base_that_is_no_model_is_refused_before_anything_runs(
    run, checkpoint_of, pair_file, tmp_path
):
    out = tmp_path / "report"
    arguments = ["report", "--model", checkpoint_of(), "--pairs", pair_file, "--out", out]
    ended = run(*arguments, "--base", tmp_path / "none")
    assert ended.status == 2 and "no such folder" in ended.err
    assert not out.exists()


def test_an_unknown_segmenter_is_refused_before_anything_runs(run, checkpoint_of, tmp_path):
    out = tmp_path / "report"
    ended = run("report", "--model", checkpoint_of(), "--out", out, "--segmenter", "none")
    assert ended.status == 2 and "jieba-search" in ended.err
    assert not out.exists()
