from dataclasses import replace

import pytest

from qt_bert.planning.frontier import frontier_curve
from qt_bert.report.blocks import Block, Folded, Prose, Section, Table
from qt_bert.report.frontier import TITLE, next_commands, recommendation, smaller_section
from qt_bert.report.page import page
from qt_bert.report.plan import plan_blocks
from qt_bert.report.render import write_csv
from qt_bert.results.frontier import Forecast, StudentShape
from qt_bert.results.plan import Plan, Ratio
from qt_bert.run.folder import RunFolder
from tests.results.made_plan import frontier, plan


def answer_of(plan: Plan) -> str:
    """The English text of the untitled prose."""
    blocks = [block for block in plan_blocks(plan) if isinstance(block, Prose)]
    (answer,) = [block.body.en for block in blocks if not block.title]
    return answer


def section_of(frontier, plan) -> Section:
    return smaller_section(frontier, plan, "runs/plan/frontier.json")


def tables(blocks: tuple[Block, ...]) -> dict[str, Table]:
    inner = [
        b for block in blocks for b in (block.blocks if isinstance(block, Folded) else [block])
    ]
    return {block.name: block for block in inner if isinstance(block, Table)}


def test_the_answer_has_size_and_change():
    answer = answer_of(plan())
    assert "132 of 144 heads" in answer and "86 % of the parameters" in answer
    assert "changes by −0.011 [−0.019, −0.003] on validation" in answer
    assert "the loss of ρ is within the 0.02" in answer


def test_a_forecast_recommends_a_shape_and_its_commands():
    made = frontier()
    words = recommendation(made).en
    assert "layers=4,units=0.5" in words and "3.0 times" in words and "1.5 hours" in words
    assert "−0.010 [−0.040, 0.020]" in words
    assert "intervals reach beyond" in words
    commands = [text.en.split("\n")[1].split()[1] for text in next_commands(made, "f.json")]
    assert commands == ["export", "prune", "distill", "export", "compare"]
    assert "on the 160 queries of" in words and "600" not in words
    short = replace(made, trial=replace(made.trial, steps=(20, 80)))
    assert "80 steps; forecasts were tested on 600 only" in recommendation(short).en
    untried = frontier(trial=False)
    assert "--pairs-to-train" in recommendation(untried).zh
    assert "--plan 'my runs/f.json' --shape" in [*next_commands(made, "my runs/f.json")][1].en
    _, first, make, *_ = next_commands(untried, "f.json")
    assert "qt-bert plan" in first.en and "runs/trial/frontier.json --shape SHAPE" in make.zh
    assert "0.02" in recommendation(replace(made, recommended=None)).en


@pytest.mark.parametrize(
    ("low", "trials", "is_safer"), [(-0.05, 2, False), (-0.03, 1, False), (-0.03, 2, True)]
)
def test_a_slower_shape_is_called_safer_only_by_its_forecast(low, trials, is_safer):
    made = frontier()
    teacher, small = made.rows
    slower = replace(
        small,
        shape=StudentShape(layers=6),
        latency=Ratio(value=0.5, low=None, high=None),
        trial=small.trial * trials,
        forecast={"spearman": Forecast(value=-0.01, low=low, high=0.02)},
    )
    words = recommendation(replace(made, rows=(teacher, slower, small))).en
    assert ("layers=6" in words) == is_safer


def test_shapes_and_engines_have_a_row_each():
    shown = tables(section_of(frontier(), plan()).blocks)
    assert {"plan_frontier", "plan_engines", "plan_grid"} <= set(shown)
    (_, row), engines = shown["plan_frontier"].rows, shown["plan_engines"].rows
    names = [column.name for column in shown["plan_frontier"].columns]
    cells = dict(zip(names, row, strict=True))
    assert (cells["millions"], cells["disk"], cells["memory"]) == (4, 8, 16)
    assert cells["spearman"].low == pytest.approx(0.8 - 0.31)
    assert cells["after_spearman"].value == -0.01 and cells["trial"] == 150
    assert cells["tried_spearman"] == -0.1
    assert engines[-1] == ("layers=4,units=0.5", "ONNX int8", "1.5 / 9.0 (4.0×)")
    without = tables(section_of(frontier(trial=False, details=()), None).blocks)
    assert list(without) == ["plan_frontier"]


def test_the_curve_has_the_shapes_forecast_teacher_and_baseline():
    curve = frontier_curve(frontier())
    assert [len(series.points) for series in curve.series] == [2, 1, 1, 1]
    point = curve.series[1].points[0]
    assert (point.y, point.low, point.high) == pytest.approx((0.79, 0.76, 0.82))


@pytest.mark.parametrize("shape", [(12, 12), (2, 4), (1, 2)])
def test_a_plan_of_any_shape_is_drawn_with_its_texts_escaped(run, tmp_path, shape):
    made = replace(frontier(), figures=(frontier_curve(frontier()),))
    section = section_of(made, plan(*shape))
    html = page(RunFolder.read(run).record, (), [section])
    assert TITLE.zh in html and "qbqtc &lt;b&gt;.jsonl" in html
    assert "qbqtc <b>" not in html
    for table in tables(section.blocks).values():
        write_csv(table, tmp_path / f"{table.name}.csv")


def test_a_plan_with_little_known_is_drawn():
    full = plan(2, 4)
    least = replace(
        full.evidence,
        cost=None,
        effects={},
        grid=(),
        tests=(),
        functions="none",
        at_risk=(),
        figures=(),
    )
    assert "there is no test" in answer_of(replace(full, evidence=least))
    assert section_of(None, replace(full, evidence=None)) is None
