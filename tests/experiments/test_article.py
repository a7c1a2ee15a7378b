"""The page of the articles: every id is declared by a probe, and figures are written as they are."""

import json
import tomllib

import pytest

from experiments.article import make as article
from qt_bert.errors import ArgumentError
from qt_bert.probes.texts import texts_of


def rows():
    articles = tomllib.loads(article.ROWS.read_text(encoding="utf-8"))["articles"]
    return [row for each in articles for row in each["rows"]]


def test_every_row_names_a_claim_or_a_measurement_of_a_probe_or_says_why_not():
    assert len(rows()) > 40
    for row in rows():
        assert ("ids" in row) != ("none" in row), row
        for name in row.get("ids", ()):
            probe, mark, key = name.partition("/") if "/" in name else name.partition(".")
            declared = texts_of(probe).ids("measurements" if mark == "/" else "claims")
            assert key in declared, name


@pytest.mark.parametrize(
    ("figure", "english", "chinese"),
    [
        ({"value": 0.984, "ci_low": 0.9, "ci_high": 0.996, "unit": "share"}, "98 [90, 100] %", "98 [90, 100] %"),
        ({"value": -0.0004, "ci_low": None, "ci_high": 0.1, "unit": "rho"}, "0.000 ρ", "0.000 ρ"),
        (
            {"value": -7.88, "ci_low": -10.2, "ci_high": -5.6, "unit": "points", "verdict": "not reproduced",
             "side": "above", "margin": 2.0},
            "−7.9 [−10.2, −5.6] points **not reproduced** (> 2)",
            "−7.9 [−10.2, −5.6] 个百分点 **不成立** (> 2)",
        ),
        ({"value": None, "verdict": "not testable", "side": "above", "margin": 0.0}, "**not testable here**", "**此处无法检验**"),
        ({"value": None}, "not testable here", "此处无法检验"),
    ],
)  # fmt: skip
def test_a_figure_has_its_interval_unit_and_verdict(figure, english, chinese):
    assert article.written(figure, "en") == english
    assert article.written(figure, "zh") == chinese


def test_both_files_are_written_from_a_run(tmp_path):
    with pytest.raises(ArgumentError, match="no report.json"):
        article.make(tmp_path, tmp_path)
    claim = {"id": "matching.five", "value": 14.9, "ci_low": 11.2, "ci_high": 18.6}
    claim |= {"unit": "points", "verdict": "reproduced", "side": "above", "margin": 2.0}
    claim |= {"n_queries": 160}
    inputs = {"model": {"name": "m"}, "pairs": {"name": "p.tsv"}, "arguments": {"full": True}}
    stored = {"claims": [claim], "run": {"inputs": inputs}}
    (tmp_path / "report.json").write_text(json.dumps(stored), encoding="utf-8")
    (tmp_path / "probes").mkdir()
    free = {"id": "free_accuracy_loss", "value": 2.07, "ci_low": 0.5, "ci_high": 3.7}
    free |= {"unit": "points"}
    probe = {"probe": "matching", "title": {"zh": "匹配", "en": "Matching"}, "measurements": [free]}
    (tmp_path / "probes" / "matching.json").write_text(json.dumps(probe), encoding="utf-8")
    article.make(tmp_path, tmp_path)
    english, chinese = (
        (tmp_path / name).read_text(encoding="utf-8").splitlines()
        for name in article.FILES.values()
    )
    assert len(english) == len(chinese) and "160 queries, by a full report" in english[2]
    (row,) = [line for line in english if line.startswith("five random heads")]
    assert row == "five random heads: accuracy lost (2.4) | ≈ 0 | 2.1 [0.5, 3.7] points | Matching"
    (row,) = [line for line in chinese if "−50 %" in line]
    assert row.endswith("| 此处无法检验；14.9 [11.2, 18.6] 个百分点 **成立** (> 2) | 匹配")
    assert all(len(line.split(" | ")) == 4 for line in english if " | " in line)
