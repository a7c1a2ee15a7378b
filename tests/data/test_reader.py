from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.data.pairs import GradeMap, LevelMap
from qt_bert.data.reader import PairReader, read_pairs
from qt_bert.errors import ArgumentError, PairFileError

Write = Callable[[str, str | bytes], Path]


def test_a_pair_has_all_its_parts(write: Write) -> None:
    path = write("f.tsv", "id\tquery\ttitle\tgrade\tfield\nx9\t 查询\t标题 \t4\t旅游\n")
    (pair,) = read_pairs(path, grade_map=GradeMap.identity())
    assert (pair.query, pair.title, pair.grades, pair.id) == (" 查询", "标题 ", (4,), "x9")
    assert (pair.line, pair.label, dict(pair.extra)) == (2, "4", {"field": "旅游"})


@pytest.mark.parametrize("name", ["f.tsv", "f.txt", "f.TSV"])
def test_suffixes(write: Write, name: str) -> None:
    reader = PairReader(write(name, "query\ttitle\nq\tt\n"))
    assert (reader.format, reader.encoding, len(list(reader))) == ("tsv", "utf-8", 1)


@pytest.mark.parametrize("name", ["f.xlsx", "f", "f.gz", "f.tsv.zip", "f.json"])
def test_an_unknown_suffix_names_the_known_ones(write: Write, name: str) -> None:
    with pytest.raises(PairFileError, match=r"\.tsv, \.txt, \.csv, \.jsonl"):
        PairReader(write(name, "x"))


def test_an_empty_id_is_the_line_number(write: Write) -> None:
    path = write("f.tsv", "query\ttitle\tid\nq\tt\t\nq\tt\ta\n")
    assert [pair.id for pair in read_pairs(path)] == ["2", "a"]


def test_a_title_of_a_megabyte_passes_whole(write: Write) -> None:
    title = "长" * 350_000
    (pair,) = read_pairs(write("f.tsv", f"query\ttitle\nq\t{title}\n"))
    assert pair.title == title


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("\tt", "empty query"),
        ("\u3000 \tt", "empty query"),
        ("q\t\u2003", "empty title"),
        ("a\0b\tt", "NUL character"),
        ("q\t\0", "NUL character"),
    ],
)
def test_rows_that_are_no_pairs(write: Write, row: str, reason: str) -> None:
    reader = PairReader(write("f.tsv", f"query\ttitle\nq\tt\n{row}\nq\tt\n"))
    assert [pair.line for pair in reader] == [2, 4]
    assert (reader.reasons, reader.rows_read, reader.accepted) == ({reason: 1}, 3, 2)


GRADED = "query\ttitle\tgrade\nq\tt\t2\nq\tt\t\nq\tt\tgood\n"


def test_without_a_map_labels_stay_text(write: Write) -> None:
    pairs = read_pairs(write("f.tsv", GRADED))
    assert [(p.label, p.grades) for p in pairs] == [("2", None), (None, None), ("good", None)]


def test_a_bad_grade_costs_no_row_where_grades_are_optional(write: Write) -> None:
    reader = PairReader(write("f.tsv", GRADED), grade_map=GradeMap.parse("2=3-4"))
    assert [(p.label, p.grades) for p in reader] == [("2", (3, 4)), (None, None), ("good", None)]
    assert (reader.rejected, reader.bad_grades) == (0, 1)


def test_required_grades_reject_rows_without_a_good_one(write: Write) -> None:
    reader = PairReader(write("f.tsv", GRADED), grade_map=GradeMap.identity(), grade_required=True)
    assert [p.grades for p in reader] == [(2,)]
    assert reader.reasons == {"missing grade": 1, "bad grade": 1}


def test_required_grades_need_a_column(write: Write) -> None:
    with pytest.raises(PairFileError, match="no column 'grade'"):
        read_pairs(write("f.tsv", "query\ttitle\nq\tt\n"), grade_required=True)


def test_levels_are_read_in_place_of_grades(write: Write) -> None:
    path = write("f.tsv", "query\ttitle\tgrade\nq\tt\t0\nq\tt\t2\n")
    assert [p.grades for p in read_pairs(path, grade_map=LevelMap.parse("3"))] == [(1,), (3,)]


def rows(good: int, bad: int) -> str:
    return "query\ttitle\n" + "q\tt\n" * good + "\n".join(["bad"] * bad)


def test_ten_rejects_are_always_tolerated(write: Write) -> None:
    assert len(read_pairs(write("f.tsv", rows(1, 10)), max_rejects=0)) == 1


def test_eleven_rejects_of_few_rows_are_too_many(write: Write) -> None:
    with pytest.raises(PairFileError, match=r"11 of the first 12 rows.*too few fields: 11"):
        read_pairs(write("f.tsv", rows(1, 11)))


def test_the_share_of_rejects_counts_above_ten(write: Write) -> None:
    assert len(read_pairs(write("f.tsv", rows(1089, 11)))) == 1089
    with pytest.raises(PairFileError, match="--max-rejects"):
        read_pairs(write("f.tsv", rows(1088, 11)))


def test_rejects_are_judged_every_ten_thousand_rows(write: Write) -> None:
    body = "bad\n" * 101 + "q\tt\n" * 20_000
    reader = PairReader(write("f.tsv", "query\ttitle\n" + body))
    with pytest.raises(PairFileError, match="101 of the first 10,000 rows"):
        list(reader)
    assert (reader.rows_read, reader.accepted) == (10_000, 9_899)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("query\ttitle\n", "has no rows"), (rows(0, 3), "not one of 3 rows is a pair")],
)
def test_a_file_without_a_pair_is_an_error(write: Write, content: str, reason: str) -> None:
    with pytest.raises(PairFileError, match=reason):
        read_pairs(write("f.tsv", content), max_rejects=1)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_from_zero_to_one(write: Write, share: float) -> None:
    with pytest.raises(ArgumentError, match="--max-rejects"):
        PairReader(write("f.tsv", rows(1, 0)), max_rejects=share)


def test_rejects_never_overwrite_the_pairs(write: Write) -> None:
    path = write("f.tsv", rows(1, 1))
    with pytest.raises(ArgumentError, match="overwrite"):
        PairReader(path, rejects_path=path)


def test_reading_again_counts_anew(write: Write) -> None:
    reader = PairReader(write("f.tsv", rows(2, 1)))
    assert list(reader) == list(reader)
    assert (reader.rows_read, reader.accepted, reader.rejected) == (3, 2, 1)


def test_a_file_that_vanishes_is_an_error(write: Write) -> None:
    path = write("f.tsv", rows(2, 1))
    reader = PairReader(path)
    path.unlink()
    with pytest.raises(PairFileError, match="No such file"):
        list(reader)


def test_memory_does_not_grow_with_the_file(write: Write) -> None:
    def peak(count: int) -> int:
        reader = PairReader(write(f"{count}.tsv", rows(count, 0)))
        tracemalloc.start()
        for _ in reader:
            pass
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(10)
    assert peak(20_000) < peak(1_000) + 50_000


def test_empty_lines_without_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("qt_bert.data.lines.MAX_EMPTY_LINES", 100)
    path = tmp_path / "blank.tsv"
    path.write_text("query\ttitle\n" + "\n" * 50 + "a\tb\n" + "\n" * 50 + "c\td\n", "utf-8")
    assert len(list(PairReader(path))) == 2
    path.write_text("query\ttitle\na\tb\n" + "\n" * 200, "utf-8")
    with pytest.raises(PairFileError, match="100 empty lines in a row up to line 103"):
        list(PairReader(path))
