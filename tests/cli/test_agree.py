"""`qt-bert agree`: JSON, tables, bad columns."""

import json

import pytest


@pytest.fixture
def rated(tmp_path):
    path = tmp_path / "rated.tsv"
    rows = [
        f"票价{n % 20}\t高铁{n}\t{n % 5 + 1}\t{(n + n % 2) % 5 + 1}\t{n % 4 + 1}" for n in range(60)
    ]
    path.write_text("query\ttitle\t人工\tLLM\t三\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_agreement_as_json_and_as_tables(run, rated):
    asked = ("agree", rated, "--resamples", "50", "--raters", "人工,LLM")
    ended = run(*asked[:-1], "人工,LLM,三", "--json")
    found = json.loads(ended.out)
    assert ended.status == 0 and len(found["between"]) == 3
    assert sum(map(sum, found["between"][0]["confusion"])) == 60
    ended = run(*asked, "--by", "三")
    assert ended.status == 0 and "furthest apart" in ended.out and "人工 ↓ LLM →" in ended.out
    ended = run(*asked[:-1], "人工,GPT")
    assert ended.status == 2 and "no such column" in ended.err and ended.err.count("\n") == 1
