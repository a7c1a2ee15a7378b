"""The end of a scoring run: its parts looked at once more, one list of rejects, and the totals."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from qt_bert.errors import RunFolderError
from qt_bert.pairs.rejects import describe
from qt_bert.scale.ledger.checking import remove_strays, wrong_contents, wrong_sizes
from qt_bert.scale.ledger.layout import REJECTS, REJECTS_LIST
from qt_bert.scale.ledger.lines import OutFile
from qt_bert.scale.ledger.opening import Standing, remove_leftovers
from qt_bert.scale.ledger.record import RunRecord
from qt_bert.scale.ledger.rejects import first_reject, joined_rejects
from qt_bert.scale.ledger.storage import Storage
from qt_bert.scale.ledger.totals import Judge, totals_of


def end(storage: Storage, standing: Standing, repeated: Collection[int]) -> RunRecord:
    """Write what a finished run has, and then that it is finished; its record.

    `repeated` are partitions that were done twice. Raises RunFolderError where a part or a list of
    rejects is not what was stored, and OSError.
    """
    _check_parts(storage, standing, repeated)
    rejects = _join_rejects(storage, standing)
    remove_strays(storage, standing.lines.values())
    totals = totals_of(standing.lines.values())
    record = replace(standing.record, totals=totals, rejects=rejects, complete=True)
    record.write(storage)
    remove_leftovers(storage)
    return record


def _check_parts(storage: Storage, standing: Standing, repeated: Collection[int]) -> None:
    """By size; those that were done twice, whose part may be either worker's, by their bytes."""
    twice = {number: standing.lines[number] for number in repeated}
    wrong = wrong_sizes(storage, standing.lines) or wrong_contents(storage, twice)
    if wrong:
        raise RunFolderError(
            f"{storage}: {len(wrong):,} parts are not what was stored, the first: "
            f"{next(iter(wrong.values()))}; --resume does them again"
        )


def _join_rejects(storage: Storage, standing: Standing) -> OutFile | None:
    if not any(line.rejected for line in standing.lines.values()):
        storage.remove(REJECTS_LIST)
        return None
    passed = _Passed(joined_rejects(storage, standing.lines))
    storage.write(REJECTS_LIST, passed)
    return OutFile(name=REJECTS_LIST, bytes=passed.bytes, sha256=passed.digest.hexdigest())


class _Passed:
    """Chunks, with the hash and the size of those that have passed."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.digest = hashlib.sha256()
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.digest.update(chunk)
            self.bytes += len(chunk)
            yield chunk


def too_many_rejects(storage: Storage, standing: Standing, judge: Judge) -> str:
    """Why a run stops that has more rejects than it may."""
    return (
        f"{_inputs(standing)}: {judge.rejected:,} of the first {judge.rows:,} rows are rejects, more "
        f"than --max-rejects {judge.max_rejects:g} allows ({_reasons(storage, standing, judge)}); "
        f"all are listed in {storage}/{REJECTS}; --resume goes on under a larger --max-rejects"
    )


def not_one_pair(storage: Storage, standing: Standing, judge: Judge) -> str:
    """Why a run fails that has scored nothing."""
    if not judge.rows:
        return f"{_inputs(standing)}: no rows"
    return (
        f"{_inputs(standing)}: not one of {judge.rows:,} rows is a pair "
        f"({_reasons(storage, standing, judge)}); all are listed in {storage}/{REJECTS}"
    )


def _inputs(standing: Standing) -> str:
    files = {part.file for part in standing.partitions.parts}
    return files.pop() if len(files) == 1 else f"{len(files):,} files"


def _reasons(storage: Storage, standing: Standing, judge: Judge) -> str:
    counts = describe(judge.most(), None)
    if (first := first_reject(storage, standing.lines)) is None:
        return counts
    file, line, text = first
    return f"{counts}; the first is {file}, line {line}, {text[:80]!r}"
