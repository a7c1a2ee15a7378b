from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qt_bert.figures import Curve, HeatMap
from qt_bert.report.blocks import Block, Examples, FigureBlock, Table
from qt_bert.report.evaluation import evaluation_section, summary_cards
from qt_bert.report.render import render
from qt_bert.report.stored import Stored
from qt_bert.run.folder import RunFolder
from qt_bert.text import Text


def build(path: Path) -> Sequence[Block]:
    return evaluation_section(Stored(RunFolder.read(path))).blocks


def table(blocks: Sequence[Block], name: str) -> Table:
    return next(block for block in blocks if isinstance(block, Table) and block.name == name)


def figures(blocks: Sequence[Block]) -> dict[str, Any]:
    return {block.figure.name: block.figure for block in blocks if isinstance(block, FigureBlock)}


def test_confusion_is_drawn_as_shares_of_its_rows(evaluation, build_run):
    evaluation["confusion"][2] = [0, 0, 0, 0, 0]
    figure = figures(build(build_run(evaluation)))["confusion"]
    assert isinstance(figure, HeatMap) and figure.values[2] == (None,) * 5
    assert figure.values[0] == pytest.approx((70.0, 23.75, 5.0, 1.25, 0.0))
    assert figure.annotations[0][0] == "(112)"


def test_metrics_are_grouped_and_none_is_lost(evaluation, build_run):
    evaluation["metrics"]["of_a_plugin"] = dict(evaluation["metrics"]["auc"])
    rows = table(build(build_run(evaluation)), "metrics").rows
    assert {row[1] for row in rows} == set(evaluation["metrics"])
    groups = list(dict.fromkeys(row[0].en for row in rows if isinstance(row[0], Text)))
    assert groups == ["Classes", "Ordered grades", "Ranking", "Calibration", "Other"]


def test_an_example_names_its_terms_and_heads(evaluation, build_run):
    changes = {"油渍": -1.25, "怎么": 0.2, "的": 0.001, "<b>": -0.4, "衣服": 0.1, "洗掉": -0.3}
    terms = [
        {"side": "title", "term": term, "change": change, "moved": abs(change) >= 0.005}
        for term, change in changes.items()
    ]
    heads = [{"head": "L3H7", "share": 0.412}, {"head": "L10H2", "share": 0.2}]
    evaluation["examples"][0]["reason"] = {
        "filler": "[MASK]", "terms": terms, "told_by": 0, "carried_by": heads,
    }  # fmt: skip
    evaluation["examples"][1]["reason"] = {"filler": "[MASK]", "terms": terms[2:3]}
    run = build_run(evaluation)
    shown = next(block for block in build(run) if isinstance(block, Examples))
    first, second, third = shown.examples[:3]
    assert [(term, change) for term, _, change in first.moved_by] == [
        ("油渍", -1.25), ("<b>", -0.4), ("洗掉", -0.3), ("怎么", 0.2),
    ]  # fmt: skip
    assert first.carried_by == Text(
        "换回后最能抵消“油渍”影响的头：L3H7 41%、L10H2 20%",
        "heads that restore “油渍”: L3H7 41%, L10H2 20%",
    )
    assert (second.moved_by, second.carried_by) == (third.moved_by, third.carried_by) == ((), None)
    assert "[MASK]" in shown.note.en and "was patched in alone" in shown.note.en
    render(run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "<b>−1.25</b>" in page and "&lt;b&gt;" in page


def test_empty_bins_are_left_out_of_the_reliability_curve(run):
    figure = figures(build(run))["reliability"]
    assert isinstance(figure, Curve)
    assert [point.n for point in figure.series[0].points] == [40 + 20 * i for i in range(8)]


def test_a_slice_never_names_a_file_after_its_column(evaluation, build_run):
    for pair, grade in zip(evaluation["errors"], (2.5, "0"), strict=False):
        pair["grade"] = grade  # a label may be a number or a word
    evaluation["slices"] = {"../../field": evaluation["slices"]["field"]}
    del evaluation["metrics"]["qwk"]
    run = build_run(evaluation)
    blocks = build(run)
    assert [row[3] for row in table(blocks, "errors").rows[:3]] == ["2.5", "0", "2"]
    rows = table(blocks, "slice_1").rows
    assert [row[0] for row in rows][:2] == ["医疗", "旅游"] and rows[0][1] == 40
    assert len(summary_cards(Stored(RunFolder.read(run)))) == 3  # without what was not measured


def test_a_model_of_one_score_draws_what_it_has(evaluation, build_run):
    evaluation |= {"confusion": None, "per_grade": None, "reliability": None, "pnr_counts": None}
    evaluation |= {"slices": {}, "levels": []}
    for name in ("accuracy", "qwk"):
        evaluation["metrics"][name] |= {"value": None, "reason": "no grades"}
    for pair in (*evaluation["examples"], *evaluation["errors"]):
        for key in ("p", "predicted_grade", "expected_grade"):  # as `evaluation_json` writes it
            del pair[key]
        pair["score"] = -0.125
    run = build_run(evaluation)
    blocks = build(run)
    assert figures(blocks) == {}
    shown = next(block for block in blocks if isinstance(block, Examples))
    assert (shown.examples[0].score, shown.examples[0].levels) == (-0.125, ())
    errors = table(blocks, "errors")
    assert (errors.columns[-1].name, errors.rows[0][-1]) == ("score", -0.125)
    assert "−0.125" in render(run).read_text(encoding="utf-8")
    titles = [card.title.en for card in summary_cards(Stored(RunFolder.read(run)))]
    assert titles == ["Pairwise accuracy", "Spearman ρ", "NDCG@5"]


def test_levels_of_a_model_are_named_from_0_beside_numbers(evaluation, build_run):
    evaluation |= {"mode": "numbers", "levels": [], "confusion": None}
    for pair in evaluation["examples"]:
        pair |= {"p": [0.2, 0.3, 0.5], "predicted_grade": "2", "grade": 2.5}
    shown = next(b for b in build(build_run(evaluation)) if isinstance(b, Examples))
    assert (shown.examples[0].levels, shown.examples[0].predicted) == (("0", "1", "2"), "2")


def test_coarse_labels_show_the_models_grades_and_no_prediction_is_wrong(evaluation, build_run):
    evaluation["levels"] = ["0", "1", "2"]
    evaluation["confusion"] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    for pair in evaluation["examples"]:
        pair["grade"] = "0 = 1/2"
    run = build_run(evaluation)
    shown = next(block for block in build(run) if isinstance(block, Examples))
    assert shown.examples[0].levels == ("1", "2", "3", "4", "5")
    page = render(run).read_text(encoding="utf-8")
    assert '<b class="wrong">' not in page and '<b class="right">' not in page


def test_of_labels_that_are_numbers_no_prediction_is_right_or_wrong(evaluation, build_run):
    evaluation |= {"mode": "numbers", "levels": [], "confusion": None}
    for pair in evaluation["examples"]:
        pair["grade"] = 3.0
    run = build_run(evaluation)
    shown = next(block for block in build(run) if isinstance(block, Examples))
    assert {(one.grade, one.level) for one in shown.examples} == {("3", None)}
    assert shown.examples[0].levels == ("1", "2", "3", "4", "5")
    page = render(run).read_text(encoding="utf-8")
    assert '<b class="wrong">' not in page and '<b class="right">' not in page
