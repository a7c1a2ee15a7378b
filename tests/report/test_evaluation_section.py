from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qt_bert.figures import Curve, HeatMap
from qt_bert.report.blocks import Block, Examples, FigureBlock, Prose, Table
from qt_bert.report.evaluation import evaluation_section, summary_cards
from qt_bert.report.render import render
from qt_bert.report.stored import Stored
from qt_bert.run.folder import RunFolder
from qt_bert.stats.metrics import REASONS
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


def test_why_one_logit_has_no_grades_is_told_in_both_languages(evaluation, build_run):
    evaluation["metrics"]["qwk"] |= {"value": None, "reason": REASONS["score"].en}
    (qwk,) = (r for r in table(build(build_run(evaluation)), "metrics").rows if r[1] == "qwk")
    assert "校准" in qwk[-1].zh and "a one-logit" not in qwk[-1].zh and "calibrated" in qwk[-1].en


@pytest.mark.parametrize("alike", [None, "scores hardly differ"])
def test_scores_that_hardly_differ_are_said(evaluation, build_run, alike):
    blocks = build(build_run(evaluation | {"alike": alike}))
    warned = [block.body.en for block in blocks if isinstance(block, Prose)]
    assert [text.startswith("Warning") for text in warned] == [True] * (alike is not None)


def test_an_example_names_its_terms_and_heads(evaluation, build_run):
    changes = {"油渍": -1.25, "怎么": 0.2, "的": 0.001, "<b>": -0.4, "衣服": 0.1, "洗掉": -0.3}
    terms = [
        {"side": "title", "term": term, "change": change, "moved": abs(change) >= 0.005}
        for term, change in changes.items()
    ]
    heads = [("L3H7", 0.412), ("L10H2", 0.2), ("L0H0", -0.61)]  # the last restores nothing
    heads = [{"head": head, "share": share} for head, share in heads]
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
    evaluation |= {"slices": {}, "levels": [], "outputs": []}
    for name in ("accuracy", "qwk"):
        evaluation["metrics"][name] |= {"value": None, "reason": REASONS["score"].en}
    for pair in (*evaluation["examples"], *evaluation["errors"]):
        for key in ("p", "predicted_grade", "expected_grade"):  # as `evaluation_json` writes it
            del pair[key]
        pair["score"] = -0.125
    run = build_run(evaluation)
    blocks = build(run)
    why = {row[1]: row[-1] for row in table(blocks, "metrics").rows}["qwk"]
    assert REASONS["score"].zh in why.zh and REASONS["score"].en in why.en
    assert figures(blocks) == {}
    shown = next(block for block in blocks if isinstance(block, Examples))
    assert (shown.examples[0].score, shown.examples[0].levels) == (-0.125, ())
    errors = table(blocks, "errors")
    assert (errors.columns[-1].name, errors.rows[0][-1]) == ("score", -0.125)
    assert "−0.125" in render(run).read_text(encoding="utf-8")
    titles = [card.title.en for card in summary_cards(Stored(RunFolder.read(run)))]
    assert titles == ["Pairwise accuracy", "Spearman ρ", "NDCG@5"]


FIVE, COARSE = ("1", "2", "3", "4", "5"), ("1-2", "3-4", "5")


@pytest.mark.parametrize(
    ("mode", "outputs", "changes", "shown"),
    [
        ("grades", FIVE, {}, ("5", "5")),
        # Of labels that are numbers, and of coarse ones, no prediction is right or wrong.
        ("numbers", FIVE, {"grade": 3.0}, (None, "5")),
        ("coarse", FIVE, {"grade": "0 = 1/2"}, (None, "5")),
        ("numbers", tuple("012"), {"grade": 2.5, "p": [0.2, 0.3, 0.5]}, (None, "2")),
        # Five levels that are no grades are named from 0.
        ("numbers", tuple("01234"), {"grade": 2.5}, (None, "4")),
        # Sets of grades are named by them, whatever the labels are.
        ("levels", COARSE, {"grade": "1-2", "p": [0.7, 0.2, 0.1]}, ("1-2", "1-2")),
        ("numbers", COARSE, {"grade": 2.5, "p": [0.2, 0.5, 0.3]}, (None, "3-4")),
    ],
)
def test_an_example_names_the_outputs_of_the_model(
    evaluation, build_run, mode, outputs, changes, shown
):
    example = evaluation["examples"][0] | changes
    best = max(range(len(example["p"])), key=example["p"].__getitem__)
    example["predicted_grade"] = str(best + (outputs == FIVE))
    evaluation |= {"mode": mode, "outputs": outputs, "confusion": None, "examples": [example]}
    evaluation["errors"] = [example]
    blocks = build(run := build_run(evaluation))
    (found,) = next(block for block in blocks if isinstance(block, Examples)).examples
    assert (found.levels, found.level, found.predicted) == (outputs, *shown)
    assert table(blocks, "errors").rows[0][4] == shown[1]
    page = render(run).read_text(encoding="utf-8")
    assert '<b class="wrong">' not in page and ('<b class="right">' in page) == bool(shown[0])
