"""The two commands of `benchmarks/` on a few pairs."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qt_bert.files import read_json

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
def lexical() -> Command:
    return _main("lexical.py")


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


def _scored(graded: Path, header: str = "p_1\tp_2\tp_3\tp_4\tp_5") -> Path:
    """The pairs as scored by a model that gives each its own grade."""
    rows = [tuple(line.split("\t")) for line in graded.read_text("utf-8").splitlines()[1:]]
    certain = [(*row, *(int(row[2] == str(g)) for g in range(1, 6))) for row in rows]
    return _write(graded.with_name("scored.tsv"), f"query\ttitle\tgrade\t{header}", certain)


def test_training_files_are_fitted_and_judged(
    lexical: Command, graded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    lexical("--train", graded, "--dev", graded, "--test", graded, "--json", out)
    found = read_json(out)
    assert found["metrics"]["qwk"]["value"] > 0.9
    assert found["train"] == [{"file": "graded.tsv", "pairs": 40, "weight": 1.0}]
    assert len(found["features"]) == len(found["model"]["coefficients"])
    assert "qwk" in capsys.readouterr().out


def test_a_recipe_gives_coarse_and_weighted_sources_and_leaves_auxiliary_ones_out(
    lexical: Command, graded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coarse = [("修自行车", "自行车怎么修", 1), ("修自行车", "红楼梦人物", 0)]
    _write(tmp_path / "coarse.tsv", "query\ttitle\tgrade", coarse)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[[pairs]]\nfile = "graded.tsv"\nweight = 2.0\n'
        '[[pairs]]\nfile = "coarse.tsv"\ngrades = "0=1-2,1=4-5"\n'
        '[[pairs]]\nfile = "coarse.tsv"\nauxiliary = "other"\n',
        encoding="utf-8",
    )
    out = tmp_path / "out.json"
    options = ("--recipe", recipe, "--data", tmp_path, "--json", out)
    lexical(*options, "--dev", graded, "--test", graded)
    assert [one["pairs"] for one in read_json(out)["train"]] == [40, 2]
    assert "left out: coarse.tsv, which trains the output 'other'" in capsys.readouterr().out


def test_a_scored_file_is_compared_pair_by_pair(
    lexical: Command, graded: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    files = ("--train", graded, "--dev", graded, "--test", graded)
    lexical(*files, "--scored", _scored(graded), "--json", out)
    found = read_json(out)
    assert found["comparison"]["accuracy"]["value_a"] == found["metrics"]["accuracy"]["value"]
    assert found["comparison"]["accuracy"]["value_b"] == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.rsplit("\n", 2)[0] + "\n", "39 rows for 40 graded test pairs"),
        (lambda text: text.replace("番茄", "西瓜", 1), "line 2: not the test file's line 2"),
        (lambda text: text.replace("p_5", "q_5"), "no numbers in the columns p_1 to p_5"),
        (lambda text: text.replace("\t1\n", "\t–\n"), "no numbers in the columns p_1 to p_5"),
    ],
)
def test_a_scored_file_of_something_else_is_refused(
    lexical: Command,
    graded: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[str], str],
    message: str,
) -> None:
    scored = _scored(graded)
    scored.write_text(damage(scored.read_text("utf-8")), encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        lexical("--train", graded, "--dev", graded, "--test", graded, "--scored", scored)
    assert message in capsys.readouterr().err


def test_without_training_pairs_there_is_nothing_to_do(
    lexical: Command, graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        lexical("--dev", graded, "--test", graded)
    assert "nothing to train on" in capsys.readouterr().err


def test_a_training_label_that_is_no_grade_is_refused(
    lexical: Command, graded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = _write(tmp_path / "odd.tsv", "query\ttitle\tgrade", [("猫", "狗", 0)])
    with pytest.raises(SystemExit, match="2"):
        lexical("--train", odd, "--dev", graded, "--test", graded)
    assert "odd.tsv, line 2: label '0' is no grade" in capsys.readouterr().err


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
