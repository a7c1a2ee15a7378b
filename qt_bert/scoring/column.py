"""A column of a file as a scorer: production scores, an LLM's grades, the outputs of a model elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.data.pairs import GradeMap, Pair, Reject, number_of
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.scores import read_cells
from qt_bert.data.tokenise import Counts
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.files import sha256_file
from qt_bert.models.card import ModelLabels, ModelSettings, read_settings
from qt_bert.progress import Progress, silent
from qt_bert.text import clip

LEAST_PROBABILITY = 1e-6
SUM_TOLERANCE = 0.0051
"""Each of five probabilities, or more, may be off by so much where they are rounded to two digits."""


class ColumnScorer:
    """The numbers in the `column` of `file` as scores, joined to pairs by query and title.

    One column is a score or, with `model_grades` ('0=1-2,1=3-4,2=5': cell = grades), a grade; several are the
    probabilities of grades or levels. Raises PairFileError for a cell that is no such number, naming its
    line; ArgumentError as `read_cells`.
    """

    tokenizer: Any = None
    left_out = None

    def __init__(
        self, file: Path, column: str, reader: ReaderOptions, *, model_grades: str | None = None
    ) -> None:
        self.file, self.name, self.counts = file, f"{file.name}:{column}", Counts()
        self._cells = read_cells(file, column, reader)
        self._row = {pair: number for number, pair in enumerate(self._cells.of)}
        self._unscored, self._used = 0, set[int]()
        texts, k = [texts for _, texts in self._cells.of.values()], len(self._cells.columns)
        fault, advice = "no finite number", "leave a cell empty where there is no score"
        if model_grades is None or k > 1:
            labels = read_settings(file, k, 0, model_grades).labels.ascending()
            rows: list[Any] = [[number_of(text) for text in cells] for cells in texts]
        else:
            scheme, fault = GradeMap.parse(model_grades), "no label of --model-grades"
            sets = scheme.ordered
            k, labels = len(sets), ModelLabels(len(sets), tuple(sets))
            rows = [
                [nan] * k if (of := scheme.get(text)) is None else np.eye(k)[sets.index(of)]
                for (text,) in texts
            ]
        self.settings = ModelSettings(labels)
        table = np.array(rows, np.float64).reshape(-1, k)
        good = np.isfinite(table).all(axis=1)
        if good.all() and k > 1:
            most = SUM_TOLERANCE * max(k, 5)
            good = (table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1) <= most)
            fault, advice = "no probabilities that sum to 1", "seeds are FILE:A,FILE:B"
            table = np.log(np.maximum(table, LEAST_PROBABILITY))[:, list(labels.order or range(k))]
        if not good.all():
            first = int(np.argmin(good))
            line, cells = list(self._cells.of.values())[first]
            raise PairFileError(
                f"{file}: line {line}: {column} is {clip(', '.join(cells), 60)!r}, {fault}; so in "
                f"{(~good).sum():,} of {len(table):,} rows; {advice}"
            )
        self._logits = table

    def describe(self) -> dict[str, Any]:
        """Name, hash of the file, and `columns`."""
        return {
            "name": self.name,
            "sha256": sha256_file(self.file),
            "columns": [*self._cells.columns],
        }

    def identity(self) -> dict[str, str]:
        """The file, its columns and what they mean."""
        return {"scores": repr(self.describe()), "model_grades": repr(self.settings.labels)}

    def refuse(self, pair: Pair) -> Reject | None:
        """The reject of a pair without a score, which is counted."""
        if (pair.query, pair.title) in self._row:
            return None
        self._unscored += 1
        return Reject.of(pair.line, f"no score in {self.name}", f"{pair.query}\t{pair.title}")

    def notes(self) -> Iterator[str]:
        """How to read whole numbers 1–5 as grades; how many pairs and scores have no partner."""
        if self.settings.labels.logits == 1 and np.isin(self._logits, range(1, 6)).all():
            yield (
                f"{self.name} has whole numbers from 1 to 5, taken as scores to rank by; --model-grades "
                "1=1,2=2,3=3,4=4,5=5 reads them as grades"
            )
        unused, bad = len(self._row) - len(self._used), self._cells.rejected
        rejected = f"; rows that are no pairs: {bad:,}" if bad else ""
        if self._unscored or unused or bad:
            yield (
                f"{self.name}: pairs without a score: {self._unscored:,}; scores without a pair: "
                f"{unused:,}{rejected}"
            )

    def logits(self, pairs: Sequence[tuple[str, str]], shown: Progress = silent) -> np.ndarray:
        """Scores [n, 1] or log-probabilities [n, K]. Raises ArgumentError for a pair that is not in the file."""
        if missing := next((pair for pair in pairs if pair not in self._row), None):
            raise ArgumentError(
                f"{self.name} has no score for {clip(missing[0], 60)!r} / {clip(missing[1], 60)!r}, and a "
                "column scores no other pairs; this needs a model"
            )
        rows = [self._row[pair] for pair in pairs]
        self._used.update(rows)
        return self._logits[rows]
