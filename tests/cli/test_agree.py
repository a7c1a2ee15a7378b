import json

import pytest

from tests.conftest import write_pairs


@pytest.fixture
def rated(tmp_path):
    rows = [
        (f"票价{n % 20}", f"高铁{n}", n % 5 + 1, (n + n % 2) % 5 + 1, n % 4 + 1) for n in range(60)
    ]
    return write_pairs(tmp_path / "rated.tsv", rows, "LLM", "三", label="人工")


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
