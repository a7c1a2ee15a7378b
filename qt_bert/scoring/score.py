"""`qt-bert score`: a file of pairs in, the same rows with grades out, in windows that resume."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from qt_bert.data.reader import PairReader, ReaderOptions
from qt_bert.data.tokenise import Counts
from qt_bert.errors import ArgumentError, QtBertError, RunFolderError
from qt_bert.files import check_apart, read_json, sha256_file, write_json
from qt_bert.models.devices import note_once
from qt_bert.progress import progress
from qt_bert.resume import begun_otherwise, goes_on
from qt_bert.scoring.bulk import WINDOW
from qt_bert.scoring.judge import AnyCalibration, PairScorer, hardly_differ, read_outputs
from qt_bert.scoring.tables import GrowingTable, InputColumns, count_rows, growing_table, windows

# What a run of `score` leaves while it is unfinished, so that a killed one can go on.


@dataclass
class ScoreReport:
    """What a finished run has to say; `already`: the output was there and nothing was done."""

    pairs: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0
    rejected: int = 0
    resumed_at: int = 0
    already: bool = False


@dataclass(frozen=True)
class RunState:
    """How far a run is: pairs written, the table's mark behind them, and what was counted."""

    pairs: int = 0
    mark: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0
    rejected: int = 0

    def report(self, resumed_at: int) -> ScoreReport:
        """What a run that ends here has to say."""
        counts = (self.pairs, self.truncated_titles, self.truncated_queries, self.rejected)
        return ScoreReport(*counts, resumed_at=resumed_at)


class Work:
    """The state file beside an output: there from before the first window until it is finished."""

    def __init__(self, out: Path, table: GrowingTable, key: str) -> None:
        self.out, self.table, self.key = out, table, key
        self.standing = RunState()
        self.path = out.with_name(f".{out.name}.progress.json")

    def finished(self) -> ScoreReport | None:
        """The report of an output that lacks nothing; None where there is work to do."""
        if not self.out.is_file():
            return None
        if not self.path.exists():
            return ScoreReport(already=True)
        key, standing = self._stored()
        if self.table.hidden.exists() or not standing.pairs or key != self.key:
            return None
        return standing.report(resumed_at=standing.pairs)

    def begin(self, resume: bool, overwrite: bool) -> RunState:
        """Where to go on. Raises RunFolderError where the flags do not fit what is there."""
        begun = self.path.exists()
        if self.out.exists() and not (begun or overwrite):
            raise RunFolderError(f"{self.out} is there already; --overwrite replaces it")
        if overwrite or not begun:
            return self._anew()
        key, standing = self._stored()
        if not standing.pairs and not self.out.exists():
            return self._anew()
        goes_on(self.out, "run", complete=False, resume=resume, overwrite=False)
        if key != self.key:
            raise begun_otherwise(self.out, ["model, file or option"])
        return standing

    def _anew(self) -> RunState:
        self.save(RunState())
        self.table.clear()
        return RunState()

    def _stored(self) -> tuple[str, RunState]:
        try:
            stored = read_json(self.path)
            return stored["key"], RunState(**stored["standing"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise RunFolderError(
                f"{self.path}: damaged, so nobody knows how far the run is; start anew with --overwrite"
            ) from error

    def save(self, standing: RunState) -> None:
        """Store `standing`, atomically."""
        self.standing = standing
        write_json(self.path, {"key": self.key, "standing": asdict(standing)})

    def end(self) -> None:
        """Remove what an unfinished run leaves; the state first, which says it is unfinished."""
        self.path.unlink(missing_ok=True)
        self.table.clear()


# `qt-bert score`: a file of pairs in, the same rows with grades out, in windows that resume.


def score_file(
    path: Path,
    options: ReaderOptions,
    scorer: PairScorer,
    out: Path,
    *,
    calibration: AnyCalibration | None = None,
    resume: bool = False,
    overwrite: bool = False,
    window: int = WINDOW,
) -> ScoreReport:
    """Score every pair of the file at `path` into `out`, rows in file order, under the file's names of
    columns; TSV and CSV in its encoding.

    Rejected rows are listed in `out` + `.rejects.tsv`; a bad grade costs no row. Where the scorer
    leaves heads out, `out` + `.run.json` says which, with the figures of the checks.

    Until the last row is written the work lies in hidden files beside `out`; `resume` goes on after
    the last finished window of `window` pairs, with the same bytes as an undisturbed run, and has
    nothing to do where `out` is finished. Raises RunFolderError where `out` or unfinished work is
    there and neither flag says what to do, or where the unfinished work belongs to another model,
    file or option; ArgumentError where `out` is no name of a file.
    """
    if not out.name or out.is_dir():
        raise ArgumentError(f"--out {out} is a folder; give the name of a file")
    check_apart(out, path)
    growing_table(out)  # a name that is none is said before the file is read
    job = _Job(path, options, scorer, calibration, window)
    reader = options.open(path, rejects_path=out.with_name(f"{out.name}.rejects.tsv"))
    table = growing_table(out, encoding=reader.encoding)
    work = Work(out, table, job.key())
    if resume and not overwrite and (found := work.finished()) is not None:
        work.end()
        _count_on(scorer, found)
        return found
    begun = work.begin(resume, overwrite)
    table.rewind(begun.mark)
    try:
        standing = _score_rest(job, reader, work, begun)
    except QtBertError:
        if not work.standing.pairs:
            work.end()  # nothing was scored: a refusal leaves nothing behind
        raise
    if scorer.left_out is not None:
        facts = {"schema": 1, "model": scorer.describe(), "guards": scorer.left_out.guards}
        write_json(out.with_name(f"{out.name}.run.json"), facts)
    table.finish()
    work.end()
    return standing.report(resumed_at=begun.pairs)


def _count_on(scorer: PairScorer, done: RunState | ScoreReport) -> None:
    """Let the scorer's counts go on from what an earlier run has done."""
    scorer.counts = Counts(done.pairs, done.truncated_titles, done.truncated_queries)


@dataclass(frozen=True)
class _Job:
    """All that the bytes of the output depend on."""

    path: Path
    options: ReaderOptions
    scorer: PairScorer
    calibration: AnyCalibration | None
    window: int

    def key(self) -> str:
        """One hash of it."""
        asked: dict[str, Any] = {
            "pairs": sha256_file(self.path),
            "reader": repr(self.options),
            "model": {
                n: v for n, v in self.scorer.describe().items() if n not in ("name", "device")
            },
            "max_length": self.scorer.tokenizer.max_length,
            "labels": repr(self.scorer.settings.labels),
            "calibration": repr(self.calibration),
            "window": self.window,
        }
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _score_rest(job: _Job, reader: PairReader, work: Work, begun: RunState) -> RunState:
    """Score and write the windows behind `begun`, saving after each; returns the last standing."""
    scorer, standing = job.scorer, begun
    _count_on(scorer, begun)
    columns: InputColumns | None = None
    with progress(count_rows(job.path), "scoring", "pairs", done=begun.pairs) as shown:
        for number, pairs in enumerate(windows(reader, job.window)):
            columns = columns or InputColumns.of(pairs, job.path, job.options)
            if number * job.window < begun.pairs:
                continue
            logits = scorer.logits([(p.query, p.title) for p in pairs], shown)
            outputs = read_outputs(logits, scorer.settings.labels, job.calibration)
            if standing is begun and (alike := hardly_differ(outputs.ranking_score)):
                note_once(f"warning: {alike}")
            mark = work.table.append(columns.table(pairs, outputs.columns(), str(job.path)))
            seen = scorer.counts
            counts = (seen.truncated_titles, seen.truncated_queries)
            standing = RunState(seen.pairs, mark, *counts)
            work.save(standing)
    standing = replace(standing, rejected=reader.rejected)
    work.save(standing)
    return standing
