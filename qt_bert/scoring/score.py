"""`qt-bert score`: grade a file of pairs, window by window; a killed run resumes."""

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
from qt_bert.progress import note_once, progress
from qt_bert.resume import begun_otherwise, goes_on
from qt_bert.scoring.bulk import WINDOW
from qt_bert.scoring.judge import AnyCalibration, PairScorer, hardly_differ, read_outputs
from qt_bert.scoring.tables import GrowingTable, InputColumns, count_rows, growing_table, windows
from qt_bert.shipped import installed_versions, source_hash


@dataclass(frozen=True)
class RunState:
    """The progress of a run: pairs written, the table's mark after them, counts. Of one that has ended, the pairs
    that were there when it began; `already`: it had ended before."""

    pairs: int = 0
    mark: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0
    rejected: int = 0
    resumed_at: int = 0
    already: bool = False


class Work:
    """The state file beside an output: how far its run is, and by its key what it was scored from."""

    def __init__(self, out: Path, table: GrowingTable, key: str) -> None:
        self.out, self.table, self.key = out, table, key
        self.state = RunState()
        self.path = out.with_name(f".{out.name}.progress.json")

    def finished(self) -> RunState | None:
        """The state of a complete output of this run; None for another one, and where rows are missing."""
        if not (self.out.is_file() and self.path.exists()):
            return None
        key, self.state = self._stored()
        if self.table.hidden.exists() or not self.state.pairs or key != self.key:
            return None
        return replace(self.state, resumed_at=self.state.pairs)

    def begin(self, resume: bool, overwrite: bool) -> RunState:
        """The state to go on from. Raises RunFolderError where the flags do not fit existing files."""
        begun = self.path.exists()
        if self.out.exists() and not (begun or overwrite):
            raise RunFolderError(f"{self.out} is there already; --overwrite replaces it")
        if overwrite or not begun:
            return self._anew()
        key, state = self._stored()
        if not self.out.exists() and (state.already or not state.pairs):
            return self._anew()
        goes_on(self.out, "run", complete=state.already, resume=resume, overwrite=False)
        if key != self.key:
            raise begun_otherwise(self.out, ["model, file, option or version"])
        self.state = state
        return state

    def _anew(self) -> RunState:
        self.save(RunState())
        self.table.clear()
        return RunState()

    def _stored(self) -> tuple[str, RunState]:
        try:
            stored = read_json(self.path)
            return stored["key"], RunState(**stored["standing"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunFolderError(
                f"{self.path}: damaged, so nobody knows how far the run is; start anew with --overwrite"
            ) from error

    def save(self, state: RunState) -> None:
        """Store `state`, atomically."""
        self.state = state
        write_json(self.path, {"key": self.key, "standing": asdict(state)})

    def end(self) -> None:
        """Remove the hidden rows; the state stays, so that a later run is compared with this one."""
        self.table.clear()
        self.save(replace(self.state, already=True))

    def drop(self) -> None:
        """Remove the hidden files, the state first: it marks an unfinished run."""
        self.path.unlink(missing_ok=True)
        self.table.clear()


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
) -> RunState:
    """Score every pair of the file at `path` into `out`, in file order, with the file's column names; TSV
    and CSV in its encoding.

    Rejects are listed in `out` + `.rejects.tsv`; a row with a bad grade is scored. Where the scorer
    leaves heads out, `out` + `.run.json` has their names and the figures of the checks.

    An unfinished run is kept in hidden files beside `out`; `resume` continues after the last finished window
    of `window` pairs, with the same bytes as an uninterrupted run, and does nothing where `out` is finished.
    Raises RunFolderError where `out` or an unfinished run exists and neither flag is given, the run had another
    model, file, option or version, or is not known; ArgumentError where `out` is no file name.
    """
    if not out.name or out.is_dir():
        raise ArgumentError(f"--out {out} is a folder; give the name of a file")
    check_apart(out, path)
    growing_table(out)  # refuses an unknown suffix before the file is read
    job = _Job(path, options, scorer, calibration, window)
    reader = options.open(path, rejects_path=out.with_name(f"{out.name}.rejects.tsv"))
    table = growing_table(out, encoding=reader.encoding)
    work = Work(out, table, job.key())
    if resume and not overwrite and (report := work.finished()) is not None:
        work.end()
        _restore_counts(scorer, report)
        return report
    begun = work.begin(resume, overwrite)
    table.rewind(begun.mark)
    try:
        state = _score_rest(job, reader, work, begun)
    except QtBertError:
        if not work.state.pairs:
            work.drop()  # nothing was scored
        raise
    record = out.with_name(f"{out.name}.run.json")
    record.unlink(missing_ok=True)  # of an output that is replaced
    if scorer.left_out is not None:
        facts = {"schema": 1, "model": scorer.describe(), "guards": scorer.left_out.guards}
        write_json(record, facts)
    table.finish()
    work.end()
    return replace(state, resumed_at=begun.pairs)


def _restore_counts(scorer: PairScorer, done: RunState) -> None:
    scorer.counts = Counts(done.pairs, done.truncated_titles, done.truncated_queries)


@dataclass(frozen=True)
class _Job:
    """The inputs that determine the bytes of the output."""

    path: Path
    options: ReaderOptions
    scorer: PairScorer
    calibration: AnyCalibration | None
    window: int

    def key(self) -> str:
        """A hash of the inputs."""
        inputs: dict[str, Any] = {
            "pairs": sha256_file(self.path),
            "reader": repr(self.options),
            "model": self.scorer.identity(),
            "calibration": repr(self.calibration),
            "window": self.window,
            "version": (source_hash(), installed_versions()),
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _score_rest(job: _Job, reader: PairReader, work: Work, begun: RunState) -> RunState:
    """Score and write the windows after `begun`, saving the state after each; returns the last state."""
    scorer, state = job.scorer, begun
    _restore_counts(scorer, begun)
    columns: InputColumns | None = None
    with progress(count_rows(job.path), "scoring", "pairs", done=begun.pairs) as shown:
        for number, pairs in enumerate(windows(reader, job.window)):
            columns = columns or InputColumns.of(pairs, job.path, job.options)
            job.options.note_abstract(pairs, job.path)
            if number * job.window < begun.pairs:
                continue
            logits = scorer.logits([(p.query, p.title) for p in pairs], shown)
            outputs = read_outputs(logits, scorer.settings.labels, job.calibration)
            if state is begun and (alike := hardly_differ(outputs.ranking_score)):
                note_once(f"warning: {alike}")
            mark = work.table.append(columns.table(pairs, outputs.columns(), str(job.path)))
            counts = scorer.counts
            truncated = (counts.truncated_titles, counts.truncated_queries)
            state = RunState(counts.pairs, mark, *truncated)
            work.save(state)
    state = replace(state, rejected=reader.rejected)
    work.save(state)
    return state
