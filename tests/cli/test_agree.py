"""`qt-bert agree`: JSON, tables, bad labels and bad columns."""

import json

import pytest


@pytest.fixture
def rated(tmp_path):
    path = tmp_path / "rated.tsv"
    rows = [
        f"票价{n % 20}\t高铁{n}\t{n % 5 + 1}\t{(n + n % 2) % 5 + 1}\t{n % 4 + 1}" for n in range(60)
    ]
    path.write_text("query\ttitle\t人工\tLLM\t三\n" + "\n".join(rows) + "\n狗\t猫\t?\t2\t1\n")
    return path


def test_agreement_as_json_and_as_tables(run, rated):
    asked = ("agree", rated, "--raters", "人工,LLM,三", "--resamples", "50")
    ended = run(*asked, "--judge", "LLM", "--json")
    found = json.loads(ended.out)
    assert ended.status == 0 and "人工: 1 labels are no grades" in ended.err
    assert (found["rated"]["人工"], found["bad_labels"]["人工"]) == (60, 1)
    assert found["between"][0]["metrics"]["agreement"]["value"] == 0.5
    assert [one["rater"] for one in found["judges"]] == ["LLM"]
    for wrong, said in (
        (["--judge", "GPT"], "no such rater"),
        (["--judge", "三", "--judge", "LLM"], "two"),
    ):
        ended = run(*asked, *wrong)
        assert ended.status == 2 and said in ended.err and ended.err.count("\n") == 1
    ended = run("agree", rated, "--raters", "人工,LLM", "--by", "三", "--resamples", "50")
    assert ended.status == 0 and "furthest apart" in ended.out
