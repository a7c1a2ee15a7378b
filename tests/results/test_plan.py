import json

import pytest

from qt_bert.errors import RunFolderError
from qt_bert.results.plan import MetricChange, Plan, PlanTest
from tests.results.made_plan import PAIRS, plan


@pytest.mark.parametrize("original", [plan(), plan(2, 4, cost=None)])
def test_a_plan_comes_back_as_it_was(tmp_path, original):
    original.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == original


@pytest.fixture
def without(tmp_path):
    """The path of a stored plan without these keys."""

    def write(*keys):
        path = tmp_path / "plan.json"
        plan(2, 4).write(path)
        stored = json.loads(path.read_text())
        path.write_text(json.dumps({key: stored[key] for key in stored if key not in keys}))
        return path

    return write


def test_a_plan_made_by_hand_needs_no_evidence(without):
    stored = Plan.read(without("evidence", "units"))
    assert (stored.evidence, stored.units) == (None, {})


def test_a_plan_that_puts_means_in_place_of_heads_is_refused(without):
    """As an earlier version made them: with zeros it would be another model."""
    path = without()
    stored = json.loads(path.read_text()) | {"replacement": "mean"}
    path.write_text(json.dumps(stored))
    with pytest.raises(RunFolderError, match="replacement"):
        Plan.read(path)


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
    change = MetricChange(base=0.7, value=0.69, change=-0.01, ci_low=low, ci_high=high)
    test = PlanTest(role="validation", pairs=PAIRS, coarse=False, measured={"spearman": change})
    assert test.verdict == verdict
