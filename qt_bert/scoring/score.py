"""`qt-bert score`: a file of pairs in, the same rows with grades out, in windows that resume."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.evaluation.calibration import Calibration
from qt_bert.files import read_json, sha256_file, write_json
from qt_bert.pairs import Pair, PairReader, ReaderOptions
from qt_bert.progress import progress
from qt_bert.scoring.bulk import Counts, Scorer
from qt_bert.scoring.counting import count_rows
from qt_bert.scoring.outputs import read_outputs
from qt_bert.scoring.tables import growing_table

WINDOW = 8192
"""Pairs scored and written at a time: what a kill may cost, and all that is held in memory."""


@dataclass
class ScoreReport:
    """What a finished run has to say."""

    pairs: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0
    rejected: int = 0
    resumed_at: int = 0


@dataclass
class _Standing:
    pairs: int = 0
    mark: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0


def score_file(
    path: Path,
    options: ReaderOptions,
    scorer: Scorer,
    out: Path,
    *,
    calibration: Calibration | None = None,
    resume: bool = False,
    overwrite: bool = False,
    window: int = WINDOW,
) -> ScoreReport:
    """Score every pair of the file at `path` into `out`, rows in file order.

    Rejected rows are listed in `out` + `.rejects.tsv`; a bad grade costs no row.

    Until the last row is written the work lies in hidden files beside `out`; `resume` goes on
    after the last finished window, with the same bytes as an undisturbed run. Raises
    RunFolderError where `out` or unfinished work is there and neither flag says what to do, or
    where the unfinished work belongs to another model, file or option.
    """
    rejects = out.with_name(f"{out.name}.rejects.tsv")
    reader = options.open(path, rejects_path=rejects)
    work = _Work(out, path, options, scorer, calibration, window)
    if resume and work.is_finished():
        work.end()
        return ScoreReport()
    standing = work.begin(resume, overwrite)
    table = growing_table(out)
    table.rewind(standing.mark)
    report = ScoreReport(resumed_at=standing.pairs)
    scorer.counts = Counts(standing.pairs, standing.truncated_titles, standing.truncated_queries)
    names: list[str] | None = None
    with progress(count_rows(path), "scoring", "pairs", done=standing.pairs) as shown:
        for number, pairs in enumerate(_windows(reader, window)):
            names = _extra_names(pairs) if names is None else names
            if number * window < standing.pairs:
                continue
            logits = scorer.logits([(p.query, p.title) for p in pairs], shown)
            outputs = read_outputs(logits, scorer.checkpoint.settings.labels, calibration)
            mark = table.append(_columns(pairs, names, outputs.columns(), str(reader.path)))
            counts = scorer.counts
            work.save(
                _Standing(counts.pairs, mark, counts.truncated_titles, counts.truncated_queries)
            )
    table.finish()
    work.end()
    report.pairs, report.rejected = scorer.counts.pairs, reader.rejected
    report.truncated_titles = scorer.counts.truncated_titles
    report.truncated_queries = scorer.counts.truncated_queries
    return report


class _Work:
    """The state file of an unfinished run beside its output."""

    def __init__(
        self,
        out: Path,
        path: Path,
        options: ReaderOptions,
        scorer: Scorer,
        calibration: Calibration | None,
        window: int,
    ) -> None:
        self.out = out
        self.path = out.with_name(f".{out.name}.progress.json")
        asked = {
            "pairs": sha256_file(path),
            "reader": repr(options),
            "model": scorer.checkpoint.sha256,
            "dtype": scorer.checkpoint.dtype,
            "max_length": scorer.tokenizer.max_length,
            "labels": repr(scorer.checkpoint.settings.labels),
            "calibration": repr(calibration),
            "window": window,
        }
        self.key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def is_finished(self) -> bool:
        """Whether the run was killed after its output was moved into place."""
        partial = self.out.with_name(f".{self.out.name}.partial")
        parts = self.out.with_name(f".{self.out.name}.parts")
        if not (self.out.is_file() and self.path.exists()) or partial.exists() or parts.exists():
            return False
        return bool(read_json(self.path)["key"] == self.key)

    def begin(self, resume: bool, overwrite: bool) -> _Standing:
        if self.out.is_dir():
            raise ArgumentError(f"--out {self.out} is a folder; give the name of a file")
        if self.out.exists() and not overwrite:
            raise RunFolderError(f"{self.out} is there already; --overwrite replaces it")
        if overwrite or not self.path.exists():
            self.end()
            return _Standing()
        if not resume:
            raise RunFolderError(
                f"{self.out} was begun and not finished; --resume goes on, --overwrite starts anew"
            )
        stored = read_json(self.path)
        if stored["key"] != self.key:
            raise RunFolderError(
                f"{self.out} was begun with another model, file or option; "
                "resume with the same, or start anew with --overwrite"
            )
        return _Standing(**stored["standing"])

    def save(self, standing: _Standing) -> None:
        write_json(self.path, {"key": self.key, "standing": asdict(standing)})

    def end(self) -> None:
        """Remove what an unfinished run leaves."""
        self.path.unlink(missing_ok=True)
        for name in (f".{self.out.name}.partial", f".{self.out.name}.parts"):
            left = self.out.with_name(name)
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink(missing_ok=True)


def _windows(reader: PairReader, size: int) -> Iterator[list[Pair]]:
    stream = iter(reader)
    while pairs := list(islice(stream, size)):
        yield pairs


def _extra_names(pairs: list[Pair]) -> list[str]:
    """Names of the file's other columns, the label's among them, in the first window's order."""
    names = dict.fromkeys(name for pair in pairs for name in _names_of(pair))
    return sorted(names, key=lambda name: name != "grade")


def _names_of(pair: Pair) -> list[str]:
    return (["grade"] if pair.label is not None else []) + list(pair.extra)


def _columns(
    pairs: list[Pair], names: list[str], outputs: dict[str, list[Any]], where: str
) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {
        "id": [p.id for p in pairs],
        "query": [p.query for p in pairs],
        "title": [p.title for p in pairs],
    }
    for name in names:
        shown = f"input_{name}" if name in outputs or name in out else name
        values = (p.label if name == "grade" else p.extra.get(name) for p in pairs)
        out[shown] = ["" if value is None else value for value in values]
    known = set(names)
    late = next(((p, n) for p in pairs for n in _names_of(p) if n not in known), None)
    if late:
        raise PairFileError(
            f"{where}, line {late[0].line}: the column {late[1]!r} is not in the first rows, which "
            "name the columns of the output; give every row the same columns"
        )
    return out | outputs
