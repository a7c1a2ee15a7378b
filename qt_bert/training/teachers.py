"""Targets from a teacher: a model's outputs, or scores in a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qt_bert.data.pairs import Pair, number_of
from qt_bert.data.reader import ReaderOptions, one_line
from qt_bert.data.scores import read_cells
from qt_bert.errors import ArgumentError
from qt_bert.files import check_apart, one_writer, sha256_file
from qt_bert.models.card import ModelLabels
from qt_bert.models.folder import folder_sha256, resolve_folder
from qt_bert.models.opening import open_checkpoint
from qt_bert.progress import note_once, progress
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import ranking_scores
from qt_bert.training.batches import TrainingSet, bounds_of
from qt_bert.training.losses import LossWeights
from qt_bert.training.recipes import TeacherSource

MISSING = "teacher_missing.tsv"
LEAST_LABELLED = 20
"""Labelled pairs needed to fit the scale of scores."""
LEAST_PROBABILITY = 1e-6
CHUNK = 8192
"""Pairs that a teacher scores between two writes."""


def check_teacher(weights: LossWeights | None, teacher: TeacherSource | None, out: Path) -> None:
    """Raise ArgumentError for a teacher that no loss uses, or that `out` would overwrite."""
    if teacher is not None:
        check_apart(out, teacher.path)
        if weights is not None and not weights.of_outputs:
            raise ArgumentError(
                "no part of --loss learns from the teacher: give soft, mse or margin_mse"
            )


def key_of(source: TeacherSource) -> str:
    """A hash of the teacher: of the model's folder, or of the file with its columns."""
    if source.scores:
        return repr((sha256_file(source.path), source.scores))
    return folder_sha256(resolve_folder(source.path))


def loss_for(
    data: TrainingSet, labels: ModelLabels, requested: LossWeights | None, default: LossWeights
) -> LossWeights:
    """The requested losses, else the `default`, with a teacher plus `soft` for a distribution or
    `mse` for scores. Raises ArgumentError for `soft` without a distribution."""
    taught = data.examples[0].taught
    if taught is None:
        return requested or default
    soft = len(taught) == labels.logits
    weights = requested or replace(default, soft=float(soft), mse=float(not soft))
    if weights.soft and not soft:
        raise ArgumentError(
            f"soft learns a probability for each of {labels.logits} outputs, and the teacher gives a "
            "score; learn mse or margin_mse"
        )
    return weights


@dataclass
class TeacherTargets:
    """The outputs of the teacher `source` for pairs, as targets of a model with `labels`.

    `facts` describe the teacher. The folder `work`, or the source's `store`, keeps a model's outputs; `work` the list
    of pairs that a file lacks.
    """

    source: TeacherSource
    labels: ModelLabels
    work: Path
    device: torch.device
    dtype: str
    facts: dict[str, Any] = field(default_factory=dict, init=False)

    def __call__(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Float32 logits [n, K] of a teacher with the same labels, or log-probabilities; else its
        scores [n, 1], on the scale of the labels. NaN where it has none.

        Raises ArgumentError where a file has too few of the pairs, or its values are no scores, no
        distribution, or of unknown scale; PairFileError and CheckpointError for a file or folder that
        cannot be read, and for a pair with different scores on two lines.
        """
        values = self._of_file(pairs) if self.source.scores else self._of_model(pairs)
        if values.shape[1] == 1 and self.labels.logits > 1:
            values = self._on_scale(values, pairs)
        return values.astype(np.float32)

    def _of_model(self, pairs: Sequence[Pair]) -> np.ndarray:
        how: dict[str, Any] = {"dtype": self.dtype, "device": str(self.device)}
        opened = open_checkpoint(self.source.path, reading=self.source.reading, **how)
        self.facts |= {"name": opened.name, "sha256": opened.sha256}
        texts = [(pair.query, pair.title) for pair in pairs]
        scorer, theirs = Scorer(opened, max_length=self.source.max_length), opened.settings.labels
        key = hashlib.sha256(repr((scorer.identity(), texts)).encode()).hexdigest()
        stored = (self.source.store or self.work) / f"teacher-{key[:16]}.f32"
        size = 4 * theirs.logits * len(texts)

        def missing() -> bool:
            return not stored.exists() or stored.stat().st_size != size

        if missing():
            with one_writer(stored):
                if missing():
                    self._score(scorer, texts, stored)
        logits = np.fromfile(stored, np.float32).reshape(-1, theirs.logits)
        return logits if theirs == self.labels else ranking_scores(logits, theirs)[:, None]

    def _score(self, scorer: Scorer, texts: Sequence[tuple[str, str]], stored: Path) -> None:
        """Store the float32 logits of `texts`; a killed run goes on after its last whole chunk."""
        part, row = stored.with_suffix(".part"), 4 * scorer.settings.labels.logits
        known = part.stat().st_size // row if part.exists() else 0
        done = min(known, len(texts)) // CHUNK * CHUNK
        with (
            progress(len(texts), f"teacher {scorer.checkpoint.name}", "pairs", done=done) as shown,
            open(part, "ab") as handle,
        ):
            handle.truncate(done * row)
            for start in range(done, len(texts), CHUNK):
                logits = scorer.logits(texts[start : start + CHUNK], shown)
                handle.write(logits.astype(np.float32).tobytes())
                handle.flush()
                os.fsync(handle.fileno())
        os.replace(part, stored)

    def _of_file(self, pairs: Sequence[Pair]) -> np.ndarray:
        """The file's values [n, columns]; several columns are log-probabilities."""
        path, names = self.source.path, self.source.scores
        if len(names) not in (1, self.labels.logits):
            raise ArgumentError(
                f"{path}: {len(names)} numbers a pair; a teacher gives one score, or a probability for "
                f"each of {self.labels.logits} outputs"
            )
        read = read_cells(path, ",".join(names), ReaderOptions()).of
        scores = {pair: list(map(number_of, cells)) for pair, (_, cells) in read.items()}
        nothing = [np.nan] * len(names)
        values = np.array([scores.get((pair.query, pair.title), nothing) for pair in pairs])
        known = np.isfinite(values).all(1)
        self.facts |= {"name": path.name, "sha256": sha256_file(path), "covered": int(known.sum())}
        if not known.all():
            self._note_missing(
                [pair for pair, present in zip(pairs, known, strict=True) if not present]
            )
        if len(names) == 1:
            return np.where(known[:, None], values, np.nan)
        sums = values[known].sum(1)
        if (values[known] < 0).any() or (np.abs(sums - 1) > 0.02).any():
            raise ArgumentError(
                f"{path}: {', '.join(names)} are no probabilities: some are below 0, or do not sum to 1"
            )
        return np.where(known[:, None], np.log(np.maximum(values, LEAST_PROBABILITY)), np.nan)

    def _note_missing(self, missing: Sequence[Pair]) -> None:
        rows = (f"{one_line(pair.query)}\t{one_line(pair.title)}\n" for pair in missing)
        listed = self.work / MISSING
        listed.write_text("query\ttitle\n" + "".join(rows), encoding="utf-8")
        known, every = self.facts["covered"], self.facts["covered"] + len(missing)
        gap = (
            f"{self.source.path}: no score for {len(missing):,} of {every:,} training pairs (listed "
            f"in {listed})"
        )
        if not known or known / every < self.source.coverage:
            lower = ", or lower the required share: --min-coverage" if known else ""
            raise ArgumentError(f"{gap}; score them{lower}")
        note_once(f"{gap}; for these pairs only the labels are learned")

    def _on_scale(self, values: np.ndarray, pairs: Sequence[Pair]) -> np.ndarray:
        """Scores outside the range of labels, scaled to the mean and standard deviation of the labels."""
        low, high = self.labels.values[0], self.labels.values[-1]
        if low <= np.nanmin(values) and np.nanmax(values) <= high:
            return values
        truth = np.array([np.mean(bounds_of(pair, self.labels)) for pair in pairs]) + low
        both = ~np.isnan(truth + values[:, 0])
        fault = f"{self.facts['name']}: some scores are outside the labels, {low:g} to {high:g}"
        if both.sum() < LEAST_LABELLED or not values[both].std():
            raise ArgumentError(
                f"{fault}, and fewer than {LEAST_LABELLED} labelled pairs, or equal scores, do not fix "
                "a scale; bring the scores to that of the labels"
            )
        slope = float(truth[both].std() / values[both].std())
        start = float(truth[both].mean() - slope * values[both].mean())
        self.facts["scale"] = [start, slope]
        note_once(
            f"{fault}; read as {start:.3f} + {slope:.3f} × score, which has the labels' mean and spread"
        )
        return np.clip(start + slope * values, low, high)
