"""The tables behind the rules: complete, rich enough, and consistent with each other."""

from __future__ import annotations

from collections import Counter

import pytest

from qt_bert.training.rules.lookup import (
    TEMPLATE_ONLY,
    alternatives,
    kind_in_text,
    kinds_of_word,
    rows,
    wordings,
    words_of_kind,
)

WIDTHS = {
    "antonyms": 2,
    "courtesies": 2,
    "directed": 2,
    "entities": 3,
    "function_words": 1,
    "homophones": 1,
    "needs": 2,
    "negations": 2,
    "opposed": 3,
    "pinyin": 2,
    "qualifiers": 4,
    "symmetric": 2,
    "tails": 2,
    "units": 4,
}
ANY_SUBJECT = {"thing", "matter", "skill", "org", "work"}


@pytest.mark.parametrize(("table", "width"), WIDTHS.items())
def test_every_row_has_its_columns_filled(table: str, width: int) -> None:
    assert {len(row) for row in rows(table)} == {width}
    assert all(cell for row in rows(table) for cell in row)


@pytest.mark.parametrize("table", [*WIDTHS, "synonyms"])
def test_no_row_stands_twice(table: str) -> None:
    assert [row for row, count in Counter(rows(table)).items() if count > 1] == []


def test_tables_are_rich() -> None:
    assert len(words_of_kind()) >= 25
    assert min(map(len, words_of_kind().values())) >= 4
    assert sum(len(words) >= 12 for words in words_of_kind().values()) >= 40
    places = ("city", "province", "country", "scenic")
    assert sum(len(words_of_kind()[kind]) for kind in places) >= 150
    assert len(rows("antonyms")) >= 150
    assert len(rows("synonyms")) >= 120
    assert len(rows("tails")) >= 40


@pytest.mark.parametrize("table", ["directed", "symmetric"])
def test_forms_of_two_things_name_each_of_them_once(table: str) -> None:
    for kinds, forms in wordings(table):
        assert set(kinds) <= set(words_of_kind())
        assert len(forms) >= 2
        assert all(form.count("{A}") == form.count("{B}") == 1 for form in forms)


def test_forms_of_needs_name_their_subject_once() -> None:
    for kinds, forms in wordings("needs"):
        assert set(kinds) <= set(words_of_kind()) | ANY_SUBJECT
        assert len(set(forms)) == len(forms) >= 3
        assert all(form.count("{X}") == 1 for form in forms)


def test_opposed_sides_share_no_form() -> None:
    for kinds, one, other in rows("opposed"):
        assert kinds == "-" or set(kinds.split(",")) <= set(words_of_kind())
        assert len(one.split("|")) >= 2
        assert not set(one.split("|")) & set(other.split("|"))
        if kinds != "-":
            assert all(form.count("{X}") == 1 for form in f"{one}|{other}".split("|"))


def test_qualifiers_suit_some_need_of_each_kind() -> None:
    for kinds, group, needs, _ in rows("qualifiers"):
        assert group in {"scope", "audience"}
        for kind in {*kinds.split(",")} - {"*"}:
            asked = "|".join("|".join(w.forms) for w in wordings("needs") if kind in w.kinds)
            assert any(part in asked for part in needs.split("|")), (kind, needs)


def test_no_word_is_its_own_antonym_and_synonym() -> None:
    synonyms = alternatives("synonyms")
    assert [row for row in rows("antonyms") if row[1] in synonyms.get(row[0], ())] == []


def test_a_word_of_two_kinds_is_left_alone_in_free_text() -> None:
    assert set(kinds_of_word()["word"]) == {"format"}
    assert "龙猫" in kind_in_text()
    assert all(not kind.startswith(TEMPLATE_ONLY) for kind in kind_in_text().values())


def test_short_titles_of_works_are_left_alone_in_free_text() -> None:
    assert "活着" in kinds_of_word()
    assert "活着" not in kind_in_text()
    assert kind_in_text()["红楼梦"] == "novel"
