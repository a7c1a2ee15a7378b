import pytest

from qt_bert.text import (
    Text,
    Words,
    fit,
    number,
    paired,
    printable,
    shortest,
    signed,
    unpaired,
    width_of,
    wrap,
)


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
def test_numbers(value, digits, expected):
    assert number(value, digits) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5.0, "5"),
        (2.34, "2.34"),
        (-0.02, "−0.02"),
        (999.4, "999"),
        (999.6, "1,000"),
        (4022.5, "4,022"),
    ],
)
def test_few_digits(value, expected):
    assert shortest(value) == expected


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (0.25, 3, "+0.250"),
        (-1.0126, 3, "−1.013"),
        (0.0004, 3, "0.000"),
        (-0.0004, 3, "0.000"),
        (3, 3, "+3"),
        (None, 3, "—"),
    ],
)
def test_a_change_has_its_sign_where_it_shows(value, digits, expected):
    assert signed(value, digits) == expected


def test_printable_keeps_line_breaks_and_emoji():
    assert printable("a\n\tb😀") == "a\n\tb😀"
    assert printable("a\x00b\u202ec\ud800") == "a\ufffdb\ufffdc\ufffd"


def test_chinese_is_about_twice_as_wide_as_latin():
    assert width_of("中文", 10) == 20
    assert width_of(paired("中", "long words"), 10) == width_of("long words", 10)


def test_a_label_is_cut_where_it_would_not_fit():
    assert fit("中文标签", 100, 10) == "中文标签"
    assert unpaired(fit(paired("中文标签", "ab"), 30, 10)) == ("中文…", "ab")


def test_what_does_not_fit_in_two_lines_is_cut():
    assert wrap("字" * 40, width=120, most=2) == ["字" * 10, "字" * 9 + "…"]
    assert wrap("a word", width=500, most=2) == ["a word"]
    assert wrap("", width=10, most=2) == []
    assert wrap("同层随机的头（平均）", width=110, most=2) == ["同层随机的头（平", "均）"]


def test_each_language_wraps_by_itself():
    lines = wrap(paired("字" * 12, "a word"), width=120)
    assert [unpaired(line) for line in lines] == [("字" * 10, "a word"), ("字字", "")]


def test_a_paired_text_stays_whole_in_a_longer_one():
    words = Words("both")
    title = f"L0 → {words(Text('京', 'capital'))}: 1 {words(Text('分', 'points'))}"
    assert unpaired(title) == ("L0 → 京: 1 分", "L0 → capital: 1 points")
    assert paired("%", "%") == "%"
