import csv
import json
import re
from pathlib import Path

from qt_bert.report.probes import probe_section
from qt_bert.report.render import render, render_probe
from qt_bert.results.probe import HeadScores, ResultTable, Row, Value
from qt_bert.text import Text
from tests.report.conftest import INPUTS
from tests.results.made_claims import claim
from tests.results.made_stability import LOOSE


def sections(run: Path) -> list[str]:
    """Names of the sections of `report.json`."""
    render(run)
    data = json.loads((run / "report.json").read_text(encoding="utf-8"))
    return [section["name"] for section in data["sections"]]


def table(run: Path, name: str) -> list[dict[str, str]]:
    """The rows of a table as its CSV has them."""
    if not (run / "report.html").exists():  # drawing takes a second
        render(run)
    with open(run / "tables" / f"{name}.csv", encoding="utf-8-sig", newline="") as handle:
        return list(csv.DictReader(handle))


def test_the_answer_comes_first_and_probes_follow_the_evaluation(run_of, result_of):
    run = run_of(result_of("order", 30), result_of("redundancy", 10))
    names = sections(run)
    assert names == ["answer", "evaluation", "probe-redundancy", "probe-order", "model_card", "run"]
    page = (run / "report.html").read_text(encoding="utf-8")
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "figures of one name"
    contents = page[page.index("<nav") : page.index("</nav>")]
    assert re.findall(r'<a href="#([^"]+)"', contents) == names[1:]


def test_probes_without_claims_are_a_folded_appendix_after_the_body(run_of, result_of):
    run = run_of(result_of("patterns", 5, claims=()), result_of("boundary", 20))
    assert sections(run)[-3:] == ["model_card", "run", "probe-patterns"]
    page = (run / "report.html").read_text(encoding="utf-8")
    body, appendix = page.split('id="appendix"')
    assert 'id="probe-boundary"' in body and 'class="appendix"' not in body
    assert re.findall(r'<details class="appendix">.*?<section id="([^"]+)"', appendix, re.S) == [
        "probe-patterns"
    ]
    assert re.findall(r'<a href="#([^"]+)"', body[body.index("<nav") :])[-1] == "probe-patterns"


def test_a_probes_own_page_names_no_tables_and_shows_every_head(tmp_path, result_of):
    heads = tuple(HeadScores(head=f"L0H{n}", scores={"score": n / 100}) for n in range(20))
    result = result_of("order", 30, heads=heads)
    page = render_probe(result, INPUTS, tmp_path).read_text(encoding="utf-8")
    assert "tables/" not in page and all(f">L0H{n}<" in page for n in range(20))


def test_cases_are_not_counted_as_pairs_of_the_run(result_of):
    of_cases = {"settings": {"cases": {"file": "cases.tsv"}}}
    first, second = (
        probe_section(result_of("behaviour", 68, **changes)).blocks[0] for changes in (of_cases, {})
    )
    assert "test.tsv" not in first.body.en and "800 pairs of test.tsv" in second.body.en


def test_sets_have_their_stability(run_of, result_of):
    run = run_of(result_of("redundancy", 10, stability={"harmful": LOOSE}))
    first, second = table(run, "redundancy_sets")
    assert (first["stable_en"], first["halves"]) == ("not stable", "0.04")
    assert first["overlap"].startswith("0.37")
    assert first["chance_95"] == "0.2" and second["stable_zh"] == second["overlap"] == ""
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "不稳定" in page and "random halves of the queries" in page


def test_a_probes_own_table_is_drawn(run_of, result_of):
    own = ResultTable(
        name="parts",
        title=Text("各部分", "parts"),
        columns={"part": Text("部分", "part"), "accuracy": "accuracy", "q": "q"},
        rows=(Row((Text("L3 前馈", "L3 FFN"),), (Value(0.1234, 0.05, 0.2), Value(0.01))),),
    )
    (row,) = table(run_of(result_of("redundancy", 10, tables=(own,))), "redundancy_parts")
    assert (row["part_zh"], row["part_en"], row["q"]) == ("L3 前馈", "L3 FFN", "0.01")
    assert [row[f"accuracy{end}"] for end in ("", "_ci_low", "_ci_high")] == [
        "0.1234",
        "0.05",
        "0.2",
    ]


def test_claims_have_verdict_conclusion_and_source(run_of, result_of):
    rows = table(run_of(result_of("boundary", 10)), "boundary_claims")
    verdicts = ["reproduced", "not reproduced", "inconclusive", "not testable here"]
    assert [row["verdict_en"] for row in rows] == verdicts
    assert "best head on discovery: L3H7" in rows[0]["claim_en"]
    assert rows[1]["claim_en"] == "boundary.beside"  # an id without a text
    assert rows[0]["conclusion_en"].startswith("This head holds information")
    assert "400 to 1,300 queries" in rows[2]["conclusion_en"]
    assert "400 至 1,300 个查询" in rows[2]["conclusion_zh"]
    assert [row["there"] for row in rows] == ["70 %", "70 %", "2.3", "70 %"]
    values = [rows[0][name] for name in ("value", "value_ci_low", "value_unit_zh", "margin")]
    assert values == ["11.0", "7.5", "个百分点", "> 2"]
    assert "fewer than 19 random sets" in rows[3]["conclusion_en"]
    assert rows[0]["source"] == "heads of query title bert §2.2"


def test_q_is_over_the_claims_of_all_probes_and_moves_no_verdict(run_of, result_of):
    first = result_of("order", 30, claims=(claim("order.x", p=0.04, q=0.04),))
    run = run_of(first, result_of("other", 40, claims=(claim("other.x", p=0.9, q=0.9),)))
    assert [row["verdict_en"] for row in table(run, "claims")] == ["reproduced"] * 2
    assert table(run, "order_claims")[0]["q"] == "0.08"
    stored = json.loads((run / "report.json").read_text(encoding="utf-8"))["claims"]
    assert [(claim["id"], claim["q"]) for claim in stored] == [("order.x", 0.08), ("other.x", 0.9)]


def test_every_head_and_setting_stands_in_a_table(run_of, result_of):
    run = run_of(result_of("redundancy", 10))
    heads = table(run, "redundancy_heads")
    assert len(heads) == 24
    assert [row["head"] for row in heads if row["selected_en"]] == ["L1H2"]
    settings = {row["name"]: row["value"] for row in table(run, "redundancy_settings")}
    assert (settings["draws"], settings["discovery.n_pairs"]) == ("5", "600")
    assert [row["heads"] for row in table(run, "redundancy_sets")] == ["L1H2 L4H0", ""]


def test_results_that_no_stage_of_the_run_made_are_left_out(run_of, result_of):
    run = run_of(result_of("redundancy", 10))
    result_of("foreign", 1).write(run / "probes" / "foreign.json")
    assert "probe-foreign" not in sections(run)
