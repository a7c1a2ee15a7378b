"""The driver's part, with workers that only say things: faults, failures and kills."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from qt_bert.cluster.ledger import Ledger
from qt_bert.cluster.ray import EngineError
from qt_bert.cluster.record import Fault, to_text
from qt_bert.cluster.score import Filling, Patience
from qt_bert.data.parts import FilePart
from qt_bert.errors import CheckpointError, PairFileError, QtBertError, RunFolderError
from qt_bert.progress import silent
from tests.cluster.ledger_runs import open_run, some_parts, work

Answer = Callable[[FilePart], str]


class Crew:
    """Answers every part by `answer`; remembers the rounds, and may give up behind some answers."""

    def __init__(self, answer: Answer, gives_up_after: int | None = None) -> None:
        self.answer, self.gives_up_after = answer, gives_up_after
        self.rounds: list[list[int]] = []

    def __call__(self, parts: Sequence[FilePart]) -> Generator[str, None, None]:
        self.rounds.append([part.first for part in parts])
        for number, part in enumerate(parts):
            if number == self.gives_up_after:
                raise EngineError("ActorDiedError: gone")
            yield self.answer(part)


class Counted:
    """Progress that adds up."""

    def __init__(self) -> None:
        self.rows = 0

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.rows += amount


def scored(out: Path) -> Answer:
    return lambda part: to_text(work(out, part))


def faulty(kind: Any, again: bool, message: str = "it broke") -> Answer:
    return lambda part: to_text(
        Fault(partition=part.name(), kind=kind, message=message, again=again, node="n1")
    )


def filling(ledger: Ledger, crew: Crew, round: int = 3, **options: Any) -> Filling:
    return Filling(ledger, crew, round, options.pop("shown", silent), **options)


def test_all_is_handed_out_in_rounds_and_counted_by_rows(tmp_path: Path) -> None:
    ledger, crew, shown = open_run(tmp_path, some_parts(7)), Crew(scored(tmp_path)), Counted()
    filling(ledger, crew, shown=shown).fill()
    assert [len(one) for one in crew.rounds] == [3, 3, 1]
    assert not ledger.missing() and shown.rows == 28
    assert ledger.finish().complete


def test_a_partition_said_twice_is_counted_once(tmp_path: Path) -> None:
    ledger, shown = open_run(tmp_path, some_parts(2)), Counted()

    def twice(parts: Sequence[FilePart]) -> Generator[str, None, None]:
        for part in parts:
            yield to_text(work(tmp_path, part))
            yield to_text(work(tmp_path, part))

    Filling(ledger, twice, 5, shown).fill()
    assert shown.rows == 8 and ledger.pairs == 8


@pytest.mark.parametrize(
    ("kind", "again", "error", "rounds"),
    [
        ("input", False, PairFileError, 1),
        ("input", True, PairFileError, 3),
        ("disk", True, RunFolderError, 1),
        ("memory", True, RunFolderError, 3),
        ("model", False, CheckpointError, 1),
        ("model", True, CheckpointError, 3),
        ("program", False, RunFolderError, 1),
    ],
)
def test_a_fault_is_tried_again_only_where_that_may_help(
    tmp_path: Path, kind: str, again: bool, error: type[QtBertError], rounds: int
) -> None:
    ledger = open_run(tmp_path, some_parts(1))
    crew = Crew(faulty(kind, again))
    with pytest.raises(error, match=r"it broke \(on n1.*0 of 4 rows are done; .*--resume"):
        filling(ledger, crew, patience=Patience(attempts=3, idle_rounds=9)).fill()
    assert len(crew.rounds) == rounds


def test_a_fault_stops_the_run_and_what_came_before_stays(tmp_path: Path) -> None:
    parts = some_parts(5)
    ledger = open_run(tmp_path, parts)
    bad = faulty("input", False, "a.tsv: changed since it was scanned; start anew with --overwrite")
    crew = Crew(lambda part: bad(part) if part == parts[3] else to_text(work(tmp_path, part)))
    with pytest.raises(PairFileError, match="changed since it was scanned") as raised:
        filling(ledger, crew, round=9).fill()
    assert "12 of 20 rows are done" in str(raised.value)
    assert str(raised.value).endswith("--resume goes on")
    again = open_run(tmp_path, parts, resume=True)
    assert again.missing() == parts[3:]


def test_a_round_that_fails_is_planned_anew_from_what_is_missing(tmp_path: Path) -> None:
    ledger, crew = open_run(tmp_path, some_parts(5)), Crew(scored(tmp_path), gives_up_after=2)
    filling(ledger, crew, round=4).fill()
    assert [len(one) for one in crew.rounds] == [4, 3, 1]
    assert not ledger.missing()


def test_rounds_without_any_progress_end_in_an_error(tmp_path: Path) -> None:
    ledger, crew = open_run(tmp_path, some_parts(5)), Crew(scored(tmp_path), gives_up_after=0)
    with pytest.raises(RunFolderError, match=r"Ray gave up: ActorDiedError: gone \(3 rounds"):
        filling(ledger, crew).fill()
    assert len(crew.rounds) == 3


def test_an_engine_that_drops_items_silently_is_found_out(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, some_parts(2))

    def nothing(parts: Sequence[FilePart]) -> Generator[str, None, None]:
        yield from ()

    with pytest.raises(RunFolderError, match="no worker finished a partition"):
        Filling(ledger, nothing, 5, silent).fill()


def test_ctrl_c_keeps_what_was_said(tmp_path: Path) -> None:
    parts = some_parts(3)
    ledger = open_run(tmp_path, parts)
    ended: list[bool] = []

    def interrupted(asked: Sequence[FilePart]) -> Generator[str, None, None]:
        try:
            yield to_text(work(tmp_path, asked[0]))
            raise KeyboardInterrupt
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        Filling(ledger, interrupted, 5, silent).fill()
    assert ended and open_run(tmp_path, parts, resume=True).missing() == parts[1:]
