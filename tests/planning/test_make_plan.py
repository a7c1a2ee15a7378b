"""A whole plan, on random models of two or three small layers."""

from unittest.mock import Mock

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.figures import Curve, HeatMap
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.budgets import parse_budget
from qt_bert.planning.make_plan import make_plan
from qt_bert.planning.prune import lost_heads, prune, removed_from
from qt_bert.planning.runs import changes
from qt_bert.planning.task import QUICK, Functions, PlanTask
from qt_bert.results.plan import Plan
from qt_bert.scoring.bulk import Scorer
from tests.planning.made_pairs import sample

HALF = parse_budget("heads=0.5")


@pytest.fixture
def task(checkpoint_of, tmp_path):
    """`task(layers=3)`: the model and pairs of a plan."""

    def build(*, functions=None, **shape):
        opened = open_checkpoint(checkpoint_of(**shape))
        one_logit = opened.settings.labels.logits == 1
        return PlanTask(
            scorer=Scorer(opened),
            discovery=sample("dev.tsv", 24, 1),
            validation=sample("test.tsv", 24, 2),
            held_out=() if one_logit else (sample("coarse.tsv", 16, 3, ((1, 2), (3, 4), (5,))),),
            work=tmp_path / "work",
            functions=functions or Functions("none"),
            effort=QUICK,
            resamples=40,
        )

    return build


def test_heads_go_and_everything_is_known_of_it(task, tmp_path):
    sets = {"matching": ("L0H0", "L0H1", "L1H0", "L1H1", "L2H0", "L2H1")}
    asked = task(layers=3, functions=Functions("run", sets))
    made = make_plan(asked, HALF)
    assert sum(len(layer.heads) for layer in made.kept) == 3 and len(made.kept) == 3
    evidence = made.evidence
    rows = [f"{row.of}={row.kept}" for row in evidence.grid]
    assert rows == ["heads=5", "heads=4", "heads=3", "heads=2", "layers=2", "layers=1"]
    assert all("spearman" in row.measured for row in evidence.grid)
    assert evidence.cost <= 4
    assert [test.coarse for test in evidence.tests] == [False, True]
    risk = evidence.at_risk[0]
    assert len(risk.lost) == 3 and risk.measured is not None
    assert [type(figure) for figure in evidence.figures] == [Curve, Curve, HeatMap]
    made.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == made
    assert set(evidence.effects) == {f"L{layer}H{head}" for layer in range(3) for head in range(2)}
    _is_tested_as_masked(asked, made)


def test_heads_that_share_a_key_go_or_stay_together(task, tmp_path):
    asked = task(family="qwen3", layers=2, heads=4, num_key_value_heads=2)
    made = make_plan(asked, HALF)
    for layer in made.kept:
        assert {head // 2 for head in layer.heads} == {head // 2 for head in layer.heads[::2]}
        assert len(layer.heads) % 2 == 0
    counts = [row.kept for row in made.evidence.grid if row.of == "heads"]
    assert counts == [6, 4, 2]
    saved = prune(asked.scorer.checkpoint, made, asked.discovery.pairs, tmp_path / "small")
    assert saved.parameters[1] == made.evidence.size.parameters
    _is_tested_as_masked(asked, made)


def _is_tested_as_masked(asked, made):
    """The figures of the pruned model are those of the masked one."""
    removals = [removed_from(made.kept, made.teacher)]
    options = {"metrics": asked.metrics, "resamples": 40}
    pairs, folder = asked.validation.pairs, asked.work / "masked"
    [masked] = changes(asked.scorer, pairs, removals, folder, **options)
    tested = made.evidence.tests[0].measured
    for metric in ("spearman", "qwk", "accuracy"):
        assert tested[metric].change == pytest.approx(masked[metric].change, abs=1e-6)
        if metric != "spearman":  # whose interval is that of the claim
            assert tested[metric].ci_low == pytest.approx(masked[metric].ci_low, abs=1e-6)


def test_fewer_heads_than_the_grid_keeps_are_chosen_on_the_same_path(task):
    asked = task(layers=3)
    made = make_plan(asked, parse_budget("heads=1"))
    gone = lost_heads(removed_from(made.kept, made.teacher), made.teacher)
    assert all(gone.issuperset(row.removed) for row in made.evidence.grid if row.of == "heads")
    assert [path.name for path in asked.work.glob("heads-*")] == ["heads-5"]


def test_a_killed_plan_goes_on_and_ends_the_same(task, monkeypatch):
    asked = task()
    killed = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("qt_bert.planning.make_plan.plan_tests", killed)
    with pytest.raises(KeyboardInterrupt):
        make_plan(asked, HALF)
    monkeypatch.undo()
    there = {path: path.stat().st_mtime_ns for path in asked.work.rglob("logits.npy")}
    first = make_plan(task(), HALF)
    assert len(there) > 3
    assert all(path.stat().st_mtime_ns == then for path, then in there.items())
    assert first == make_plan(task(), HALF)


def test_a_model_of_one_layer_has_no_layers_to_choose(task):
    made = make_plan(task(layers=1), parse_budget("heads=1"))
    assert {row.of for row in made.evidence.grid} == {"heads"}
    with pytest.raises(ArgumentError, match="a single layer"):
        make_plan(task(layers=1), parse_budget("layers=1"))


def test_one_head_alone_and_pruned_models_are_refused(task):
    with pytest.raises(ArgumentError, match="nothing to leave out"):
        task(layers=1, heads=1)
