"""Making pairs: numbers, seeds, what is barred, what contradicts."""

from __future__ import annotations

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.training.rules import RULES, Made, MadePair, make_pairs
from qt_bert.training.rules.gate import Gate, barrier, folded

TEXTS = [
    "适合新手的花",
    "夏季裙子怎么洗",
    "旧毛衣拆线再织",
    "成都到昆明怎么坐车",
    "2019年花展在哪里",
    "阳台上种的番茄为什么不开花",
]
GOOD = [("阳台种菜", "阳台上种菜的五个窍门")]


def made(**changes: object) -> list[MadePair]:
    arguments: dict[str, object] = {"per_rule": 5, "seed": 3, **changes}
    return list(make_pairs(TEXTS, GOOD, **arguments))  # type: ignore[arg-type]


def test_same_seed_gives_the_same_pairs() -> None:
    assert made() == made()


def test_another_seed_gives_other_pairs() -> None:
    assert made() != made(seed=4)


def test_a_rule_makes_no_more_than_its_number() -> None:
    pairs = made(per_rule={"direction": 3, "paraphrase": 2}, rules=["direction", "paraphrase"])
    names = [pair.rule for pair in pairs]
    assert names.count("direction") == 3
    assert names.count("paraphrase") == 2


def test_a_rule_without_a_number_makes_none() -> None:
    assert made(per_rule={}) == []
    assert made(per_rule=0) == []


def test_a_twin_follows_its_pair_with_the_same_query() -> None:
    pairs = made(rules=["opposite"], per_rule=20)
    for pair, twin in zip(pairs[::2], pairs[1::2], strict=True):
        assert (pair.rule, twin.rule) == ("opposite", "opposite:kept")
        assert pair.query == twin.query
        assert (pair.grades, twin.grades) == ((2,), (5,))


def test_no_pair_comes_twice() -> None:
    pairs = [(pair.query, pair.title) for pair in made(per_rule=50)]
    assert len(set(pairs)) == len(pairs)


def test_grades_are_those_of_the_rule() -> None:
    for pair in made():
        if pair.rule in RULES:
            assert pair.grades == RULES[pair.rule].grades


@pytest.mark.parametrize(
    "forbidden", [{"适合 新手的花！"}, lambda text: text.startswith("适合新手的花")]
)
def test_forbidden_queries_are_neither_used_nor_made(forbidden: object) -> None:
    assert any("适合新手的花" in pair.query for pair in made())
    for pair in made(forbidden=forbidden):
        assert folded(pair.query) != "适合新手的花"
        assert "适合新手的花" not in pair.title


def test_a_forbidden_good_query_is_not_used() -> None:
    rules = ["reversed"]
    assert any(pair.query == "阳台种菜" for pair in made(rules=rules, per_rule=50))
    pairs = made(rules=rules, per_rule=50, forbidden={"阳台种菜"})
    assert not any("阳台种菜" in pair.query for pair in pairs)


@pytest.mark.parametrize(
    "text", ["织毛衣", "abcdefg", "一" * 31, "她说：我们走吧", "第一句。第二句", "甲，乙，丙丁戊"]
)
def test_what_nobody_types_is_passed_over(text: str) -> None:
    pairs = make_pairs([text], [], rules=["same"], per_rule=100, seed=0)
    assert not any(text in pair.query for pair in pairs)


@pytest.mark.parametrize("stray", ["\t", "\n", "\u2028", "\ud800", "\0"])
def test_characters_that_break_a_file_become_spaces(stray: str) -> None:
    pairs = list(make_pairs([f"旧毛衣{stray}拆线"], [], rules=["same"], per_rule=100, seed=0))
    assert any("旧毛衣 拆线" in pair.query for pair in pairs)
    assert not any(stray in pair.query + pair.title for pair in pairs)


def test_an_unknown_rule_is_named_at_once() -> None:
    with pytest.raises(ArgumentError, match="no rule 'sme'; there are same, synonym"):
        make_pairs(TEXTS, GOOD, rules=["sme"], per_rule=1, seed=0)


def test_an_unknown_rule_in_the_numbers_is_named() -> None:
    with pytest.raises(ArgumentError, match="no rule 'sme'"):
        make_pairs(TEXTS, GOOD, per_rule={"sme": 1}, seed=0)


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ArgumentError, match="-1 pairs of 'same'"):
        make_pairs(TEXTS, GOOD, per_rule={"same": -1}, seed=0)


def gate(good: list[tuple[str, str]] | None = None) -> Gate:
    return Gate(barrier(frozenset()), good or [])


def test_the_gate_refuses_a_bad_grade_for_a_good_pair() -> None:
    assert not gate([("花展", "花展时间")]).admits(Made("花展", "花展 时间"), (2,))
    assert gate([("花展", "花展时间")]).admits(Made("花展", "花展 时间"), (3, 4))


def test_the_gate_refuses_a_low_grade_for_the_query_itself() -> None:
    assert not gate().admits(Made("花展", "花展！"), (1, 2))
    assert gate().admits(Made("花展", "花展！"), (5,))


def test_the_gate_refuses_a_title_that_is_its_own_twin() -> None:
    assert not gate().admits(Made("花", "花展时间", "花展时间？"), (2,))


def test_the_gate_refuses_what_contradicts_an_earlier_pair() -> None:
    passed = gate()
    assert passed.admits(Made("花展", "花展门票"), (3,))
    assert not passed.admits(Made("花展", "赛马", "花展门票"), (1,))


def test_the_gate_refuses_a_title_that_is_too_long() -> None:
    assert not gate().admits(Made("花展", "花" * 81), (2,))


def test_folding_drops_case_width_spaces_and_marks() -> None:
    assert folded(" ＡＢ-1 花，展？") == "ab1花展"
