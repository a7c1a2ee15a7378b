"""An uploaded graded file: what is read, what is drawn, and what is said of a bad one."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections import Counter

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.inspection import inputs
from qt_bert.inspection.views import evaluation
from qt_bert.inspection.views.evaluation import FileFault, draw, read_graded, shipped_graded
from qt_bert.models.card import ModelLabels

GRADES = ModelLabels(5, tuple((g,) for g in range(1, 6)))
ONE, THREE = ModelLabels(1, None), ModelLabels(3, None)
PLAIN = ReaderOptions()


def tsv(rows: list[tuple[object, ...]], header: str = "query\ttitle\tgrade") -> bytes:
    return "\n".join([header, *("\t".join(map(str, row)) for row in rows)]).encode() + b"\n"


GOOD = tsv([("甲", "一", 5), ("甲", "二", 1), ("乙", "三", 3)])


def fault(data: bytes, name: str = "a.tsv", options: ReaderOptions = PLAIN) -> FileFault:
    with pytest.raises(FileFault) as caught:
        read_graded(data, name, options, GRADES)
    assert "/tmp" not in caught.value.said.en + caught.value.said.zh
    assert len(caught.value.said.en) < 1000
    return caught.value


def test_a_file_with_rejects() -> None:
    bad = GOOD + "丙\t四\t9\n丁\t五\n".encode()
    found = read_graded(bad, "a.tsv", PLAIN, GRADES)
    assert [(p.query, p.title, p.grades) for p in found.pairs] == [
        ("甲", "一", (5,)),
        ("甲", "二", (1,)),
        ("乙", "三", (3,)),
    ]
    assert (found.n_pairs, found.n_queries, found.rejected, found.whole) == (3, 2, 2, True)
    assert [(r.line, r.reason) for r in found.rejects] == [(5, "bad grade"), (6, "too few fields")]


def test_columns_and_grades_as_the_command_reads_them() -> None:
    data = tsv([("0", "一", "甲"), ("2", "二", "甲")], "lab\tt\tq")
    options = ReaderOptions("query=q,title=t,grade=lab", grades="0=1-2,1=3-4,2=5")
    found = read_graded(data, "a.tsv", options, GRADES)
    assert [(p.query, p.grades) for p in found.pairs] == [("甲", (1, 2)), ("甲", (5,))]


def test_json_lines_and_gb18030() -> None:
    line = '{"query": "甲", "title": "一", "grade": 4}\n'
    assert read_graded(line.encode(), "a.jsonl", PLAIN, GRADES).pairs[0].grades == (4,)
    found = read_graded(GOOD.decode().encode("gb18030"), "a.tsv", PLAIN, GRADES)
    assert found.pairs[0].query == "甲"


def test_levels_of_a_model_that_has_no_grades() -> None:
    data = tsv([("甲", "一", 0), ("甲", "二", 2)])
    assert [p.grades for p in read_graded(data, "a.tsv", PLAIN, THREE).pairs] == [(1,), (3,)]


def test_nothing_stays_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(inputs.tempfile, "tempdir", str(tmp_path))
    read_graded(GOOD, "a.tsv", PLAIN, GRADES)
    fault(b"\x00" * 100)
    assert list(tmp_path.iterdir()) == []  # type: ignore[attr-defined]


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.tsv"), GOOD)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (zipped(), "a.tsv", "a zip archive"),
        (b"\x00\x01" * 5000, "a.tsv", "binary"),
        (b"", "a.tsv", "empty"),
        (b"a" * (11 * 2**20), "a.tsv", "larger than 10 MB"),
        (gzip.compress(GOOD, mtime=0), "a.tsv.gz", "plain text files"),
        (GOOD, "a.exe", "plain text files"),
        (b"query\ttitle\tgrade\n", "a.tsv", "no rows"),
        (b"{", "a.jsonl", "not one of 1 rows is a pair"),
    ],
)
def test_hostile_files_get_a_plain_word(data: bytes, name: str, said: str) -> None:
    found = fault(data, name)
    assert found.field == "file"
    assert said in found.said.en


def test_ten_megabytes_of_one_line() -> None:
    found = fault(b"x" * (10 * 2**20))
    assert found.field == "columns"
    assert "no column 'query'" in found.said.en


def test_two_columns_of_one_very_long_name() -> None:
    long = "x" * 100_000
    assert len(fault(f"{long}\t{long}\n".encode()).said.zh) < 1000


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (ReaderOptions(columns="query"), "columns"),
        (ReaderOptions(columns="query=a,title=a"), "columns"),
        (ReaderOptions(columns="query=nowhere"), "columns"),
        (ReaderOptions(columns="q=query"), "columns"),
        (ReaderOptions(grades="0=7"), "grades"),
        (ReaderOptions(grades="nonsense"), "grades"),
        (ReaderOptions(no_header=True, columns="query=q"), "columns"),
    ],
)
def test_an_error_stands_beside_its_field(options: ReaderOptions, field: str) -> None:
    assert fault(GOOD, options=options).field == field


def test_labels_that_are_no_grades() -> None:
    found = fault(tsv([("甲", "一", "good")] * 3))
    assert found.field == "grades"
    assert [reject.reason for reject in found.rejects] == ["bad grade"] * 3


def test_no_labels_at_all() -> None:
    assert fault(tsv([("甲", "一")], "query\ttitle")).field == "columns"


def test_labels_of_several_levels_for_a_model_without_grades() -> None:
    options = ReaderOptions(grades="0=1-2,1=3")
    with pytest.raises(FileFault) as caught:
        read_graded(tsv([("甲", "一", 0)]), "a.tsv", options, THREE)
    assert caught.value.field == "grades"


def pairs(sizes: list[int]) -> list[Pair]:
    return [
        Pair(f"q{query}", f"t{n}", (1,), "1", 1, "1", {})
        for query, size in enumerate(sizes)
        for n in range(size)
    ]


def test_a_draw_takes_whole_queries_and_no_more_than_it_may() -> None:
    sizes = [3, 5, 2, 4, 5, 1] * 20
    found = draw(pairs(sizes), seed=1, most=100)
    counts = Counter(pair.query for pair in found)
    assert 90 < len(found) <= 100
    assert all(counts[query] == sizes[int(query[1:])] for query in counts)
    assert found == [pair for pair in pairs(sizes) if pair.query in counts]
    assert draw(pairs(sizes), seed=1, most=100) == found != draw(pairs(sizes), seed=2, most=100)


def test_a_draw_of_one_large_query() -> None:
    found = draw(pairs([500, 2, 2]), most=100)
    assert len(found) == 100
    assert {pair.query for pair in found} == {"q0", "q1", "q2"}
    assert len(draw(pairs([5]), most=100)) == 5


def test_a_long_file_is_drawn_of_its_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MOST_ROWS_READ", 4)
    rows = [(f"q{n}", "t", 1) for n in range(6)]
    found = read_graded(tsv(rows), "a.tsv", PLAIN, GRADES)
    assert (found.n_pairs, found.unread, found.whole) == (4, True, False)
    assert not read_graded(tsv(rows[:4]), "a.tsv", PLAIN, GRADES).unread


def test_what_ships() -> None:
    found = shipped_graded(GRADES)
    assert found.whole and found.n_pairs == len(found.pairs) > 100
    assert shipped_graded(ONE).n_pairs == found.n_pairs
    with pytest.raises(FileFault, match="cannot judge this model: test.tsv"):
        shipped_graded(THREE)
