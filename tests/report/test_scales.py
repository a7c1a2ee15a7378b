"""From values to places, ticks and words."""

from __future__ import annotations

import pytest

from qt_bert.report.charts.canvas import fit, text_width
from qt_bert.report.charts.scales import Colours, Linear, tick_label, ticks
from qt_bert.results import Text
from qt_bert.results.numbers import clip, interval, number, printable


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.0, 100.0, [0, 20, 40, 60, 80, 100]),
        (-12.5, 3.2, [-10, -5, 0]),
        (0.483, 0.561, [0.5, 0.52, 0.54, 0.56]),
        (0.0, 9_400.0, [0, 2000, 4000, 6000, 8000]),
        (3.0, 3.0, [3.0]),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_ticks_carry_no_rounding_dust() -> None:
    assert [tick_label(tick) for tick in ticks(-0.3, 0.3)] == ["−0.2", "0", "0.2"]


def test_a_linear_scale_may_run_downwards() -> None:
    assert Linear(0, 10, 200, 100)(2.5) == 175


def test_a_scale_without_extent_gives_the_middle() -> None:
    assert Linear(5, 5, 0, 100)(5) == 50


def test_values_beyond_the_range_take_the_end_colour() -> None:
    assert Colours.over([], "sequential", 0.0, 1.0)(7.0) == ("heat", 1.0)
    assert Colours.over([-1.0], "diverging")(-9.0) == ("negative", 1.0)


def test_values_that_all_lie_below_the_range_have_no_colour() -> None:
    """Heads that cut words no better than guessing: the worst must not look best."""
    colours = Colours.over([0.40, 0.45], "sequential", 0.5)
    assert (colours.low, colours.high) == (0.5, 0.5)
    assert [colours(value)[1] for value in (0.40, 0.45)] == [0.0, 0.0]


def test_one_value_alone_has_the_full_colour() -> None:
    assert Colours.over([0.3, 0.3], "sequential")(0.3) == ("heat", 1.0)


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (0.5236, 3, "0.524"),
        (-0.0411, 3, "−0.041"),
        (-0.0001, 3, "0.000"),
        (12345, 3, "12,345"),
        (12345.678, 1, "12,345.7"),
        (None, 3, "—"),
    ],
)
def test_numbers(value: float | None, digits: int, expected: str) -> None:
    assert number(value, digits) == expected


def test_an_interval_needs_both_ends() -> None:
    assert interval(-0.1, 0.25, 2) == "[−0.10, 0.25]"
    assert interval(None, 0.25) == ""


def test_printable_keeps_line_breaks_and_emoji() -> None:
    assert printable("a\n\tb😀") == "a\n\tb😀"
    assert printable("a\x00b\u202ec\ud800") == "a\ufffdb\ufffdc\ufffd"


def test_a_clipped_text_tells_its_length() -> None:
    assert clip("字" * 10, 4) == "字字字字… (10)"
    assert clip("字" * 4, 4) == "字字字字"


def test_chinese_is_about_twice_as_wide_as_latin() -> None:
    assert text_width("中文", 10) == 20
    assert text_width(Text("中", "long words"), 10) == text_width("long words", 10)


def test_a_label_is_cut_where_it_would_not_fit() -> None:
    assert fit("中文标签", 100, 10) == "中文标签"
    assert fit(Text("中文标签", "ab"), 30, 10) == Text("中文…", "ab")
