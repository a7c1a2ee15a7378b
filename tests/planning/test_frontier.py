"""The frontier and its trial, on random models of a few small layers."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from scipy.stats import spearmanr

from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning import detail, trial
from qt_bert.planning.frontier import make_frontier, on_frontier
from qt_bert.planning.shapes import candidates, layer_order, plan_for
from qt_bert.planning.task import FULL, QUICK, PlanTask
from qt_bert.planning.trial import TrialOptions
from qt_bert.results.frontier import Frontier, StudentShape, read_plan
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.evaluate import character_overlap
from qt_bert.training.recipes import PairSource
from tests.planning.made_pairs import sample

LEAST = replace(QUICK, widths=FULL.widths, fewer_heads=True, requests=5, bulk=8, engines=0)
WIDTHS = FULL.widths


@pytest.fixture
def task_of(checkpoint_of, tmp_path):
    def build(labels=5, work="work", **shape):
        folder = checkpoint_of(**{"layers": 3, "labels": labels} | shape)
        return PlanTask(
            scorer=Scorer(open_checkpoint(folder)),
            discovery=sample("dev.tsv", 24, 1),
            validation=sample("test.tsv", 24, 2),
            work=tmp_path / work,
            effort=LEAST,
            resamples=40,
        )

    return build


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("layers=4", StudentShape(layers=4)),
        ("layers=4, units=0.5", StudentShape(layers=4, units=0.5)),
        ("layers=2,heads=.5,units=1", StudentShape(layers=2, heads=0.5)),
    ],
)
def test_shapes_are_read_and_written(text, shape):
    assert StudentShape.parse(text) == StudentShape.parse(str(shape)) == shape


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "layers=0",
        "layers=9999999999",
        "layers=4,units=2",
        "units=0.5",
        "layers=4,units=.0",
        "layers=4,units=1,units=1",
    ],
)
def test_other_shapes_are_refused(text):
    with pytest.raises(ArgumentError, match="--shape .* write layers=4"):
        StudentShape.parse(text)


def test_a_shape_stays_where_nothing_as_fast_is_as_good():
    latencies = [1.0, 0.95, 0.5, 0.52, 0.3, 0.29, 0.1]
    values = [0.8, 0.9, 0.7, 0.75, 0.6, 0.7, None]
    # 1 is no tenth faster than 0; 2 no tenth faster than the better 3; 4 slower and worse than 5.
    assert on_frontier(latencies, values) == [0, 3, 5, 6]
    assert len(candidates(24, 12, WIDTHS)) == 36 and candidates(2, 12, WIDTHS, (1.0, 0.5))[
        3
    ] == StudentShape(layers=2, heads=0.5)


def test_a_layer_that_does_nothing_goes_first(task_of):
    task = task_of(labels=1, layers=4)
    model = task.scorer.checkpoint.model
    with torch.no_grad():
        for part in (
            model.bert.encoder.layer[2].attention.output,
            model.bert.encoder.layer[2].output,
        ):
            part.dense.weight.zero_()
            part.dense.bias.zero_()
    task.scorer = Scorer(task.scorer.checkpoint)
    order = layer_order(task)
    assert order[0] == 2 and len(order) == 3
    kept = [layer.layer for layer in plan_for(task, StudentShape(layers=3), order).kept]
    assert kept == [0, 1, 3]


def test_units_and_heads_of_a_shape(task_of):
    task = task_of(family="qwen3", heads=4, num_key_value_heads=2)
    plan = plan_for(task, StudentShape(layers=2, units=0.5, heads=0.5), layer_order(task, 2))
    assert [len(layer.heads) for layer in plan.kept] == [2, 2]
    assert {layer.heads[0] // 2 == layer.heads[1] // 2 for layer in plan.kept} == {True}
    assert {len(units) for units in plan.units.values()} == {task.teacher.units // 2}
    with pytest.raises(ArgumentError, match="has 3 layers"):
        plan_for(task, StudentShape(layers=4), ())


def test_a_frontier_is_measured_stored_and_resumed(task_of, tmp_path):
    frontier = make_frontier(task_of(layers=4))
    first, last = frontier.rows[0], frontier.rows[-1]
    assert first.shape == StudentShape(layers=4) and len(frontier.rows) > 1
    assert last.parameters < first.parameters and last.milliseconds < first.milliseconds
    assert {"spearman", "accuracy", "qwk", "ndcg_at_5"} == set(last.quality)
    change = last.quality["spearman"]
    assert change.ci_low <= change.difference <= change.ci_high
    assert frontier.recommended is None and frontier.vocabulary["saved"] >= 0
    frontier.write(tmp_path / "frontier.json")
    assert Frontier.read(tmp_path / "frontier.json") == frontier == make_frontier(task_of(layers=4))
    plan = read_plan(tmp_path / "frontier.json", str(last.shape))
    assert plan.kept == last.kept and plan.budget.asked == str(last.shape)
    for shape, message in ((None, "give --shape"), ("layers=9", "not on this frontier")):
        with pytest.raises(ArgumentError, match=message):
            read_plan(tmp_path / "frontier.json", shape)


def test_the_teacher_and_one_shape_are_detailed(task_of, monkeypatch, capsys):
    """Also where ONNX is not installed, or its file differs from torch."""
    failing = Mock(side_effect=[ArgumentError("no onnxruntime"), EquivalenceError("x differs")])
    monkeypatch.setattr(detail, "need", failing)
    monkeypatch.setattr(detail, "has_bfloat16", lambda: False)
    task = task_of()
    task.effort = replace(LEAST, engines=4)
    teacher, small = make_frontier(task).details
    assert teacher.shape.layers == 3 and small.trained == 0 and 0 <= small.behaviour <= 1
    settings = [(timing.titles, timing.threads) for timing in small.timings]
    assert settings == [(10, 1), (100, 1), (10, 2), (100, 2)]
    assert all(timing.p50 <= timing.p99 for timing in small.timings)
    assert "x differs; engines are compared without ONNX" in capsys.readouterr().err


def test_the_baseline_is_the_rho_of_shared_characters_also_of_seven_levels(task_of):
    task = task_of(labels=7, layers=1)
    task.validation = sample("test.tsv", 24, 2, [(level,) for level in range(1, 8)])
    pairs = task.validation.pairs
    shared = [character_overlap(pair.query, pair.title) for pair in pairs]
    expected = spearmanr(shared, [pair.grades[0] for pair in pairs]).statistic
    assert make_frontier(task).baseline.value_b == pytest.approx(expected)


# The trial.


@pytest.fixture
def options(pair_file) -> TrialOptions:
    return TrialOptions(steps=2, sources=(PairSource(pair_file),), dev=sample("dev.tsv", 24, 1))


def untimed(frontier: Frontier) -> Frontier:
    return replace(frontier, rows=tuple(replace(row, hours=None) for row in frontier.rows))


def weights(work: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in work.glob("trial/*/model.safetensors")}


def test_a_killed_trial_resumes_to_the_same_bytes(task_of, options, monkeypatch):
    whole = make_frontier(task_of(), options)
    count, run = [0], trial.run_tuning

    def killed(*arguments, **named):
        count[0] += 1
        if count[0] == 2:
            raise KeyboardInterrupt
        return run(*arguments, **named)

    monkeypatch.setattr(trial, "run_tuning", killed)
    work = task_of(work="killed").work
    work.mkdir()
    (work / "measured.json").write_bytes((task_of().work / "measured.json").read_bytes())
    with pytest.raises(KeyboardInterrupt):
        make_frontier(task_of(work="killed"), options)
    again = make_frontier(task_of(work="killed"), options)
    assert untimed(again) == untimed(whole) and weights(work) == weights(task_of().work) != {}
    shapes = whole.rows[1:]
    assert [len(row.trial) for row in shapes].count(2) == min(3, len(shapes))
    assert whole.trial.steps == (2, 8)
    assert all(set(row.forecast) == {"spearman", "accuracy", "qwk"} for row in shapes)
    assert min(row.hours for row in shapes) > 0
    losses = {row.shape: min(change.value for change in row.forecast.values()) for row in shapes}
    safe = [shape for shape, loss in losses.items() if loss >= -0.02]
    assert whole.recommended == (safe[-1] if safe else None)
    assert len([*task_of().work.rglob("teacher-*.f32")]) == 1  # scored once, for all trainings


def test_labels_that_are_not_the_teachers_own_are_refused(task_of, options, checkpoint_of):
    """A student keeps its teacher's qt_bert.json, so that grades of --model-grades would be levels to it."""
    task = task_of()
    folder = checkpoint_of("bert", layers=3, heads=2, labels=3)
    task.scorer = Scorer(open_checkpoint(folder, model_grades="0=1-2,1=3-4,2=5"))
    with pytest.raises(ArgumentError, match="--model-grades does not go"):
        trial.Trainings(task, options)


def test_a_long_file_is_drawn_from(task_of, options, monkeypatch):
    monkeypatch.setattr(trial, "LONGER", 1)
    monkeypatch.setattr(trial, "PAIRS_A_STEP", 2)  # four pairs for two steps
    drawn, listed = trial._pairs_of(task_of(), options)
    every = options.sources[0].read()
    assert (len(drawn.pairs), listed) == (4, len(every)) and len(every) > 4
    assert [pair for pair in every if pair in drawn.pairs] == [*drawn.pairs]


def test_pairs_that_are_judged_on_are_not_trained_on(task_of, options):
    for gap in ("", " "):  # the same queries, then in another spelling
        pairs = [replace(p, query=gap.join(p.query)) for p in options.sources[0].read()]
        same = replace(options, dev=replace(options.dev, pairs=pairs))
        with pytest.raises(ArgumentError, match="5 queries, such as '京东小哥'.* judged on"):
            make_frontier(task_of(), same)
