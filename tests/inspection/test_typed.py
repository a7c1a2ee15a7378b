"""Typed texts and heads: what is taken, what is changed and said, what is refused."""

from __future__ import annotations

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.inspection.inputs import RefusedInput, clean_texts, short, typed_heads
from qt_bert.models.heads import Head, Shape

SHAPE = Shape(12, 12)


@pytest.mark.parametrize(
    "text", ["L3H7 L2H1", "L2H1,L3H7", " l2h1 ， Ｌ３Ｈ７ ", "L3H7、L2H1、L2H1", "\tL3H7\nL2H1"]
)
def test_heads_as_people_write_them(text: str) -> None:
    assert typed_heads(text, SHAPE) == (Head(2, 1), Head(3, 7))


@pytest.mark.parametrize("text", ["", "  ", ",", "，、"])
def test_no_text_is_no_head(text: str) -> None:
    assert typed_heads(text, SHAPE) == ()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("L3H7 L12H0", "L12H0"), ("L3H7 H2", "H2"), ("<b>", "<B>"), ("L1H12", "L1H12")],
)
def test_the_wrong_head_is_named_in_both_languages(text: str, wrong: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        typed_heads(text, SHAPE)
    assert isinstance(caught.value, RefusedInput)
    for said in (caught.value.said.zh, caught.value.said.en):
        assert f"“{wrong}”" in said and "L11H11" in said


def test_texts_that_fit_stay_as_they_are() -> None:
    query, title = "<img src=x onerror=alert(1)>", "👨‍👩‍👧 “紫熨斗” 好用吗"
    assert clean_texts(query, title) == (query, title, [])


def test_control_characters_go_and_breaks_are_spaces() -> None:
    query, title, (fault,) = clean_texts("a\x00b\x1b[1m\ud800", "第一行\n第二行\tc\u2028d")
    assert (query, title) == ("ab[1m", "第一行 第二行 c d")
    assert "控制字符" in fault.zh and "control characters" in fault.en


@pytest.mark.parametrize(
    ("lengths", "left"),
    [
        ((1000, 1000), (1000, 1000)),
        ((10, 5000), (10, 1990)),
        ((5000, 10), (1990, 10)),
        ((5000, 5000), (1000, 1000)),
        ((1500, 800), (1200, 800)),
    ],
)
def test_both_together_keep_two_thousand(lengths: tuple[int, int], left: tuple[int, int]) -> None:
    query, title, faults = clean_texts("查" * lengths[0], "题" * lengths[1])
    assert (len(query), len(title)) == left
    assert [("2,000" in fault.en, "2,000" in fault.zh) for fault in faults] == (
        [(True, True)] if lengths != left else []
    )


def test_empty_texts_are_said() -> None:
    assert [fault.en for fault in clean_texts(" ", "")[2]] == [
        "the query is empty: there is no pair to run",
        "the title is empty: there is no pair to run",
    ]


def test_a_message_quotes_the_beginning_only() -> None:
    assert short("x" * 25) == "“" + "x" * 24 + "…”"
    assert short("a\x00b") == "“ab”"
