"""A teacher from outside: what another model, or a column of a file, says of the training pairs."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions, one_line
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write, sha256_file
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.devices import tell
from qt_bert.models.folder import resolve_folder, weights_sha256
from qt_bert.progress import progress
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import ranking_scores
from qt_bert.text import clip
from qt_bert.training.batches import bounds_of
from qt_bert.training.losses import LossWeights
from qt_bert.training.recipes import TeacherSource

MISSING = "teacher_missing.tsv"
LEAST_LABELLED = 20
"""Labelled pairs that the scale of scores is read from."""
LEAST_PROBABILITY = 1e-6
ROUNDING = 1e-3
"""How far an expected label may lie outside."""

Text = tuple[str, str]


def key_of(source: TeacherSource) -> str:
    """What is taught depends on this, and on the bytes of the model or the file."""
    if source.folder is not None:
        return f"folder {weights_sha256(resolve_folder(source.folder))}"
    assert source.file is not None
    return repr((sha256_file(source.file), source.scores, source.columns, source.coverage))


@dataclass
class Teaching:
    """What `source` says of pairs, for a model whose outputs mean `labels`; `facts` say what it was.

    `work` is the folder that keeps a model's outputs for a run that goes on, and the list of pairs
    that a file does not know.
    """

    source: TeacherSource
    labels: ModelLabels
    work: Path
    device: torch.device
    dtype: str
    facts: dict[str, Any] = field(default_factory=dict, init=False)

    def __call__(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Float32 logits [n, K] of a teacher whose outputs mean the same, or log-probabilities; else
        its scores [n, 1], on the scale of the labels. NaN where it says nothing.

        Raises ArgumentError where a file knows too few pairs, holds what is no score and no
        distribution, or the scale of its scores cannot be told; PairFileError and CheckpointError for
        a file or folder that cannot be read.
        """
        values, fits = self._model(pairs) if self.source.folder is not None else self._file(pairs)
        if values.shape[1] == 1 and self.labels.logits > 1 and not fits:
            values = self._on_scale(values, pairs)
        self.facts["teaches"] = "scores" if values.shape[1] == 1 else "distributions"
        return values.astype(np.float32)

    def weights(self, asked: LossWeights | None, default: LossWeights) -> LossWeights:
        """The losses asked for, else the `default` with `soft` of a distribution or `mse` of scores.

        To be called when the pairs were taught. Raises ArgumentError where `soft` has no distribution.
        """
        soft = self.facts["teaches"] == "distributions" or self.labels.logits == 1
        weights = asked or replace(default, soft=float(soft), mse=float(not soft))
        if weights.soft and not soft:
            raise ArgumentError(
                f"soft learns a probability for each of {self.labels.logits} outputs, and "
                f"{self.facts['name']} gives none for these; learn mse or margin_mse"
            )
        return weights

    # Another model.

    def _model(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, bool]:
        """Its logits, where its outputs mean the same as the student's, else its scores; and whether
        these are on the student's scale."""
        assert self.source.folder is not None
        opened = open_checkpoint(self.source.folder, dtype=self.dtype, device=str(self.device))
        self.facts |= {"name": opened.name, "sha256": opened.sha256}
        texts = list(dict.fromkeys((pair.query, pair.title) for pair in pairs))
        key = hashlib.sha256(repr((opened.sha256, self.dtype, texts)).encode()).hexdigest()
        stored = self.work / f"teacher-{key[:16]}.npy"
        if not stored.exists():
            with progress(len(texts), f"teacher {opened.name}", "pairs") as shown:
                logits = Scorer(opened).logits(texts, shown)
            with atomic_write(stored) as temporary, open(temporary, "wb") as handle:
                np.save(handle, logits)
        place = {text: number for number, text in enumerate(texts)}
        logits = np.load(stored)[[place[pair.query, pair.title] for pair in pairs]]
        theirs = opened.settings.labels
        if theirs == self.labels:
            return logits, True
        graded = theirs.grades is not None and self.labels.grades is not None
        return ranking_scores(logits, theirs)[:, None], graded

    # A file.

    def _file(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, bool]:
        """What it says of each pair [n, columns], NaN where it says nothing; several are log-probabilities.

        Texts are the same where they are without outer whitespace; of pairs that stand in it more
        than once the mean is taken.
        """
        file = self.source.file
        assert file is not None
        said: dict[Text, list[list[float]]] = defaultdict(list)
        bad: list[tuple[int, str]] = []
        for row in ReaderOptions(self.source.columns or None).open(file):
            there = {"grade": row.label, **row.extra}
            if unknown := [name for name in self.source.scores if name not in there]:
                raise ArgumentError(
                    f"--teacher-scores {file}: line {row.line} has no column {unknown[0]!r}; beside query "
                    f"and title there are {', '.join(row.extra) or 'none'}"
                )
            cells = [there[name] for name in self.source.scores]
            if any(cells):
                numbers = _numbers(cells)
                if numbers is None:
                    bad.append((row.line, ", ".join(str(cell) for cell in cells)))
                else:
                    said[row.query.strip(), row.title.strip()].append(numbers)
        width = len(self.source.scores)
        if width not in (1, self.labels.logits):
            raise ArgumentError(
                f"{file}: {width} numbers a pair; a teacher gives one score, or a probability for each "
                f"of {self.labels.logits} outputs"
            )
        self.facts |= {"name": file.name, "sha256": sha256_file(file)}
        silent = np.full(width, np.nan)
        means = {text: np.mean(several, axis=0) for text, several in said.items()}
        values = np.array([means.get(_text(pair), silent) for pair in pairs]).reshape(-1, width)
        self._check_coverage(pairs, values, bad)
        if width == 1:
            return values, self.labels.logits == 1 or self._is_scale(values)
        rows = values[~np.isnan(values[:, 0])]
        if (rows < 0).any() or (np.abs(rows.sum(1) - 1) > 0.02).any():
            raise ArgumentError(
                f"{file}: {', '.join(self.source.scores)} are no probabilities: some are below 0, or "
                "do not sum to 1"
            )
        return np.log(np.maximum(values, LEAST_PROBABILITY)), True

    def _check_coverage(
        self, pairs: Sequence[Pair], values: np.ndarray, bad: Sequence[tuple[int, str]]
    ) -> None:
        unknown = np.isnan(values[:, 0])
        self.facts["covered"] = int((~unknown).sum())
        missing = list(
            dict.fromkeys(_text(p) for p, left in zip(pairs, unknown, strict=True) if left)
        )
        if not missing:
            return
        listed = self.work / MISSING
        with atomic_write(listed) as temporary:
            rows = (f"{one_line(query)}\t{one_line(title)}\n" for query, title in missing)
            temporary.write_text("query\ttitle\n" + "".join(rows), encoding="utf-8")
        said = (
            f"{self.source.file}: no score for {unknown.sum():,} of {len(pairs):,} training pairs "
            f"(listed in {listed})"
        )
        if bad:
            said += f"; {len(bad):,} rows hold no number, the first line {bad[0][0]}, {clip(bad[0][1], 40)!r}"
        if 1 - unknown.mean() < self.source.coverage or unknown.all():
            raise ArgumentError(
                f"{said}; score them, or say how many may be missing: --min-coverage"
            )
        tell(f"{said}; there labels alone teach")

    # Scores of another scale.

    def _is_scale(self, values: np.ndarray) -> bool:
        """Whether scores can be expected labels: from the lowest to the highest. Of more than two labels
        from 0 on, numbers from 0 to 1 are taken for shares."""
        low, high = np.nanmin(values) + ROUNDING, np.nanmax(values) - ROUNDING
        own = self.labels.values
        return bool(own[0] <= low and high <= own[-1] and (own[0] > 0 or len(own) == 2 or high > 1))

    def _on_scale(self, values: np.ndarray, pairs: Sequence[Pair]) -> np.ndarray:
        """Scores moved and stretched to the mean and standard deviation of the labels beside them."""
        own = self.labels.values
        truth = np.array([np.mean(bounds_of(pair, self.labels)) for pair in pairs]) + own[0]
        both = ~np.isnan(truth) & ~np.isnan(values[:, 0])
        spread = values[both].std() if both.sum() >= LEAST_LABELLED else 0.0
        low, high = np.nanmin(values), np.nanmax(values)
        said = f"{self.facts['name']}: scores from {low:.3g} to {high:.3g} are no labels from {own[0]:g} to {own[-1]:g}"
        if not spread:
            raise ArgumentError(
                f"{said}, and fewer than {LEAST_LABELLED} labelled pairs, or one score for all, do not "
                "tell how they compare; bring them to that scale"
            )
        slope = float(truth[both].std() / spread)
        start = float(truth[both].mean() - slope * values[both].mean())
        self.facts["scale"] = [start, slope]
        tell(
            f"{said}; read as {start:.3f} + {slope:.3f} × score, which has the labels' mean and spread"
        )
        return np.clip(start + slope * values, own[0], own[-1])


def _text(pair: Pair) -> Text:
    return pair.query.strip(), pair.title.strip()


def _numbers(cells: Sequence[str | None]) -> list[float] | None:
    """The numbers in a row's cells; None where one is none."""
    try:
        numbers = [float(cell or "") for cell in cells]
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None
