"""`benchmarks/title_only.py` on a few pairs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SUBJECTS = [
    "番茄炒蛋",
    "护照换发",
    "猫咪掉毛",
    "电脑蓝屏",
    "高考志愿",
    "车险续保",
    "阳台种菜",
    "羽毛球拍",
]
TITLES = {
    5: "{0}的完整方法和步骤",
    4: "{0}以及更多相关的知识大全",
    3: "{0}要花多少时间",
    2: "{1}的历史故事",
    1: "周末去海边看日出",
}


def title_only(path: Path, rows: list[tuple[str, str, int]]) -> None:
    lines = ["query\ttitle\tgrade", *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    runpy.run_path(str(BENCHMARKS / "title_only.py"))["main"]([str(path)])


def test_titles_that_give_the_grade_away_are_found_and_queries_tell_nothing(tmp_path, capsys):
    rows = [
        (f"{subject}怎么做", title.format(subject, subject[:2]), grade)
        for subject in SUBJECTS
        for grade, title in TITLES.items()
    ]
    title_only(tmp_path / "graded.tsv", rows)
    printed = capsys.readouterr().out
    assert "title only: 1.000" in printed
    assert "query only: 0.200" in printed
    assert "'历史'" in printed


def test_too_few_queries_for_the_folds_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        title_only(tmp_path / "few.tsv", [("猫", f"标题{grade}", grade) for grade in range(1, 6)])
    assert "5 queries" in capsys.readouterr().err
