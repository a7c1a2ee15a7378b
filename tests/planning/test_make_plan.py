"""A whole plan, on random models of two or three small layers."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.figures import Curve, HeatMap
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning import speeds
from qt_bert.planning.budgets import parse_budget
from qt_bert.planning.choice import choose, requested_forms
from qt_bert.planning.make_plan import make_plan
from qt_bert.planning.prune import prune, removed_from
from qt_bert.planning.runs import changes
from qt_bert.planning.task import QUICK, Functions, PlanTask
from qt_bert.results.plan import Plan, Ratio, Speed
from qt_bert.scoring.bulk import Scorer
from tests.planning.made_pairs import sample


@pytest.fixture
def task(checkpoint_of, tmp_path):
    """`task("heads=0.5", layers=3)`: a small plan to make."""

    def build(budget, *, functions=None, **shape):
        opened = open_checkpoint(checkpoint_of(**shape))
        one_logit = opened.settings.labels.logits == 1
        return PlanTask(
            scorer=Scorer(opened),
            budget=parse_budget(budget),
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
    asked = task("heads=0.5", layers=3, functions=Functions("run", sets))
    made = make_plan(asked)
    assert sum(len(layer.heads) for layer in made.kept) == 3 and len(made.kept) == 3
    evidence = made.evidence
    rows = [f"{row.of}={row.kept}" for row in evidence.grid]
    assert rows == ["heads=5", "heads=4", "heads=3", "heads=2", "layers=2", "layers=1"]
    assert all(row.inside() is not None and row.speed is not None for row in evidence.grid)
    assert {"spearman", "qwk", "accuracy"} == set(evidence.expected)
    assert len(evidence.effects) == 6 and evidence.cost <= 4
    assert [test.coarse for test in evidence.tests] == [False, True]
    risk = evidence.at_risk[0]
    assert len(risk.lost) == 3 and risk.measured is not None
    assert [type(figure) for figure in evidence.figures] == [Curve, Curve, HeatMap]
    made.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == made
    assert set(evidence.effects) == {f"L{layer}H{head}" for layer in range(3) for head in range(2)}
    _is_tested_as_masked(asked, made)


@pytest.mark.parametrize("budget", ["heads=0.5", "params=0.8"])
def test_heads_that_share_a_key_go_or_stay_together(task, tmp_path, budget):
    asked = task(budget, family="qwen3", layers=2, heads=4, num_key_value_heads=2)
    made = make_plan(asked)
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
    options = {"mask": asked.mask, "metrics": asked.metrics, "resamples": 40}
    [masked] = changes(asked.scorer, asked.validation.pairs, removals, **options)
    tested = made.evidence.tests[0].measured
    for metric in ("spearman", "qwk", "accuracy"):
        assert tested[metric].change == pytest.approx(masked[metric].change.change, abs=1e-6)
        if metric != "spearman":  # whose interval is that of the claim
            assert tested[metric].ci_low == pytest.approx(masked[metric].change.ci_low, abs=1e-6)


def test_the_plan_is_predicted_for_all_of_validation_and_the_grid_for_its_sample(task):
    asked = task("heads=0.5")
    asked.effort = replace(QUICK, measuring=4)
    made = make_plan(asked).evidence
    assert made.sampled.n_queries == 4 and made.validation.n_queries == 12
    [same] = [row for row in made.grid if row.of == "heads" and row.kept == 2]
    whole, sampled = made.expected["spearman"], same.expected["spearman"]
    assert whole.value == sampled.value and whole.ci_low == sampled.ci_low
    assert whole.pi_high - whole.pi_low < sampled.pi_high - sampled.pi_low


def test_of_one_logit_the_shape_that_changes_the_score_least_is_taken(task):
    asked = task("params=0.9", labels=1, layers=3)
    forms = requested_forms(asked, None)
    choices = [choose(asked, (form,), asked.discovery.pairs) for form in forms]
    texts = asked.discovery.texts
    whole = asked.scorer.logits(texts)
    pruned = [asked.pruned(choice.kept, choice.units).logits(texts) for choice in choices]
    assert len(choices) == 2
    best = int(np.argmin([np.square(logits - whole).mean() for logits in pruned]))
    assert choose(asked, forms, asked.discovery.pairs) == choices[best]


def test_parameters_are_met_and_named_units_stay(task):
    asked = task("params=0.8", layers=3)
    made = make_plan(asked)
    assert made.evidence.size.share <= 0.8
    units = {int(layer): units for layer, units in made.units.items()} or None
    pruned = asked.pruned(made.kept, units)
    assert pruned.checkpoint.parameters == made.evidence.size.parameters
    if made.units:
        assert {len(units) for units in made.units.values()} == {made.kept[0].units}
    assert made.evidence.expected["spearman"].pi_low is not None


def test_latency_is_met_by_shapes_that_were_measured(task, monkeypatch):
    def fake(teacher, smaller, texts, *, alone, seed=0):
        layers = smaller.encoder.layers
        assert all(layer.down_norm.weight.numel() for layer in layers)
        value = 0.1 + 0.3 * len(layers)
        ratio = Ratio(value=value, low=value, high=value)
        return Speed(latency=ratio, throughput=ratio, teacher_ms=1.0, pairs=1)

    monkeypatch.setattr(speeds, "measure_speed", fake)
    made = make_plan(task("latency=0.71", layers=3))
    assert len(made.kept) == 2 and made.evidence.speed.latency.value == pytest.approx(0.7)


def test_a_killed_plan_goes_on_and_ends_the_same(task, monkeypatch):
    asked = task("heads=0.5")
    killed = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("qt_bert.planning.make_plan.plan_tests", killed)
    with pytest.raises(KeyboardInterrupt):
        make_plan(asked)
    monkeypatch.undo()
    there = {path: path.stat().st_mtime_ns for path in asked.work.rglob("logits.npy")}
    stored = (asked.work / "speeds.json").read_text()
    first = make_plan(task("heads=0.5"))
    assert len(there) > 5
    assert all(path.stat().st_mtime_ns == then for path, then in there.items())
    assert (asked.work / "speeds.json").read_text() == stored
    assert first == make_plan(task("heads=0.5"))


def test_means_stand_in_for_heads(task):
    asked = task("heads=0.5")
    asked.replacement = "mean"
    made = make_plan(asked)
    assert made.replacement == "mean"
    assert made.evidence.settings["means_sha256"] == asked.means.sha256
    _is_tested_as_masked(asked, made)


def test_a_model_of_one_layer_has_no_layers_to_choose(task):
    made = make_plan(task("heads=1", layers=1))
    assert {row.of for row in made.evidence.grid} == {"heads"}
    with pytest.raises(ArgumentError, match="a single layer"):
        make_plan(task("layers=1", layers=1))


def test_one_head_alone_and_pruned_models_are_refused(task):
    with pytest.raises(ArgumentError, match="nothing to leave out"):
        task("heads=1", layers=1, heads=1)


def test_bfloat16_takes_gradients_in_float32(task, checkpoint_of):
    asked = task("params=0.9", layers=2)
    scorer = Scorer(open_checkpoint(checkpoint_of(layers=2), dtype="bfloat16"))
    short, exact = replace(asked, scorer=scorer), scorer.exact().checkpoint
    assert exact.dtype == "float32" and asked.scorer.exact() is asked.scorer
    made = make_plan(short)
    assert made.evidence.dtype == "bfloat16" and made.evidence.size.share <= 0.9
