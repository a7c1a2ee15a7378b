"""`benchmarks/title_only.py` on a few pairs."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SUBJECTS = (
    "番茄炒蛋",
    "护照换发",
    "猫咪掉毛",
    "电脑蓝屏",
    "高考志愿",
    "车险续保",
    "阳台种菜",
    "羽毛球拍",
)
TITLES = {
    5: "{0}的完整方法和步骤",
    4: "{0}以及更多相关的知识大全",
    3: "{0}要花多少时间",
    2: "{1}的历史故事",
    1: "周末去海边看日出",
}

Command = Callable[..., None]


@pytest.fixture
def title_only() -> Command:
    return _main("title_only.py")


def _main(script: str) -> Command:
    main: Command = runpy.run_path(str(BENCHMARKS / script))["main"]
    return lambda *arguments: main([str(one) for one in arguments])


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """Eight queries with a title of every grade."""
    rows = [
        (f"{subject}怎么做", title.format(subject, subject[:2]), grade)
        for subject in SUBJECTS
        for grade, title in TITLES.items()
    ]
    return _write(tmp_path / "graded.tsv", "query\ttitle\tgrade", rows)


def _write(path: Path, header: str, rows: list[tuple[Any, ...]]) -> Path:
    lines = [header, *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_titles_that_give_the_grade_away_are_found_and_queries_tell_nothing(
    title_only: Command, graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    title_only(graded)
    printed = capsys.readouterr().out
    assert "title only: 1.000" in printed
    assert "query only: 0.200" in printed
    assert "'历史'" in printed


def test_too_few_queries_for_the_folds_are_refused(
    title_only: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [("猫", f"标题{grade}", grade) for grade in range(1, 6)]
    with pytest.raises(SystemExit, match="2"):
        title_only(_write(tmp_path / "few.tsv", "query\ttitle\tgrade", few))
    assert "5 queries" in capsys.readouterr().err
