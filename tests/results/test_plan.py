"""`plan.json` and `arms.json`: what comes back, what is refused, and the verdicts that are read off."""

import json

import pytest

from qt_bert.errors import RunFolderError
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import GridRow, MetricChange, Plan, PlanTest, Size, layer_map
from tests.results.made_plan import PAIRS, expected, measured, plan


@pytest.mark.parametrize("made", [plan(), plan(2, 4, speed=None)])
def test_a_plan_comes_back_as_it_was(tmp_path, made):
    made.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == made


def test_a_plan_made_by_hand_needs_no_evidence(tmp_path):
    path = tmp_path / "plan.json"
    plan(2, 4).write(path)
    without = ("evidence", "units")
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in stored.items() if k not in without}))
    found = Plan.read(path)
    assert (found.evidence, found.units) == (None, {})


@pytest.mark.parametrize("key", ["teacher", "budget", "replacement", "kept", "layer_map"])
def test_a_missing_key_is_named(tmp_path, key):
    path = tmp_path / "plan.json"
    plan(2, 4).write(path)
    stored = json.loads(path.read_text())
    del stored[key]
    path.write_text(json.dumps(stored))
    with pytest.raises(RunFolderError, match=key):
        Plan.read(path)


def test_a_layer_imitates_the_one_before_the_next_that_stays():
    kept = tuple(KeptLayer(layer=layer, heads=(0,)) for layer in (0, 3, 7))
    assert [(m.student, m.starts_as, m.imitates) for m in layer_map(kept, 12)] == [
        (0, 0, 2),
        (1, 3, 6),
        (2, 7, 11),
    ]


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.019, 0.01, "non-inferior"),
        (-0.02, 0.01, "undecided"),
        (-0.05, -0.021, "inferior"),
        (None, None, None),
    ],
)
def test_the_verdict_is_that_of_the_interval(low, high, verdict):
    one = MetricChange(base=0.7, value=0.69, change=-0.01, ci_low=low, ci_high=high)
    test = PlanTest(role="validation", pairs=PAIRS, coarse=False, measured={"spearman": one})
    assert test.verdict == verdict


@pytest.mark.parametrize(
    ("change", "inside"), [(-0.032, True), (0.008, True), (-0.0321, False), (0.0081, False)]
)
def test_inside_is_within_the_prediction_interval(change, inside):
    row = GridRow(
        of="heads",
        kept=3,
        share=0.75,
        removed=("L0H0",),
        size=Size(parameters=1, share=1.0, stored=2),
        expected={"spearman": expected(-0.012, 0.02)},
        measured={"spearman": measured(change)},
    )
    assert row.inside() is inside
    assert row.inside("qwk") is None
