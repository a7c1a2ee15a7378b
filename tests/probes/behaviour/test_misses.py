"""The worst misses: where two titles differ."""

from __future__ import annotations

from types import SimpleNamespace

from qt_bert.probes.behaviour.bands import GRADE, Band
from qt_bert.probes.behaviour.cases import ALIKE, BETTER, Case
from qt_bert.probes.behaviour.misses import miss, misses, runs
from qt_bert.probes.behaviour.scores import judge_cases

BAND = Band(0.25, GRADE)


def test_texts_are_cut_where_they_differ() -> None:
    first, second = runs("狗追猫的故事", "猫追狗的故事")
    assert "".join(text for text, _ in first) == "狗追猫的故事"
    assert "".join(text for text, _ in second) == "猫追狗的故事"
    assert [text for text, differs in first if not differs][-1] == "的故事"
    assert runs("甲", "甲乙") == ([("甲", False)], [("甲", False), ("乙", True)])


def test_a_miss_shows_both_scores() -> None:
    case = Case("direction-1", "direction", BETTER, "狗追猫", "狗追猫呢", "猫追狗呢")
    figure = miss("miss_0", case, (2.0, 4.5), BAND)
    query, better, other = figure.lines
    assert [token.text for token in query.tokens] == ["狗追猫"]
    assert better.name.en == "better title: 2.00 grade" and "4.50" in other.name.zh
    assert {token.value for token in other.tokens} == {4.5}
    assert any(token.marked for token in other.tokens)
    assert figure.note is not None and "direction-1" in figure.note.en


def test_the_two_worst_of_the_wrong_are_shown() -> None:
    cases = [Case(f"n-{n}", "negation", BETTER, f"q{n}", "甲", "乙") for n in range(5)]
    cases.append(Case("s-0", "synonym", ALIKE, "r", "甲", "乙"))
    others = [4.0, 3.1, 6.0, 1.0, 5.0, 9.0]

    def shown(band: float) -> list[str]:
        judged = judge_cases([3.0] * 6, others, cases, band)
        study = SimpleNamespace(validation=SimpleNamespace(judged=judged), band=BAND)
        return [one.note.en.split(".")[0] for one in misses(study)]  # type: ignore[arg-type, union-attr]

    assert shown(0.25) == ["Case n-2", "Case n-4"]
    assert shown(2.5) == ["Case n-2"] and shown(5.0) == []
