"""A visitor's own cases: what is taken, and a file that the probe reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import half_of
from qt_bert.inspection.inputs import RefusedInput
from qt_bert.inspection.views.own_cases import (
    MOST,
    added,
    default_other,
    of_one_half,
    own_case,
    tsv_of,
)
from qt_bert.probes.behaviour_cases import Case, read_cases


def case(query: str = "狗追猫", other: str = "猫追狗") -> Case:
    return own_case(query, "狗追猫的故事", other, "better")


def test_texts_are_cleaned_as_everywhere() -> None:
    found = own_case("狗追猫", " 狗追猫 ", "猫\t追\n狗\x07", "alike")
    assert (found.title, found.other) == ("狗追猫", "猫 追 狗")
    assert (found.phenomenon, found.relation) == ("own_alike", "alike")


@pytest.mark.parametrize(
    "texts", [("狗", "猫", ""), ("狗", "猫", "\x07"), ("狗", "猫", " 猫"), ("", "猫", "狗")]
)
def test_nothing_to_compare_is_refused(texts: tuple[str, str, str]) -> None:
    with pytest.raises(RefusedInput, match="nothing to compare"):
        own_case(*texts, "better")


def test_cases_get_numbers_of_their_own() -> None:
    mine = added(added((), case()), case(other="猫追鼠"))
    assert [one.id for one in mine] == ["own-01", "own-02"]
    assert [one.id for one in added(mine[1:], case())] == ["own-02", "own-03"]


def test_a_case_is_taken_once_and_twenty_at_most() -> None:
    mine = added((), case())
    with pytest.raises(RefusedInput, match="already"):
        added(mine, case())
    assert len(added(mine, own_case("狗追猫", "狗追猫的故事", "猫追狗", "alike"))) == 2
    for n in range(MOST - 1):
        mine = added(mine, case(other=f"猫追狗{n}"))
    with pytest.raises(RefusedInput, match="20"):
        added(mine, case(other="鼠"))


def test_the_file_is_one_that_the_probe_reads(tmp_path: Path) -> None:
    mine: tuple[Case, ...] = ()
    for n in range(6):
        mine = added(mine, case(query=f'"狗"追猫{n}', other="=1+1"))
    mine = added(mine, own_case("狗追猫0", "狗追猫", "狗在追猫", "alike"))
    path = tmp_path / "my_cases.tsv"
    path.write_bytes(tsv_of(mine))
    read = read_cases(path)
    assert [(one.id, one.query, one.title, one.other, one.relation) for one in read.listed] == [
        (one.id, one.query, one.title, one.other, one.relation) for one in mine
    ]
    assert read.phenomena == {"own_better": "better", "own_alike": "alike"}


def test_one_half_is_seen() -> None:
    queries = [f"狗追猫{n}" for n in range(8)]
    first = [one for one in queries if half_of(one) == half_of(queries[0])]
    assert of_one_half([case(query=one) for one in first])
    assert not of_one_half([case(query=one) for one in queries])


def test_a_second_title_to_begin_with() -> None:
    rows = [Pair("甲", title, None, "", 1, None, {}) for title in ("一", "二")]
    assert default_other("甲", "一", rows, 0) == "二"
    assert default_other("乙", "三", rows, 0) in ("一", "二")
    assert default_other("乙", "三", [], 0) == ""
