import pytest

from qt_bert.data.pairs import GradeMap
from qt_bert.errors import ArgumentError


def test_parse_reads_grades_ranges_and_unions():
    grades = GradeMap.parse("0=1, bad=1+3-4 ,2=2-5")
    assert grades.sets == {"0": (1,), "bad": (1, 3, 4), "2": (2, 3, 4, 5)}


@pytest.mark.parametrize(
    ("label", "expected"),
    [("1", (1,)), ("5.0", (5,)), (" 3 ", (3,)), ("2.00", (2,)), ("1-2", (1, 2)), ("4-5 ", (4, 5))],
)
def test_labels_are_whole_numbers_or_lie_between_two_grades(label, expected):
    assert GradeMap.identity().grades_of(label) == expected


@pytest.mark.parametrize(
    "label", ["0", "6", "2-1", "1-3", "01", "1.5", "", "五", "1e0", "+1", "nan"]
)
def test_unknown_labels_are_refused_with_the_known_ones(label):
    with pytest.raises(ValueError, match="none of 1, 2, 3, 4, 5"):
        GradeMap.identity().grades_of(label)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "label=grades"),
        ("0", "label=grades"),
        ("=1", "label=grades"),
        ("0=", "label=grades"),
        ("0=1,", "label=grades"),
        ("0=1,0=2", "stands twice"),
        ("0=0", "neither a grade"),
        ("0=6", "neither a grade"),
        ("0=4-3", "runs backwards"),
        ("0=1-9", "neither a grade"),
        ("0=1+", "neither a grade"),
        ("0=1|3", "neither a grade"),
    ],
)
def test_bad_specifications_are_refused(spec, reason):
    with pytest.raises(ArgumentError, match=reason):
        GradeMap.parse(spec)


def test_levels_are_labels_from_zero_numbered_from_one():
    levels = GradeMap.levels(3)
    assert [levels.grades_of(label) for label in ("0", "1.0", "2")] == [(1,), (2,), (3,)]
    with pytest.raises(ValueError, match="none of 0, 1, 2"):
        levels.grades_of("3")
