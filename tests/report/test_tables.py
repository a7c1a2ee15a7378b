import csv
from pathlib import Path

import pytest

from qt_bert.report.blocks import Cell, Column, Interval, Table
from qt_bert.report.render import write_csv
from qt_bert.text import Text


def written(path: Path, *rows: tuple[Cell, ...]) -> list[list[str]]:
    columns = tuple(Column(name, name) for name in ("a", "b", "c")[: len(rows[0]) if rows else 1])
    table = Table(name="t", title=Text("表", "table"), columns=columns, rows=rows)
    write_csv(table, path / "t.csv")
    with open(path / "t.csv", encoding="utf-8-sig", newline="") as handle:
        return list(csv.reader(handle))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "  =", "＝", "－"])
def test_formulas_are_guarded(tmp_path, start):
    assert written(tmp_path, (f"{start}SUM(A1)",))[1] == [f"'{start}SUM(A1)"]


def test_negative_numbers_are_no_formulas(tmp_path):
    assert written(tmp_path, (-1.5, -2))[1] == ["-1.5", "-2"]


def test_intervals_and_bilingual_texts_take_several_columns(tmp_path):
    first = (Interval(value=0.5, low=0.25, high=0.75), Text("是", "yes"), None)
    rows = written(tmp_path, first, (None, "=no", 1))
    assert rows[0] == ["a", "a_ci_low", "a_ci_high", "b_zh", "b_en", "c"]
    assert rows[1] == ["0.5", "0.25", "0.75", "是", "yes", ""]
    assert rows[2] == ["", "", "", "'=no", "'=no", "1"]


def test_quotes_commas_and_line_breaks_survive(tmp_path):
    text = 'a "b", c\nd'
    assert written(tmp_path, (text, "x"))[1] == [text, "x"]


def test_a_table_without_rows_keeps_its_head_after_the_byte_order_mark(tmp_path):
    assert written(tmp_path) == [["a"]]
    assert (tmp_path / "t.csv").read_bytes().startswith(b"\xef\xbb\xbf")
