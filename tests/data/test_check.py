import pytest

from qt_bert.data.check import CheckReport, Repeats, Shared, check_file
from qt_bert.data.pairs import GradeMap
from qt_bert.data.reader import PairReader

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
def report(write) -> CheckReport:
    other = write("other.csv", "query,title\n甲,别的\n甲,标题一\n丁,五\n戊,六\n")
    reader = PairReader(write("f.tsv", FILE), grade_map=GradeMap.identity())
    return check_file(reader, PairReader(other))


@pytest.mark.parametrize("label", ["1", "0.5"])
def test_equal_grades_under_two_labels_do_not_contradict(write, label):
    other = f"{label}.0" if label == "1" else f"{label}0"
    path = write("f.tsv", f"query\ttitle\tgrade\nq\tt\t{label}\nq\tt\t{other}\n")
    report = check_file(PairReader(path, grade_map=GradeMap.identity()))
    assert (report.duplicates.distinct, report.contradicting.distinct) == (1, 0)


def test_a_query_spelled_in_several_ways_is_one(write):
    path = write("f.tsv", "query\ttitle\niPhone 15\t甲\nｉphone15\t乙\n")
    other = write("o.tsv", "query\ttitle\nIPHONE15\t甲\n")
    report = check_file(PairReader(path), PairReader(other))
    assert report.queries == 1 and report.shared_queries == Shared(rows=2, distinct=1, lines=[2, 3])
    assert report.shared_pairs == Shared(rows=0, distinct=0, lines=[])


def test_many_labels_are_counted_together(write):
    rows = "".join(f"q\tt\t{i}\n" for i in range(1200))
    labels = check_file(PairReader(write("f.tsv", f"query\ttitle\tgrade\n{rows}"))).labels
    assert (len(labels), labels["(other labels)"]) == (1001, 200)


def test_all_that_is_counted(report):
    assert (report.rows, report.accepted, report.rejected) == (9, 8, 1)
    assert report.reasons == {"too few fields": 1}
    assert report.labels == {"": 1, "1": 2, "2": 1, "3": 1, "5": 2, "x": 1}
    assert report.grades == {"1": 2, "2": 1, "3": 1, "5": 2} and report.bad_grades == 1
    # Query lengths sorted: 1 1 1 1 1 2 2 3; the 95th percentile lies at index 6.65.
    lengths = report.query_lengths
    assert (lengths.min, lengths.median, lengths.max) == (1, 1.0, 3)
    assert lengths.p95 == pytest.approx(2.65)
    assert (report.title_lengths.min, report.title_lengths.max) == (1, 3)
    assert report.duplicates == Repeats(rows=7, distinct=3, lines=[[2, 3, 6], [4, 7], [9, 10]])
    assert report.contradicting == Repeats(rows=3, distinct=1, lines=[[2, 3, 6]])
    assert report.shared_queries == Shared(rows=5, distinct=2, lines=[2, 3, 6, 9, 10])
    assert report.shared_pairs == Shared(rows=3, distinct=1, lines=[2, 3, 6])
    assert "label (none): 1" in report.render()
