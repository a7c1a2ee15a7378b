"""Rejects of a whole run: one list, how many are too many, and runs without a pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from qt_bert.cluster.record import HEADER, rejects_table
from qt_bert.cluster.storage import rejects_file
from qt_bert.data.pairs import Reject
from qt_bert.data.reader import RejectLog
from qt_bert.errors import ArgumentError, PairFileError
from tests.cluster.ledger_runs import complete, open_run, some_parts, work


def test_cells_are_cleaned_as_in_a_list_of_plain_rejects(tmp_path: Path) -> None:
    breaks = "a\tb\r\nc\x0bd\x0ce\x1cf\x1dg\x1eh\x85i\u2028j\u2029k\ud800长"
    reject = Reject(3, "bad JSON", breaks)
    with RejectLog(tmp_path / "plain.tsv") as log:
        log.write(reject)
    plain = (tmp_path / "plain.tsv").read_bytes().splitlines()[1]
    assert rejects_table("a\tb.tsv", [reject]) == HEADER + b"a b.tsv\t" + plain + b"\n"


def test_a_partition_of_rejects_alone_has_no_part(tmp_path: Path) -> None:
    parts = some_parts(2)
    ledger = open_run(tmp_path, parts)
    line = work(tmp_path, parts[0], rejected=4)
    assert line.part is None
    ledger.done(line)
    assert open_run(tmp_path, parts, resume=True).missing() == parts[1:]
    complete(open_run(tmp_path, parts, resume=True), tmp_path, {})
    assert len(list((tmp_path / "parts").iterdir())) == 1
    assert len((tmp_path / "rejects.tsv").read_text().splitlines()) == 5


def test_a_run_without_rejects_has_no_list(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, some_parts(2))
    (tmp_path / "rejects.tsv").write_text("of a run that was killed in its end")
    complete(ledger, tmp_path, {})
    assert not (tmp_path / "rejects.tsv").exists()
    assert ledger.record.rejects is None


def test_partitions_done_in_any_order_are_listed_in_that_of_the_files(tmp_path: Path) -> None:
    parts = [*some_parts(2), *some_parts(2, file="day/b.tsv")]
    ledger = open_run(tmp_path, parts)
    for part in reversed(parts):
        ledger.done(work(tmp_path, part, rejected=1))
    ledger.finish()
    rows = [row.split("\t")[:2] for row in (tmp_path / "rejects.tsv").read_text().splitlines()[1:]]
    assert rows == [["day/a.tsv", "2"], ["day/a.tsv", "6"], ["day/b.tsv", "2"], ["day/b.tsv", "6"]]


def test_too_many_rejects_stop_the_run_once_ten_thousand_rows_are_done(tmp_path: Path) -> None:
    parts = some_parts(4, rows=4_000)
    ledger = open_run(tmp_path, parts, max_rejects=0.01)
    ledger.done(work(tmp_path, parts[2], rejected=120))  # 3 % of 4,000 rows: too early to say
    ledger.done(work(tmp_path, parts[1], rejected=1))
    with pytest.raises(PairFileError) as stopped:
        ledger.done(work(tmp_path, parts[0]))
    assert str(stopped.value) == (
        "day/a.tsv: 121 of the first 12,000 rows are rejects, more than --max-rejects 0.01 allows "
        "(empty title: 121; the first is day/a.tsv, line 4002, 'q4002 '); all are listed in "
        f"{tmp_path}/rejects; --resume goes on under a larger --max-rejects"
    )
    complete(open_run(tmp_path, parts, resume=True, max_rejects=0.02), tmp_path, {})


def test_a_share_that_is_allowed_goes_on(tmp_path: Path) -> None:
    parts = some_parts(3, rows=4_000)
    ledger = open_run(tmp_path, parts, max_rejects=0.01)
    for part in parts:
        ledger.done(work(tmp_path, part, rejected=40))
    assert ledger.finish().complete


def test_a_partition_that_is_done_twice_is_judged_once(tmp_path: Path) -> None:
    parts = some_parts(1, rows=12_000)
    ledger = open_run(tmp_path, parts, max_rejects=0.01)
    for _ in range(3):
        ledger.done(work(tmp_path, parts[0], rejected=120))
    assert (ledger.rejected, ledger.rows_done) == (120, 12_000)
    assert ledger.finish().complete


def test_a_short_run_is_judged_at_its_end(tmp_path: Path) -> None:
    parts = [*some_parts(1, rows=20), *some_parts(1, rows=20, file="day/b.tsv")]
    ledger = open_run(tmp_path, parts, max_rejects=0.1)
    for part in parts:
        ledger.done(work(tmp_path, part, rejected=6))
    with pytest.raises(PairFileError, match="^2 files: 12 of the first 40 rows are rejects"):
        ledger.finish()
    assert (tmp_path / rejects_file(parts[0].name())).is_file()


def test_ten_rejects_are_always_tolerated(tmp_path: Path) -> None:
    parts = some_parts(1, rows=20)
    ledger = open_run(tmp_path, parts, max_rejects=0)
    ledger.done(work(tmp_path, parts[0], rejected=10))
    assert ledger.finish().complete


def test_a_run_without_a_pair_is_an_error(tmp_path: Path) -> None:
    parts = some_parts(2)
    ledger = open_run(tmp_path, parts, max_rejects=1.0)
    for part in parts:
        ledger.done(work(tmp_path, part, rejected=4))
    with pytest.raises(
        PairFileError, match=r"not one of 8 rows is a pair \(empty title: 8; the first"
    ):
        ledger.finish()
    assert not ledger.record.complete


def test_of_many_reasons_the_most_frequent_are_said(tmp_path: Path) -> None:
    parts = some_parts(1, rows=100)
    reasons = {f"raises ValueError: {i:02}": 1 for i in range(12)} | {"empty title": 3}
    ledger = open_run(tmp_path, parts, max_rejects=0.1)
    ledger.done(work(tmp_path, parts[0], rejected=15, reasons=reasons))
    with pytest.raises(
        PairFileError, match=r"\(empty title: 3, others: 3, raises ValueError: 00: 1,"
    ):
        ledger.finish()


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_that_cannot_be_meant_touches_nothing(tmp_path: Path, share: float) -> None:
    with pytest.raises(ArgumentError, match="--max-rejects"):
        open_run(tmp_path, some_parts(1), max_rejects=share)
    assert not list(tmp_path.iterdir())
