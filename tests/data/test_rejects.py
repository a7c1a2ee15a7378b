from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.data.pairs import Reason, Reject
from qt_bert.data.reader import PairReader, RejectLog, read_pairs
from qt_bert.errors import ArgumentError, PairFileError

Write = Callable[[str, str | bytes], Path]


def test_each_reject_has_line_reason_and_text(write: Write, tmp_path: Path) -> None:
    path = write("f.tsv", "query\ttitle\nq\tt\na\tb\tc\n\tt\n")
    read_pairs(path, rejects_path=tmp_path / "out" / "rejects.tsv")
    assert (tmp_path / "out" / "rejects.tsv").read_text("utf-8") == (
        "line\treason\ttext\n3\ttoo many fields\ta b c\n4\tempty query\t t\n"
    )


def test_texts_are_cut_and_stay_on_one_line(tmp_path: Path) -> None:
    with RejectLog(tmp_path / "r.tsv") as log:
        log.write(Reject.of(7, Reason.BAD_JSON, "a\u2028\x85\r\n\ud800" + "长" * 500))
    written = (tmp_path / "r.tsv").read_text("utf-8")
    assert written == "line\treason\ttext\n7\tbad JSON\ta    \\ud800" + "长" * 194 + "\n"


def test_without_a_reject_there_is_no_file_and_an_old_one_goes(
    write: Write, tmp_path: Path
) -> None:
    old = write("rejects.tsv", "line\treason\ttext\n1\tbad JSON\tx\n")
    read_pairs(write("f.tsv", "query\ttitle\nq\tt\n"), rejects_path=old)
    assert not old.exists()


def test_the_list_is_there_when_reading_stops(write: Write, tmp_path: Path) -> None:
    path = write("f.tsv", "query\ttitle\nq\tt\n" + "bad\n" * 20)
    with pytest.raises(PairFileError, match=r"all are listed in .*rejects\.tsv"):
        read_pairs(path, rejects_path=tmp_path / "rejects.tsv")
    assert len((tmp_path / "rejects.tsv").read_text("utf-8").splitlines()) == 21


def test_the_list_is_there_when_the_caller_stops(write: Write, tmp_path: Path) -> None:
    path = write("f.tsv", "query\ttitle\nbad\nq\tt\nq\tt\n")
    pairs = iter(PairReader(path, rejects_path=tmp_path / "rejects.tsv"))
    next(pairs)
    pairs.close()  # type: ignore[attr-defined]
    assert (tmp_path / "rejects.tsv").exists()


def test_a_place_that_cannot_be_written(write: Write, tmp_path: Path) -> None:
    path = write("f.tsv", "query\ttitle\nbad\nq\tt\n")
    with pytest.raises(ArgumentError, match="cannot be written"):
        read_pairs(path, rejects_path=path / "rejects.tsv")
