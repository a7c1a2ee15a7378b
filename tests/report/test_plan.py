"""The plan's section: what it says, for plans of any shape, and in a page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qt_bert.report.blocks import Block, Prose, Table
from qt_bert.report.page import page
from qt_bert.report.plan import TITLE, plan_section
from qt_bert.report.render import write_csv
from qt_bert.results.plan import Plan
from qt_bert.run.folder import RunFolder
from tests.results.made_plan import plan


def blocks(made: Plan) -> dict[str, Block]:
    """Tables by their names, prose by its English title."""
    found = {}
    for block in plan_section(made).blocks:
        if isinstance(block, Table):
            found[block.name] = block
        elif isinstance(block, Prose):
            found[block.title.en if block.title else "answer"] = block
    return found


def said(made, name: str = "answer") -> str:
    return blocks(made)[name].body.en


def test_the_answer_says_what_stays_what_it_saves_and_what_it_costs():
    answer = said(plan())
    assert "132 of 144 heads" in answer
    assert "86 % of the parameters, 0.81 times the latency" in answer
    assert "changes by −0.011 [−0.019, −0.003] on validation" in answer
    assert "(expected: −0.012, prediction interval [−0.032, 0.008])" in answer
    assert "within the 0.02" in answer


def test_a_latency_over_the_budget_is_said():
    made = plan()
    asked = replace(made.budget, kind_of="latency", value=0.8, asked="latency=0.8")
    assert "over the budget" in said(replace(made, budget=asked))
    assert "over the budget" not in said(replace(made, budget=replace(asked, value=0.82)))


def test_the_layer_map_names_the_heads_that_stay():
    assert blocks(plan(2, 3))["plan_layer_map"].rows == (
        ("L0", "L0", "L0", 2, "H1 H2", 768),
        ("L1", "L1", "L1", 2, "H1 H2", 768),
    )


@pytest.mark.parametrize("shape", [(12, 12), (2, 4), (1, 2)])
def test_a_plan_of_any_shape_is_drawn_with_its_texts_escaped(run, tmp_path, shape):
    section = plan_section(plan(*shape))
    html = page(RunFolder.read(run).record, (), [section])
    assert TITLE.zh in html and "qbqtc &lt;b&gt;.jsonl" in html
    assert "qbqtc <b>" not in html
    for block in section.blocks:
        if isinstance(block, Table):
            write_csv(block, tmp_path / f"{block.name}.csv")


def test_a_plan_with_little_known_is_drawn(run):
    made = plan(2, 4)
    least = replace(
        made.evidence, speed=None, expected={}, cost=None, effects={}, grid=(), tests=(),
        functions="none", at_risk=(), figures=(),
    )  # fmt: skip
    assert "there is no test" in said(replace(made, evidence=least))
    section = plan_section(replace(made, evidence=None))
    assert "plan_layer_map" in page(RunFolder.read(run).record, (), [section])
