"""The plan's section: what it says, for plans of any shape, alone and in a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qt_bert.report.blocks import Drawn, Prose, Section, Table
from qt_bert.report.page import page
from qt_bert.report.plan import TITLE, plan_blocks
from qt_bert.report.render import write_csv
from qt_bert.results.plan import PlanTest
from qt_bert.run.folder import RunFolder
from tests.results.made_plan import PAIRS, measured, plan


def prose(made):
    return [block.body for block in plan_blocks(made) if isinstance(block, Prose)]


def table(made, name):
    return next(b for b in plan_blocks(made) if isinstance(b, Table) and b.name == name)


def drawn(made, run):
    section = Section(name="plan", order=0, title=TITLE, build=lambda _: plan_blocks(made))
    return page(RunFolder.read(run).record, (), [Drawn(section, plan_blocks(made))])


def test_the_answer_says_what_stays_what_it_saves_and_what_it_costs():
    answer = prose(plan())[0]
    assert "132 of 144 heads" in answer.en and "144 个头中的 132 个" in answer.zh
    assert "86 % of the parameters, 0.81 times the latency" in answer.en
    assert "changes by −0.011 [−0.019, −0.003] on validation" in answer.en
    assert "loses no more than the 0.02" in answer.en and "不超过事先定下的界限" in answer.zh


@pytest.mark.parametrize(
    ("change", "said"), [(-0.015, "cannot tell"), (-0.2, "loses more than the 0.02")]
)
def test_the_answer_follows_the_verdict(change, said):
    one = PlanTest(
        role="validation", pairs=PAIRS, coarse=False, measured={"spearman": measured(change)}
    )
    assert said in prose(plan(tests=(one,)))[0].en


def test_a_latency_over_the_budget_is_said():
    made = plan()
    asked = replace(made.budget, kind_of="latency", value=0.8, asked="latency=0.8")
    assert "over the budget" in prose(replace(made, budget=asked))[0].en
    assert "over the budget" not in prose(replace(made, budget=replace(asked, value=0.82)))[0].en


def test_what_was_measured_on_a_sample_says_so():
    sampled = replace(PAIRS, n_pairs=96, n_queries=90)
    for name in ("plan_grid", "plan_rivals", "plan_at_risk"):
        note = table(plan(sampled=sampled), name).note
        assert "96 pairs of validation (90 queries)" in note.en and "96 对" in note.zh
        assert "96 pairs" not in table(plan(sampled=PAIRS), name).note.en


def test_the_tests_say_which_change_could_be_seen_and_what_one_logit_means():
    note = table(plan(), "plan_tests").note.en
    assert "must exceed about 0.008" in note and "one output" not in note
    found = {"spearman": measured(), "pairwise_accuracy": measured()}
    one = PlanTest(role="validation", pairs=PAIRS, coarse=False, measured=found)
    assert "one output" in table(plan(tests=(one,)), "plan_tests").note.en


def test_budgets_outside_of_what_was_predicted_are_named():
    found = next(body for body in prose(plan()) if "came out inside" in body.en)
    assert found.en == (
        "2 of 3 budgets came out inside the prediction interval; outside: 1 layer kept."
    )


def test_each_metric_of_each_file_has_a_row_and_one_verdict_a_file():
    rows = table(plan(), "plan_tests").rows
    assert [row[1].en for row in rows] == ["Spearman's ρ", "QWK (weighted κ)", "Spearman's ρ"]
    assert [row[5].tone if row[5] else None for row in rows] == ["good", None, "bad"]
    assert "coarse labels" in rows[2][0].en


def test_functions_show_how_many_of_their_heads_go():
    rows = table(plan(), "plan_at_risk").rows
    assert [(row[2], row[3], row[5]) for row in rows] == [(1, 2, "L0H0"), (0, 1, None)]


def test_a_model_that_nobody_studied_says_so():
    made = plan(functions="none", at_risk=())
    assert any("were not studied" in body.en for body in prose(made))


def test_quick_figures_say_so():
    assert "quick profile" in prose(plan())[-1].en
    assert "quick profile" not in prose(plan(profile="full"))[-1].en


def test_the_layer_map_names_the_heads_that_stay():
    rows = table(plan(2, 3), "plan_layer_map").rows
    assert rows == (
        ("L0", "L0", "L0", 2, "H1 H2", 768),
        ("L1", "L1", "L1", 2, "H1 H2", 768),
    )


@pytest.mark.parametrize("shape", [(12, 12), (2, 4), (1, 2)])
def test_a_plan_of_any_shape_is_drawn_with_its_texts_escaped(run, tmp_path, shape):
    made = plan(*shape)
    html = drawn(made, run)
    assert "qbqtc &lt;b&gt;.jsonl" in html and "qbqtc <b>" not in html
    for block in plan_blocks(made):
        if isinstance(block, Table):
            write_csv(block, tmp_path / f"{block.name}.csv")


def test_a_plan_with_little_known_is_drawn(run):
    made = plan(2, 4)
    least = replace(
        made.evidence, speed=None, expected={}, cost=None, effects={}, layers=(), grid=(), tests=(),
        functions="none", at_risk=(), figures=(),
    )  # fmt: skip
    assert "nothing was tested" in drawn(replace(made, evidence=least), run)
    assert "plan_layer_map" in drawn(replace(made, evidence=None), run)
