"""`compare --gate`: rules read from TOML, held against differences by hand."""

import pytest

import qt_bert
from qt_bert.errors import ArgumentError
from qt_bert.scoring.gate import judge_gate, read_gate


@pytest.fixture
def gate_of(write):
    return lambda text: write("gate.toml", text)


def difference(value, low, high, n=100):
    return {"difference": value, "ci_low": low, "ci_high": high, "n_queries": n, "reason": None}


def outcomes(gate, metrics, slices=None):
    judged = judge_gate(gate, {"metrics": metrics, "slices": slices or {}}, (), None, None)
    return judged["passed"], {rule["what"]: rule["reason"] for rule in judged["rules"]}


@pytest.mark.parametrize(
    ("metric", "value", "low", "high", "passes"),
    [
        ("qwk", 0.0, -0.019, 0.02, True),
        ("qwk", -0.05, -0.08, -0.021, False),
        ("qwk", 0.0, -0.03, 0.03, False),
        ("mae", 0.05, 0.021, 0.08, False),
        ("mae", -0.05, -0.08, 0.019, True),
    ],
)
def test_a_metric_passes_where_the_whole_interval_does(gate_of, metric, value, low, high, passes):
    gate = read_gate(gate_of(f"[metrics]\n{metric} = 0.02"))
    passed, reasons = outcomes(gate, {metric: difference(value, low, high)})
    assert passed == passes == (reasons == {metric: None})


def test_a_few_queries_or_no_interval_decide_nothing(gate_of):
    gate = read_gate(gate_of("[metrics]\nqwk = 1\nauc = 1"))
    few, none = difference(0, 0, 0, n=19), difference(0, None, None) | {"reason": "why"}
    passed, reasons = outcomes(gate, {"qwk": few, "auc": none})
    assert not passed and reasons["auc"] == "why" and "19 queries" in reasons["qwk"]
    ranked = difference(0, 0, 0) | {"n_eligible": 3}  # of 100 queries three have titles to order
    passed, reasons = outcomes(read_gate(gate_of("[metrics]\npnr = 1")), {"pnr": ranked})
    assert not passed and "3 queries" in reasons["pnr"]


def test_a_gate_says_how_many_queries_exclude_a_loss_that_none_shows(gate_of):
    gate = read_gate(gate_of("[metrics]\nmap = 0.02"))
    _, reasons = outcomes(gate, {"map": difference(0.0, -0.06, 0.06)})
    assert "183 queries without a difference exclude 0.02" in reasons["map"]


def test_a_slice_has_rules_of_its_own(gate_of):
    gate = read_gate(gate_of("[slices.field.law]\nqwk = 0.1\n[slices.field.pets]\nqwk = 0.01"))
    slices = {"field": {v: {"qwk": difference(-0.01, -0.05, 0.05)} for v in ("law", "pets")}}
    passed, reasons = outcomes(gate, {}, slices)
    assert reasons == {"qwk, field law": None, "qwk, field pets": "B may be worse by 0.050"}
    assert not passed


def test_an_unknown_slice_is_refused(gate_of):
    gate = read_gate(gate_of("[slices.field.law]\nqwk = 0.1"))
    with pytest.raises(ArgumentError, match="'law'.*pets"):
        outcomes(gate, {}, {"field": {"pets": {}}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "\\[metrics\\]"),
        ("[metric]\nqwk = 1", "'metric'"),
        ("[metrics]\nqwq = 1", "'qwq'"),
        ("[metrics]\nbias = 1", "'bias'"),
        ("[metrics]\nqwk = -1", "from 0 on"),
        ("[metrics]\nqwk = true", "'qwk'.*number"),
        ("[metrics]\nqwk = nan", "'qwk'.*number"),
        ("metrics = 3", "metrics: expected"),
        ("[slices]\nfield = 3", "'field'.*expected"),
        ("behaviours = ['logic']", "'logic'.*negation"),
        ("[slices.field.law]\nauc = 1", "slices 'auc'"),
        ("[agreement]\nfirst = 0.1", "no measure 'first'"),
        ("[metrics", "gate.toml"),
        ("metrics = " + "[" * 9_999, "gate.toml"),
    ],
)
def test_an_invalid_gate_is_refused(gate_of, text, message):
    with pytest.raises(ArgumentError, match=message):
        read_gate(gate_of(text))


@pytest.mark.parametrize("labels", [5, 1])
def test_two_models_through_a_gate(checkpoint_of, pair_file, gate_of, labels):
    gate = gate_of("behaviours = ['number', 'negation']\n[metrics]\nndcg_at_5 = 0.0")
    a, b = (qt_bert.load(checkpoint_of(labels=labels, seed=seed)) for seed in (0, 1))
    rules = a.compare(a, pair_file, gate=gate)["gate"]["rules"]
    assert [rule["change"] for rule in rules] == [0, 0, 0] and rules[0]["reason"]  # few queries
    assert [rule["reason"] for rule in rules[1:]] == [None, None]
    # In the other direction every change has the other sign.
    there, back = (x.compare(y, pair_file, gate=gate)["gate"]["rules"] for x, y in ((a, b), (b, a)))
    changes = [rule["change"] for rule in there]
    assert changes == [-rule["change"] for rule in back]
    assert labels == 5 or any(changes[1:])  # five logits of so small a model stay within the band
    assert [rule["reason"] is None for rule in there[1:]] == [change >= 0 for change in changes[1:]]


def test_a_slices_rule_of_a_file_that_is_not_compared_is_refused_first(gate_of):
    gate = gate_of("[slices.field.law]\nmoved_two = 0.1")
    with pytest.raises(ArgumentError, match="moved_two needs --unlabelled"):
        read_gate(gate, True, False)
    read_gate(gate)
