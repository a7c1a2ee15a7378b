"""A column of a file as a scorer: production scores, an LLM's grades, the outputs of a model elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
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
SUM_TOLERANCE = 0.02
"""Probabilities rounded to two digits may miss a sum of 1 by so much."""


class ColumnScorer:
    """The numbers in the `column` of `file` as scores, joined to pairs by query and title.

    One column is one score, or with `model_grades` ('0=1-2,1=3-4,2=5': cell = grades) a grade without
    doubt; several columns are the probability of each grade or level, from the lowest to the highest. Raises
    PairFileError for a cell that is no such number, naming its line; ArgumentError as `read_cells`.
    """

    tokenizer: Any = None
    left_out = None

    def __init__(
        self, file: Path, column: str, reader: ReaderOptions, *, model_grades: str | None = None
    ) -> None:
        cells = read_cells(file, column, reader)
        self.file, self.columns, self.name = file, cells.columns, f"{file.name}:{column}"
        self.counts = Counts()
        self.row = {pair: number for number, pair in enumerate(cells.of)}
        self.rejected, self.unscored, self._used = cells.rejected, 0, set[int]()
        lines = [line for line, _ in cells.of.values()]
        texts = [values for _, values in cells.of.values()]
        if len(cells.columns) == 1 and model_grades is not None:
            self.settings, self._logits = self._grades(texts, lines, GradeMap.parse(model_grades))
            return
        table = np.array([[number_of(text) for text in row] for row in texts], np.float64)
        table = table.reshape(-1, len(cells.columns))
        self._check(np.isfinite(table).all(axis=1), "no finite number", texts, lines)
        settings = read_settings(file, len(cells.columns), 0, model_grades)
        labels = settings.labels.ascending()
        if labels.logits > 1:
            sums = table.sum(axis=1)
            fit = (table >= 0).all(axis=1) & (np.abs(sums - 1) <= SUM_TOLERANCE)
            self._check(fit, "no probabilities that sum to 1", texts, lines)
            table = np.log(np.maximum(table, LEAST_PROBABILITY))[
                :, list(labels.order or range(labels.logits))
            ]
        self.settings, self._logits = ModelSettings(labels), table

    def _grades(
        self, texts: Sequence[tuple[str, ...]], lines: list[int], scheme: GradeMap
    ) -> tuple[ModelSettings, np.ndarray]:
        """Cells as grades: nearly all of the probability on the set that a cell means."""
        sets = sorted(set(scheme.sets.values()), key=lambda grades: (np.mean(grades), grades))
        if len(sets) < 2:
            raise ArgumentError("--model-grades of a column: give two grades or more, cell=grades")
        place = np.full(len(texts), -1)
        for row, (text,) in enumerate(texts):
            try:
                place[row] = sets.index(scheme.grades_of(text))
            except ValueError:
                continue
        self._check(place >= 0, f"none of {', '.join(scheme.sets)}", texts, lines)
        table = np.where(place[:, None] == np.arange(len(sets)), 1.0, LEAST_PROBABILITY)
        return ModelSettings(ModelLabels(len(sets), tuple(sets))), np.log(table)

    def _check(
        self, good: Any, fault: str, texts: Sequence[tuple[str, ...]], lines: list[int]
    ) -> None:
        if not good.all():
            first = int(np.argmin(good))
            raise PairFileError(
                f"{self.file}: line {lines[first]}: {self.name.partition(':')[2]} is "
                f"{clip(', '.join(texts[first]), 60)!r}, {fault}; so in {(~good).sum():,} of {len(good):,} rows; "
                "leave a cell empty where there is no score"
            )

    @property
    def hint(self) -> str | None:
        """How to read one column of whole numbers 1–5 as grades; None for others."""
        values = self._logits[:, 0]
        if self.settings.labels.logits > 1 or not np.isin(values, range(1, 6)).all():
            return None
        return (
            f"{self.name} has whole numbers from 1 to 5, taken as scores to rank by; --model-grades "
            "1=1,2=2,3=3,4=4,5=5 reads them as grades"
        )

    def describe(self) -> dict[str, Any]:
        """Name, hash of the file, and `columns`."""
        return {"name": self.name, "sha256": sha256_file(self.file), "columns": list(self.columns)}

    def refuse(self, pair: Pair) -> Reject | None:
        """The reject of a pair without a score, which is counted."""
        if (pair.query, pair.title) in self.row:
            return None
        self.unscored += 1
        return Reject.of(pair.line, f"no score in {self.name}", f"{pair.query}\t{pair.title}")

    def coverage(self) -> str | None:
        """How many pairs and scores have no partner; None where all have one."""
        unused = len(self.row) - len(self._used)
        if not (self.unscored or unused or self.rejected):
            return None
        bad = f"; {self.rejected:,} of its rows are no pairs" if self.rejected else ""
        return f"{self.name}: {self.unscored:,} pairs have no score, {unused:,} scores no pair{bad}"

    def logits(self, pairs: Sequence[tuple[str, str]], shown: Progress = silent) -> np.ndarray:
        """Scores [n, 1] or log-probabilities [n, K]. Raises ArgumentError for a pair that is not in the file."""
        if missing := next((pair for pair in pairs if pair not in self.row), None):
            raise ArgumentError(
                f"{self.name} has no score for {clip(missing[0], 60)!r} / {clip(missing[1], 60)!r}, and a "
                "column scores no other pairs; this needs a model"
            )
        rows = [self.row[pair] for pair in pairs]
        self._used.update(rows)
        return self._logits[rows]
