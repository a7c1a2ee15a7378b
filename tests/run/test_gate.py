"""`compare --gate`: rules read from TOML, held against differences by hand."""

import pytest

import qt_bert
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.run.gate import judge_gate, read_gate


@pytest.fixture
def gate_of(tmp_path):
    def write(text):
        path = tmp_path / "gate.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def difference(value, low, high, n=100):
    return {"difference": value, "ci_low": low, "ci_high": high, "n_eligible": n, "reason": None}


def outcomes(gate, metrics, slices=None):
    found = judge_gate(gate, {"metrics": metrics, "slices": slices or {}}, (), None, None)
    return found["passed"], {one["what"]: one["outcome"] for one in found["rules"]}


@pytest.mark.parametrize(
    ("metric", "value", "low", "high", "outcome"),
    [
        ("qwk", 0.0, -0.019, 0.02, "passed"),
        ("qwk", -0.05, -0.08, -0.021, "worse"),
        ("qwk", 0.0, -0.03, 0.03, "open"),
        ("qwk", -0.025, -0.05, 0.01, "open"),
        ("mae", 0.05, 0.021, 0.08, "worse"),
        ("mae", -0.05, -0.08, 0.019, "passed"),
    ],
)
def test_a_metric_passes_where_the_whole_interval_does(gate_of, metric, value, low, high, outcome):
    gate = read_gate(gate_of(f"[metrics]\n{metric} = 0.02"))
    passed, found = outcomes(gate, {metric: difference(value, low, high)})
    assert found == {metric: outcome} and passed == (outcome == "passed")


def test_an_open_rule_says_how_many_queries_would_decide(gate_of):
    gate = read_gate(gate_of("[metrics]\nqwk = 0.02"))
    compared = {"metrics": {"qwk": difference(0.0, -0.03, 0.03)}}
    (rule,) = judge_gate(gate, compared, (), None, None)["rules"]
    assert "459 queries" in rule["reason"]  # 100 · 2.04 · (.03 / .02)²


def test_a_value_of_its_own_takes_the_place_of_the_columns(gate_of):
    gate = read_gate(gate_of("[slices.field]\nqwk = 0.1\n[slices.field.law]\nqwk = 0.01"))
    slices = {"field": {v: {"qwk": difference(0, -0.05, 0.05)} for v in ("law", "pets")}}
    passed, found = outcomes(gate, {}, slices)
    assert found == {"qwk, field law": "open", "qwk, field pets": "passed"} and not passed
    assert list(gate.slices) == ["field"]


@pytest.mark.parametrize(("skip", "outcome"), [("", "open"), ("skip_below = 20\n", "skipped")])
def test_small_slices_pass_only_where_the_gate_says_so(gate_of, skip, outcome):
    gate = read_gate(gate_of(f"{skip}[slices.field]\nqwk = 0.1"))
    passed, found = outcomes(gate, {}, {"field": {"law": {"qwk": difference(0, 0, 0, n=5)}}})
    assert found == {"qwk, field law": outcome} and passed == (outcome == "skipped")


def test_a_slice_that_is_not_there_is_told(gate_of):
    gate = read_gate(gate_of("[slices.field.law]\nqwk = 0.1"))
    with pytest.raises(ArgumentError, match="'law'.*pets"):
        outcomes(gate, {}, {"field": {"pets": {}}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rule"),
        ("[metric]\nqwk = 1", "'metric'"),
        ("[metrics]\nqwq = 1", "'qwq'"),
        ("[metrics]\nbias = 1", "'bias'"),
        ("[metrics]\nqwk = -1", "from 0 on"),
        ("[metrics]\nqwk = true", "'qwk'.*number"),
        ("[metrics]\nqwk = nan", "'qwk'.*number"),
        ("metrics = 3", "metrics: expected"),
        ("[slices]\nfield = 3", "'field'.*expected"),
        ("[behaviours]\nlogic = 0", "'logic'.*negation"),
        ("skip_below = -1\n[metrics]\nqwk = 1", "from 0 on"),
        ("[metrics", "gate.toml"),
    ],
)
def test_a_gate_that_cannot_be_meant_is_told(gate_of, text, said):
    with pytest.raises(ArgumentError, match=said):
        read_gate(gate_of(text))


CASES = "id\tphenomenon\trelation\tquery\ttitle\tother\n" + "".join(
    f"{n}\tnumber\tbetter\t票价{n}\t高铁票价{n}\t高铁时刻表{n}\n" for n in range(6)
)


@pytest.mark.parametrize("labels", [5, 1])
def test_two_models_through_a_gate(checkpoint_of, pair_file, tmp_path, gate_of, labels):
    (tmp_path / "cases.tsv").write_text(CASES, encoding="utf-8")
    gate = gate_of('cases = "cases.tsv"\n[metrics]\nndcg_at_5 = 0.0\n[behaviours]\nnumber = 0.0')
    a = qt_bert.load(checkpoint_of(labels=labels))
    found = a.compare(a, pair_file, gate=gate, detect=0.01)
    assert [one["change"] for one in found["gate"]["rules"]] == [0, 0]
    assert [one["outcome"] for one in found["gate"]["rules"]] == ["open", "passed"]  # few queries
    # The other way round every case that the one tells the other does not.
    b = qt_bert.load(checkpoint_of(labels=labels, seed=1))
    gate = read_gate(gate)
    changes = [
        judge_gate(gate, found, (x.scorer, y.scorer), pair_file, ReaderOptions())["rules"][1]
        for x, y in ((a, b), (b, a))
    ]
    assert changes[0]["change"] == -changes[1]["change"]
    assert {one["outcome"] for one in changes} == (
        {"passed", "worse"} if changes[0]["change"] else {"passed"}
    )
