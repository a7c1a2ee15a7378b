import json
from dataclasses import replace

import pytest

from qt_bert.report.answer import answer_section
from qt_bert.report.evaluation import summary_cards
from qt_bert.report.markdown import save_results
from qt_bert.report.render import render
from qt_bert.report.stored import Stored
from qt_bert.run.folder import RunFolder
from qt_bert.stats.verdict import MOST_QUERIES
from tests.results.made_claims import claim, undecided, untestable

UNITS = {"results.md": "] points", "results.zh-CN.md": "] 个百分点"}


def line_of(run, title):
    """The sentences of the first screen under this English title."""
    *_, lines = answer_section(Stored(RunFolder.read(run))).blocks
    [(_, sentences)] = [row for row in lines.rows if row[0].en == title]
    return sentences


def test_the_weakest_slice_of_enough_pairs_is_named(run_of, result_of, evaluation):
    def accuracy(value, n):
        return {"accuracy": {"value": value, "ci_low": None, "ci_high": None, "n": n}}

    tags = {"few": accuracy(0.1, 29), "weak": accuracy(0.4, 30), "strong": accuracy(0.9, 300)}
    evaluation["slices"] = {"tags": tags}
    weakest, *_ = line_of(run_of(result_of("boundary", 10)), "What breaks it")
    assert "tags = weak" in weakest.en and "0.400" in weakest.en


def test_the_change_that_matters_most_has_its_score(run_of, result_of):
    name = {"zh": "换词", "en": "other words"}
    facts = {"hardest": name, "hardest_score": -0.217, "most_moved": name, "most_moved_score": 1.0}
    hardest, *_ = line_of(run_of(result_of("behaviour", 5, facts=facts)), "What breaks it")
    assert "score −0.22;" in hardest.en and hardest.en.endswith("other words (+1.00).")


def test_further_queries_are_asked_for_where_they_decide(run_of, result_of):
    of_cases = undecided("behaviour.told", needs_queries=(100, 200))
    run = run_of(
        result_of("behaviour", 5, claims=(of_cases,)),
        result_of("boundary", 10, claims=(undecided(),)),
    )
    _, queries = line_of(run, "Next steps")
    assert "400 to 1,300" in queries.en


def test_too_few_queries_to_test_on_are_told(run_of, result_of):
    few = untestable(reason="few_queries:33")
    run = run_of(result_of("boundary", 10, claims=(few, untestable())))
    _, wanted = line_of(run, "Next steps")
    assert "test on: 1." in wanted.en and "100 queries" in wanted.en


def test_claims_link_to_their_sections_and_stand_in_json_and_csv(run_of, result_of):
    run = run_of(result_of("redundancy", 10))
    page = render(run).read_text(encoding="utf-8")
    first = page[page.index('<section id="answer"') : page.index("<nav")]
    assert 'href="#probe-redundancy"' in first and 'id="probe-redundancy"' in page
    assert "11.0" in first
    stored = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert [claim["id"] for claim in stored["claims"]] == [
        row.worded.claim.id for row in Stored(RunFolder.read(run)).claims
    ]
    lines = (run / "tables" / "claims.csv").read_text(encoding="utf-8-sig").splitlines()
    assert len(lines) == 5 and lines[0].startswith("claim_zh,claim_en,verdict_zh")
    assert lines[0].endswith(",margin,p,q,n_queries")
    assert "> " in lines[1].split(",")[-4] and ">margin<" not in first


@pytest.mark.parametrize(
    ("grade", "shown"), [(1.03, "expected grade +1.03, ρ −0.668"), (None, "ρ −0.668")]
)
def test_further_figures_stand_beside_a_claim_and_the_unit_above(
    run_of, result_of, evaluation, grade, shown
):
    evaluation["examples"] = [{**evaluation["examples"][0], "score": 0.5}]
    facts, five = {"five_grade": grade, "five_rho": -0.668}, claim("matching.five")
    run = run_of(result_of("matching", 10, claims=(five,), facts=facts))
    subject, claims, *_ = answer_section(Stored(RunFolder.read(run))).blocks
    (row,) = claims.rows
    beside = row[[column.name for column in claims.columns].index("beside")]
    assert beside.en == shown and "ordered right" in subject.body.en


def test_cards_give_the_figure_without_grade_1(run_of, evaluation):
    accuracy = {"value": 0.595, "ci_low": 0.55, "ci_high": 0.64, "n": 500}
    evaluation["without_grade_1"] = {"accuracy": accuracy}
    first, second, *_ = summary_cards(Stored(RunFolder.read(run_of())))
    assert "0.595" in first.base.en and "[0.550, 0.640]" in first.base.en
    assert "800" in second.base.en


@pytest.mark.parametrize(
    ("name", "verdict"), [("results.md", "reproduced"), ("results.zh-CN.md", "成立")]
)
def test_results_are_written_as_markdown(run_of, result_of, tmp_path, name, verdict):
    many = undecided("boundary.many", needs_queries=(MOST_QUERIES + 1, MOST_QUERIES + 1))
    result = result_of("boundary", 10)
    result = replace(result, claims=(*result.claims, many))
    save_results(RunFolder.read(run_of(result)), tmp_path / "docs")
    text = (tmp_path / "docs" / name).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and verdict in line]
    assert any("11.0 [" in row and UNITS[name] in row for row in rows)
    assert ("10,000" in text or "一万" in text) and "10,001" not in text
    assert len([line for line in text.splitlines() if line.startswith("## ")]) >= 3
    assert all(line.count("|") == line.count("\\|") + 7 for line in rows[:1])
