"""Kinds of attention maps: features, the shipped classifier, and its errors.

The five kinds are those of Kovaleva et al. 2019 ("Revealing the Dark Secrets of BERT", 4.1). The rules are
fitted on maps labelled by AI raters (`data/patterns/README.md`); their errors are measured on held-out
heads, and shares are corrected for them.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from scipy.optimize import nnls

from qt_bert.codec import read_result
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import sha256_file
from qt_bert.models.batches import CLS, PADDING, QUERY, Batch
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray

KINDS = ("vertical", "diagonal", "both", "block", "heterogeneous")
"""Labels of a map, in the order of every array over kinds. `both`: vertical and diagonal."""

RANDOM = "random"
"""The model with random weights among the sources of the labelled maps."""


# Maps of different lengths as one tensor.


@dataclass(frozen=True, eq=False)
class Maps:
    """N maps, `weights` [N, L, L] in float32, from rows to columns; 0 at padding.

    `segment` [N, L]: QUERY for [CLS], the query and its separator; TITLE for what follows; PADDING.
    """

    weights: torch.Tensor
    segment: torch.Tensor

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def real(self) -> torch.Tensor:
        """1 at real tokens [N, L]."""
        return (self.segment != PADDING).float()

    @property
    def lengths(self) -> torch.Tensor:
        """The number of tokens of each map [N]."""
        return self.real.sum(-1)

    @property
    def own(self) -> torch.Tensor:
        """1 where both tokens are of one segment [N, L, L]; 0 at padding."""
        alike = self.segment[:, :, None] == self.segment[:, None, :]
        return alike.float() * self.real[:, :, None] * self.real[:, None, :]

    def band(self, width: int) -> torch.Tensor:
        """1 on offsets −width … width [L, L]."""
        places = torch.arange(self.weights.shape[-1], device=self.weights.device)
        return ((places[:, None] - places[None, :]).abs() <= width).float()

    @classmethod
    def of_batch(cls, weights: torch.Tensor, batch: Batch) -> Maps:
        """The maps [B, heads, L, L] of every head on a batch, in pair order."""
        size, heads, length, _ = weights.shape
        segment = torch.where(batch.groups == CLS, QUERY, batch.groups)
        real = (segment != PADDING).float()
        clean = weights.float() * real[:, None, :, None] * real[:, None, None, :]
        wide = segment[:, None].expand(size, heads, length).reshape(-1, length)
        return cls(clean.reshape(-1, length, length), wide)


# Features of a map.


COLUMNS, WIDTH = 4, 2
"""The columns of a vertical map; the largest offset of a diagonal one."""

FEATURES = ("columns", "band", "stripes", "line", "even", "even_own")
"""`columns`, `band`: the mean weight of a row on the best four columns, and on offsets −2…2;
`stripes`, `line`: the same without their common cells (columns are the best outside the band); `even`,
`even_own`: uniformity of a row's weights over all tokens and over its own segment, 1 if uniform."""

_TINY = 1e-9


def features(maps: Maps) -> torch.Tensor:
    """The FEATURES of every map [N, FEATURES], means over all rows that are not padding."""
    weights, real = maps.weights, maps.real
    band = maps.band(WIDTH)
    beside = _best_columns(weights * (1 - band))
    own = weights * maps.own
    size = maps.own.sum(-1)
    rows = {
        "columns": (weights * _best_columns(weights)).sum(-1),
        "band": (weights * band).sum(-1),
        "stripes": (weights * (1 - band) * beside).sum(-1),
        "line": (weights * band * (1 - beside)).sum(-1),
        "even": _uniformity(weights, maps.lengths[:, None]),
        "even_own": _uniformity(own / own.sum(-1, keepdim=True).clamp_min(_TINY), size)
        * own.sum(-1),
    }
    by_row = torch.stack([rows[name] for name in FEATURES], dim=-1)
    return (by_row * real[..., None]).sum(1) / maps.lengths[:, None]


def _best_columns(weights: torch.Tensor) -> torch.Tensor:
    """1 in the columns with most weight over all rows [N, 1, L]."""
    most = weights.sum(1).topk(min(COLUMNS, weights.shape[-1]), dim=-1).indices
    return torch.zeros_like(weights[:, 0]).scatter_(1, most, 1.0)[:, None, :]


def _uniformity(rows: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """exp(entropy) of each row over its number of visible tokens [N, L]."""
    return torch.special.entr(rows).sum(-1).exp() / size.clamp_min(1)


# The rules, and the record of their fit.


@dataclass(frozen=True)
class Rules:
    """A map is of the first kind whose thresholds it reaches, else heterogeneous.

    Block: `even`, or `even_own` over its own segment; both: `part` of a row's weight on the best four
    columns outside the band, and as much in the band outside these columns; diagonal: `band` on offsets
    −2…2; vertical: `columns` on the best four columns.
    """

    even: float = 0.8
    even_own: float = 0.6
    band: float = 0.5
    columns: float = 0.5
    part: float = 0.3

    def of_features(self, values: FloatArray) -> IntArray:
        """The kind of every map [N], as an index into KINDS, from its FEATURES [N, FEATURES]."""
        by_name = dict(zip(FEATURES, values.T, strict=True))
        is_kind = {
            "block": (by_name["even"] >= self.even) | (by_name["even_own"] >= self.even_own),
            "both": np.minimum(by_name["stripes"], by_name["line"]) >= self.part,
            "diagonal": by_name["band"] >= self.band,
            "vertical": by_name["columns"] >= self.columns,
        }
        places = [KINDS.index(kind) for kind in is_kind]
        return np.select(list(is_kind.values()), places, KINDS.index("heterogeneous"))


RECORD = "classifier.json"
RULES: Literal["rules"] = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score and its 95 % interval, resampled over heads."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Evaluation of a classifier on held-out heads.

    `macro_f1` is the mean F1 of the kinds with enough labelled maps, `macro_f1_all` of all five;
    `macro_f1_trained` is the same without the easy maps of random weights, over the kinds left. `f1` by
    kind; `confusion` counts labels (rows) by predictions (columns).
    """

    macro_f1: Score
    macro_f1_trained: Score
    macro_f1_all: float
    accuracy: float
    f1: tuple[float | None, ...]
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of two passes of labels on the same maps: Cohen's κ, and first (rows) by second.

    `kappa_trained`: without the maps of random weights.
    """

    kappa: Score
    kappa_trained: Score
    agreed: float
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """`classifier.json`: the classifier of the probe and its evaluation.

    `rules` are fitted on the first pass of labels, `rules_second` on the second, if there is one, and
    evaluated on it (`judged_second`). `counted`: the kinds in the macro-F1 of the first pass.
    `examples`: a map of each kind on which all labels agree. `files`: the SHA-256 of the source files
    and of `answers.csv`.
    """

    schema: Literal[1] = 1
    chosen: Literal["rules"]
    kinds: tuple[str, ...]
    counted: tuple[str, ...]
    maps: int
    groups: int
    rules: Rules
    rules_second: Rules | None
    judged: dict[str, Evaluation]
    judged_second: Evaluation | None
    passes: Agreement | None
    examples: dict[str, str]
    files: dict[str, str]


# The classifier's errors, and shares corrected for them.


ANSWERS = "answers.csv"
FIRST, SECOND, RULES_SECOND = "first", "second", "rules_second"
"""Its columns beside `id`, `model`, `group` and a classifier's name: both passes of labels, and the
predictions of rules fitted on the second."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Labels (rows) by predictions, counted for each group of maps of the same head.

    `tables` [groups, KINDS, KINDS] are only of trained models: maps of random weights are easy blocks.
    """

    tables: FloatArray

    @property
    def confusion(self) -> FloatArray:
        """The confusion matrix over all groups, counts [KINDS, KINDS]."""
        return np.asarray(self.tables.sum(axis=0))

    def resampled(self, rng: np.random.Generator) -> FloatArray:
        """The confusion matrix of a resample of the groups."""
        drawn = rng.integers(len(self.tables), size=len(self.tables))
        return np.asarray(self.tables[drawn].sum(axis=0))


def read_errors(path: Path, answers: str) -> Errors:
    """The errors of the column `answers` against the first pass of labels.

    Raises ArgumentError for a missing column, or a value that is no kind.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["model"] != RANDOM]
        heads = [row["group"] for row in rows]
        kinds = [(KINDS.index(row[FIRST]), KINDS.index(row[answers])) for row in rows]
    except (OSError, KeyError, ValueError) as error:
        raise ArgumentError(f"{path}: no table of labels and answers ({error})") from error
    group = np.unique(heads, return_inverse=True)[1]
    label, prediction = np.array(kinds, np.int64).reshape(-1, 2).T
    tables = np.zeros((len(set(heads)), len(KINDS), len(KINDS)))
    np.add.at(tables, (group, label, prediction), 1.0)
    return Errors(tables)


LEAST_MAPS = 10
"""The least number of labelled maps of a kind for its errors and F1."""


def are_known(confusion: FloatArray) -> BoolArray:
    """Whether a kind's errors are known [KINDS], from counts [KINDS, KINDS], labels as rows."""
    return np.asarray(confusion.sum(axis=1) >= LEAST_MAPS)


def rates(confusion: FloatArray, known: BoolArray) -> FloatArray:
    """The rate of each prediction (columns) for maps of each kind (rows), from counts [KINDS, KINDS].

    A kind whose errors are not `known` [KINDS] counts as always right.
    """
    perfect = np.eye(len(confusion))
    totals = confusion.sum(axis=1, keepdims=True)
    shares = np.divide(confusion, totals, out=perfect.copy(), where=totals > 0)
    return np.where(known[:, None], shares, perfect)


def corrected(shares: FloatArray, rates: FloatArray) -> FloatArray:
    """The true shares of kinds [KINDS] behind the predictions' `shares` [KINDS] at these error `rates`.

    Non-negative least squares with a sum of 1 (G. Forman's adjusted count, "Quantifying counts and costs
    via classification", DMKD 2008, for several classes).
    """
    weight = 1e3  # of the last row, which enforces a sum of 1
    left = np.vstack([rates.T, np.full(len(rates), weight)])
    solution, _ = nnls(left, np.append(shares, weight))
    return np.asarray(solution / solution.sum())


# The shipped classifier.


@dataclass(frozen=True, eq=False)
class Classifier:
    """Classifies maps by the rules fitted on the first pass of labels, which make these `errors`."""

    record: TrainingRecord
    errors: Errors

    def answers(self, maps: Maps) -> IntArray:
        """The kind of every map [N], as an index into KINDS."""
        return self.record.rules.of_features(features(maps).double().numpy())

    @property
    def judged(self) -> Evaluation:
        """The evaluation of the chosen rules."""
        return self.record.judged[self.record.chosen]


def open_classifier(folder: Path) -> Classifier:
    """The classifier of a folder with `classifier.json`.

    Raises ArgumentError for a broken record, one of other kinds, or a changed `answers.csv`.
    """
    try:
        record = read_result(TrainingRecord, folder / RECORD)
    except (OSError, RunFolderError) as error:
        raise ArgumentError(f"{folder}: no classifier of patterns in it ({error})") from error
    if record.kinds != KINDS or record.chosen not in record.judged:
        raise ArgumentError(
            f"{folder / RECORD}: its kinds are not {KINDS}; train the classifier again"
        )
    path = folder / ANSWERS
    if not path.exists() or sha256_file(path) != record.files.get(ANSWERS):
        raise ArgumentError(f"{path}: not the file named in {RECORD}; train the classifier again")
    return Classifier(record, read_errors(path, record.chosen))
