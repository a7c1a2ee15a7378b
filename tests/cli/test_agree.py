import json

import pytest


@pytest.fixture
def rated(write):
    rows = [
        f"票价{n % 20}\t高铁{n}\t{n % 5 + 1}\t{(n + n % 2) % 5 + 1}\t{n % 4 + 1}" for n in range(60)
    ]
    return write("rated.tsv", "query\ttitle\t人工\tLLM\t三\n" + "\n".join(rows) + "\n")


def test_agreement_as_json_and_as_tables(run, rated):
    options = ("agree", rated, "--resamples", "50", "--raters")
    ended = run(*options, "人工,LLM,三", "--json")
    agreement = json.loads(ended.out)
    assert ended.status == 0 and len(agreement["between"]) == 3
    assert sum(map(sum, agreement["between"][0]["confusion"])) == 60
    ended = run(*options, "人工,LLM", "--by", "三")
    assert ended.status == 0 and "furthest apart" in ended.out and "人工 ↓ LLM →" in ended.out


def test_a_rater_in_another_file(run, rated, write):
    rows = rated.read_text("utf-8").splitlines()[1:-1]
    llm = write(
        "llm.tsv", "query\ttitle\tg\n" + "\n".join("\t".join(r.split("\t")[:3]) for r in rows)
    )
    ended = run("agree", rated, "--raters", f"人工,{llm}:g", "--resamples", "10", "--json")
    (two,) = json.loads(ended.out)["between"]
    assert two["metrics"]["kappa"]["value"] == 1.0 and two["metrics"]["kappa"]["n"] == 59
