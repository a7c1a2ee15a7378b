"""The worst misses: where two titles differ."""

from __future__ import annotations

from qt_bert.probes.behaving.bands import GRADE, Band
from qt_bert.probes.behaving.cases import BETTER, Case
from qt_bert.probes.behaving.misses import miss, runs


def test_texts_are_cut_where_they_differ() -> None:
    first, second = runs("狗追猫的故事", "猫追狗的故事")
    assert "".join(text for text, _ in first) == "狗追猫的故事"
    assert "".join(text for text, _ in second) == "猫追狗的故事"
    assert [text for text, differs in first if not differs][-1] == "的故事"
    assert runs("甲", "甲乙") == ([("甲", False)], [("甲", False), ("乙", True)])


def test_a_miss_shows_both_scores() -> None:
    case = Case("direction-1", "direction", BETTER, "狗追猫", "狗追猫呢", "猫追狗呢")
    figure = miss("miss_0", case, (2.0, 4.5), Band(0.25, GRADE))
    query, better, other = figure.lines
    assert [token.text for token in query.tokens] == ["狗追猫"]
    assert better.name.en == "better title: 2.00 grade" and "4.50" in other.name.zh
    assert {token.value for token in other.tokens} == {4.5}
    assert any(token.marked for token in other.tokens)
    assert figure.note is not None and "direction-1" in figure.note.en
