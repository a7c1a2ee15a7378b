from dataclasses import replace

import pytest

from qt_bert.report.blocks import Prose, Table
from qt_bert.report.page import page
from qt_bert.report.plan import TITLE, plan_section
from qt_bert.report.render import write_csv
from qt_bert.results.plan import Plan
from qt_bert.run.folder import RunFolder
from tests.results.made_plan import plan


def answer_of(plan: Plan) -> str:
    """The English text of the untitled prose."""
    blocks = [block for block in plan_section(plan).blocks if isinstance(block, Prose)]
    (answer,) = [block.body.en for block in blocks if not block.title]
    return answer


def test_the_answer_has_size_latency_change_and_prediction():
    answer = answer_of(plan())
    assert "132 of 144 heads" in answer
    assert "86 % of the parameters, 0.81 times the latency" in answer
    assert "changes by −0.011 [−0.019, −0.003] on validation" in answer
    assert "(expected: −0.012, prediction interval [−0.032, 0.008])" in answer
    assert "within the 0.02" in answer


@pytest.mark.parametrize(("latency", "throughput", "faster"), [(0.97, 1.02, False), (0.9, 1, True)])
def test_a_plan_that_is_no_faster_is_not_recommended(latency, throughput, faster):
    full = plan()
    speed = replace(
        full.evidence.speed,
        latency=replace(full.evidence.speed.latency, value=latency),
        throughput=replace(full.evidence.speed.throughput, value=throughput),
    )
    answer = answer_of(replace(full, evidence=replace(full.evidence, speed=speed)))
    assert ("not faster" not in answer) == faster


@pytest.mark.parametrize(("latency", "over"), [(0.8, True), (0.82, False)])
def test_a_latency_over_the_budget_is_named(latency, over):
    budget = replace(plan().budget, kind_of="latency", value=latency, asked=f"latency={latency}")
    assert ("over the budget" in answer_of(replace(plan(), budget=budget))) == over


def test_the_layer_map_names_the_heads_that_stay():
    tables = [block for block in plan_section(plan(2, 3)).blocks if isinstance(block, Table)]
    (layers,) = [table for table in tables if table.name == "plan_layer_map"]
    assert layers.rows == (("L0", "L0", "L0", 2, "H1 H2", 768), ("L1", "L1", "L1", 2, "H1 H2", 768))


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
    full = plan(2, 4)
    least = replace(
        full.evidence, speed=None, expected={}, cost=None, effects={}, grid=(), tests=(),
        functions="none", at_risk=(), figures=(),
    )  # fmt: skip
    assert "there is no test" in answer_of(replace(full, evidence=least))
    section = plan_section(replace(full, evidence=None))
    assert "plan_layer_map" in page(RunFolder.read(run).record, (), [section])
