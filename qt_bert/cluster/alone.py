"""The throw-away process: scores one partition, or row after row of it, and may die of that.

`python -m qt_bert.cluster.alone` reads one request as JSON from standard input and answers on
standard output, one JSON object a line: that it is alive, the row it is about to score, what became
of it, and at the end what it made (the table lies in a file) or a fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from qt_bert.cluster.faults import Outcome, Tally, fault_of, is_fault, score_halving
from qt_bert.cluster.partition import (
    PairModel,
    ScorePairs,
    make_part,
    open_model,
    rows_of,
    texts_of,
)
from qt_bert.cluster.processes import Say, die_with, own_voice
from qt_bert.cluster.rescue import Request, Row
from qt_bert.codec import decode, encode
from qt_bert.data.pairs import Pair
from qt_bert.data.parts import FilePart


def main() -> None:
    """Read the request, answer it."""
    say = own_voice()
    request: Request = decode(Request, json.load(sys.stdin), "the request")
    die_with(request.parent)
    part = FilePart.from_json(request.part)
    try:
        _answer(request, part, say)
    except BaseException as error:
        if not is_fault(error):
            raise
        say({"fault": fault_of(error, part.name(), request.attempt).describe()})


def _answer(request: Request, part: FilePart, say: Say) -> None:
    model = open_model(request.job)
    say({"alive": True})
    spared = {int(line): reason for line, reason in request.spared.items()}
    if request.task == "rows":
        wanted = [pair for pair in rows_of(part, request.job)[0] if pair.line > request.after]
        _score_each([pair for pair in wanted if pair.line not in spared], model, say)
        return
    score = _known(request) if request.task == "given" else _together(model, say)
    made = make_part(part, request.job, score, model.outputs, spared)
    if made.table is not None:
        Path(request.table).write_bytes(made.table)
    say({"made": encode(replace(made, table=None))})


def _score_each(pairs: Sequence[Pair], model: PairModel, say: Say) -> None:
    for pair in pairs:
        say({"line": pair.line})
        found = score_halving(texts_of([pair]), model.answer, model.trial)
        say({"row": encode(_row(pair, found))})
    say({"end": True})


def _together(model: PairModel, say: Say) -> ScorePairs:
    """Scores all rows as any worker does."""
    answer = partial(model.answer, shown=_Heard(say))
    return lambda pairs: score_halving(texts_of(pairs), answer, model.trial)


def _known(request: Request) -> ScorePairs:
    """Knows what became of each row."""
    known = {row.line: row for row in request.given}
    return lambda pairs: _joined([known[pair.line] for pair in pairs])


def _row(pair: Pair, found: Outcome) -> Row:
    logits = tuple(map(float, found.logits[0])) if len(found.places) else None
    return Row(line=pair.line, logits=logits, reason=found.rejected.get(0), tally=found.tally)


def _joined(rows: Sequence[Row]) -> Outcome:
    """What became of rows one by one, as if of one piece."""
    places = [place for place, row in enumerate(rows) if row.logits is not None]
    return Outcome(
        places=np.array(places, np.int64),
        logits=np.array([rows[place].logits for place in places], np.float32),
        rejected={place: row.reason for place, row in enumerate(rows) if row.reason is not None},
        tally=sum((row.tally for row in rows), Tally()),
        halved=True,
    )


@dataclass(frozen=True)
class _Heard:
    """Progress that only says that the process lives."""

    say: Say

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.say({"alive": True})


if __name__ == "__main__":
    main()
