"""What the plan's section says of titles read before the query comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from qt_bert.report.blocks import Block, Drawn, FigureBlock, Interval, Prose, Section, Table
from qt_bert.report.page import page
from qt_bert.report.plan import plan_blocks
from qt_bert.report.plan_offline import TITLE, offline, recommendation
from qt_bert.report.render import write_csv
from qt_bert.results.plan import OfflinePlan
from qt_bert.run.folder import RunFolder
from tests.results.made_offline import changed, offline_rows, row
from tests.results.made_plan import plan


def table(found: OfflinePlan, name: str) -> Table:
    return next(one for one in offline(found) if isinstance(one, Table) and one.name == name)


def values(cells: tuple[object, ...]) -> list[float | None]:
    return [cell.value for cell in cells if isinstance(cell, Interval)]


def test_nothing_free_names_what_to_retrain_and_what_that_costs_and_saves() -> None:
    said = recommendation(offline_rows())
    assert "Not free without retraining" in said.en and "3, 6, 9 of 12" in said.en
    assert (
        "The number to train with is 6; untrained, accuracy changes by −0.200 [−0.210, −0.190]"
        in said.en
    )
    assert "moved title positions alone −0.004" in said.en
    assert "the texts apart alone −0.100" in said.en
    assert "“qt-bert train --offline-layers 6”" in said.en
    assert "18.4 tokens on average takes 7.1 kB as float16 states, 3.6 kB as int8" in said.en
    assert "over 100 titles is then scored 1.60 [1.00, 1.80] times as fast with 6 layers" in said.en
    assert "不重新训练就不行" in said.zh and "最低 6 层" in said.zh and "1.60" in said.zh


def test_a_free_number_is_recommended_without_training() -> None:
    said = recommendation(offline_rows(chosen=3))
    assert said.en.startswith("The lowest 3 of 12 layers can read titles before the query comes")
    assert "qt-bert train" not in said.en and "1.30 [1.00, 1.50] times" in said.en
    assert "不必重新训练" in said.zh


@pytest.mark.parametrize(
    ("reason", "en", "zh"),
    [
        ("offline", "an offline one already", "离线模型"),
        ("one layer", "has one layer", "只有一层"),
        ("no room", "leaves no room", "没有给标题留下位置"),
    ],
)
def test_a_model_without_rows_says_why_and_no_more(reason: str, en: str, zh: str) -> None:
    found = OfflinePlan(layers=1, reason=reason)  # type: ignore[arg-type]
    blocks = offline(found)
    assert len(blocks) == 1 and isinstance(blocks[0], Prose)
    assert en in recommendation(found).en and zh in recommendation(found).zh


def test_a_row_a_number_of_layers() -> None:
    shown = table(offline_rows(), "plan_offline")
    assert [cells[0] for cells in shown.rows] == [3, 6, 9]
    names = [column.name for column in shown.columns]
    assert names == [
        "layers", "choice", "positions", "block", "both", "both_spearman", "both_qwk", "speed",
    ]  # fmt: skip
    assert values(shown.rows[1]) == [-0.004, -0.1, -0.2, -0.2, -0.2, 1.6]
    assert [cells[1] is not None for cells in shown.rows] == [False, True, False]
    note = shown.note
    assert note is not None and "begin at position 24" in note.en and "160 pairs" in note.en
    assert "第 24 个位置" in note.zh and "3.4%" in note.zh and "151 毫秒" in note.zh


def test_kilobytes_a_title() -> None:
    rows = table(offline_rows(), "plan_offline_titles").rows
    assert rows == (("float32", 14.152), ("float16", 7.086), ("int8", 3.59))


def curves(blocks: tuple[Block, ...]) -> list[FigureBlock]:
    return [block for block in blocks if isinstance(block, FigureBlock)]


def test_one_row_makes_no_curve() -> None:
    assert len(curves(offline(offline_rows()))) == 1
    assert curves(offline(offline_rows(rows=(row(1, -0.1),)))) == []
    assert offline(None) == ()


@pytest.mark.parametrize(
    "found",
    [
        offline_rows(),
        offline_rows(chosen=3),
        offline_rows(timed=None, rows=(row(1, -0.1),), retrain=1, layers=2),
        offline_rows(metric=None, positions={}),
        offline_rows(metric="spearman", positions={"spearman": changed(0.0)["spearman"]}),
        OfflinePlan(layers=1, reason="one layer"),
    ],
)
def test_whatever_is_known_is_drawn_and_escaped(
    run: Path, tmp_path: Path, found: OfflinePlan
) -> None:
    made = plan(offline=found)
    blocks = plan_blocks(made)
    section = Section(name="plan", order=0, title=TITLE, build=lambda _: blocks)
    html = page(RunFolder.read(run).record, (), [Drawn(section, blocks)])
    assert TITLE.zh in html
    for block in blocks:
        if isinstance(block, Table):
            write_csv(block, tmp_path / f"{block.name}.csv")
