from __future__ import annotations

import pytest

from qt_bert.data.lines import NO_EXTRA, RawRow
from qt_bert.data.pairs import GradeMap, Pair, Reason, Reject
from qt_bert.data.reader import Judge


def row(query: str = "q", title: str = "t", grade: str | None = None) -> RawRow:
    return RawRow(5, query, title, grade, " ", NO_EXTRA, "text")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (row(query="\u3000"), Reason.EMPTY_QUERY),
        (row(title=""), Reason.EMPTY_TITLE),
        (row(title="a\0"), Reason.NUL),
        (row(), Reason.MISSING_GRADE),
        (row(grade=" "), Reason.MISSING_GRADE),
        (row(grade="9"), Reason.BAD_GRADE),
    ],
)
def test_what_is_no_pair(raw: RawRow, reason: Reason) -> None:
    judged = Judge(GradeMap.identity(), grade_required=True).judge(raw)
    assert judged == Reject(5, reason.value, "text")


def test_an_optional_grade_may_be_bad_and_is_told() -> None:
    judge = Judge(GradeMap.identity())
    for grade, grades, bad in (("9", None, True), (" 3 ", (3,), False), (None, None, False)):
        pair = judge.judge(row(grade=grade))
        assert isinstance(pair, Pair) and (pair.grades, pair.id) == (grades, "5")
        assert judge.is_bad_grade(pair) is bad


def test_without_a_scheme_no_label_is_bad() -> None:
    judge = Judge(grade_required=True)
    pair = judge.judge(row(grade="good"))
    assert isinstance(pair, Pair) and pair.label == "good" and not judge.is_bad_grade(pair)


def test_a_reject_stays_one() -> None:
    reject = Reject(3, "bad JSON", "x")
    assert Judge().judge(reject) is reject
