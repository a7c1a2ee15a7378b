"""What a visitor takes away: tables that no spreadsheet runs, pictures that any program shows."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from qt_bert.app.figures import csv_of
from tests.figures.examples import ALL, CURVE, HEAT_MAP, HOSTILE, TOKENS


def rows_of(figure, language="zh"):
    data = csv_of(figure, language)
    assert data.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))


def test_a_heat_map_is_a_row_a_cell():
    names, *cells = rows_of(HEAT_MAP, "en")
    assert names == ["row", "column", "value", "unit", "marked", "note"]
    assert cells[0] == ["L0", "H0", "0.5", "points", "0", "3"]
    assert cells[1][:3] == ["L0", HOSTILE, ""]
    assert cells[5] == ["L1", "京", "2.0", "points", "1", "9"]


def test_a_text_like_a_formula_is_no_formula():
    _, first, *_ = rows_of(CURVE)
    assert first == ["'=1+1", "0", "1", "0.5", "1.5", "9", ""]


def test_tokens_say_where_words_end():
    names, *tokens = rows_of(TOKENS)
    assert names == ["line", "token", "value", "marked", "ends_word", "unit", "note"]
    assert tokens[1] == ["查询", "[SEP]", "", "0", "1", "份额", ""]
    assert tokens[2][-1] == "注"


def test_tokens_without_notes_have_no_column_for_them():
    names, *_ = rows_of(replace(TOKENS, lines=TOKENS.lines[:1]))
    assert "note" not in names


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.kind)
def test_every_kind_has_a_table(figure):
    assert len(rows_of(figure)) > 1
