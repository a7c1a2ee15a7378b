from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.data.check import CheckReport, Repeats, Shared, check_file
from qt_bert.data.pairs import GradeMap
from qt_bert.data.reader import PairReader

Write = Callable[[str, str | bytes], Path]

FILE = """query\ttitle\tgrade
甲\t标题一\t1
甲\t标题一\t2
乙乙\t二\t3
bad
甲\t标题一\t1
乙乙\t二\t
丙丙丙\t三三\tx
丁\t四\t5
丁\t四\t5
"""


@pytest.fixture
def report(write: Write) -> CheckReport:
    other = write("other.csv", "query,title\n甲,别的\n甲,标题一\n丁,五\n戊,六\n")
    reader = PairReader(write("f.tsv", FILE), grade_map=GradeMap.identity())
    return check_file(reader, PairReader(other))


def test_rows_and_rejects(report: CheckReport) -> None:
    assert (report.rows, report.accepted, report.rejected) == (9, 8, 1)
    assert report.reasons == {"too few fields": 1}


def test_labels_and_grades(report: CheckReport) -> None:
    assert report.labels == {"": 1, "1": 2, "2": 1, "3": 1, "5": 2, "x": 1}
    assert report.grades == {"1": 2, "2": 1, "3": 1, "5": 2}
    assert report.bad_grades == 1


def test_lengths(report: CheckReport) -> None:
    # Query lengths sorted: 1 1 1 1 1 2 2 3; the 95th percentile lies at index 6.65.
    lengths = report.query_lengths
    assert (lengths.min, lengths.median, lengths.max) == (1, 1.0, 3)
    assert lengths.p95 == pytest.approx(2.65)
    assert (report.title_lengths.min, report.title_lengths.max) == (1, 3)


def test_duplicates(report: CheckReport) -> None:
    assert report.duplicates == Repeats(rows=7, distinct=3, lines=[[2, 3, 6], [4, 7], [9, 10]])


def test_a_missing_label_contradicts_nothing(report: CheckReport) -> None:
    assert report.contradicting == Repeats(rows=3, distinct=1, lines=[[2, 3, 6]])


def test_what_is_shared_with_another_file(report: CheckReport) -> None:
    assert report.shared_queries == Shared(rows=5, distinct=2, lines=[2, 3, 6, 9, 10])
    assert report.shared_pairs == Shared(rows=3, distinct=1, lines=[2, 3, 6])


def test_equal_grades_under_two_labels_do_not_contradict(write: Write) -> None:
    path = write("f.tsv", "query\ttitle\tgrade\nq\tt\t1\nq\tt\t1.0\n")
    report = check_file(PairReader(path, grade_map=GradeMap.identity()))
    assert (report.duplicates.distinct, report.contradicting.distinct) == (1, 0)


def test_many_labels_are_counted_together(write: Write) -> None:
    rows = "".join(f"q\tt\t{i}\n" for i in range(1200))
    labels = check_file(PairReader(write("f.tsv", f"query\ttitle\tgrade\n{rows}"))).labels
    assert (len(labels), labels["(other labels)"]) == (1001, 200)


def test_the_report_is_readable(report: CheckReport) -> None:
    text = report.render()
    for line in (
        "rows: 9 = 8 pairs + 1 rejects",
        "  reject, too few fields: 1",
        "label (none): 1",
        "grade 5: 2",
        "labels that are no grade: 1",
        "duplicate pairs: 3 in 7 rows (lines 2 and 3 and 6; 4 and 7; 9 and 10)",
    ):
        assert line in text.split("\n")
