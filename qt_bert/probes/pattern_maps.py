"""Kinds of attention maps: what a map is told by, the classifier that ships, and its errors.

Kovaleva et al. 2019 ("Revealing the Dark Secrets of BERT", 4.1) tell five kinds. The rules are fitted on
maps that AI raters labelled (`data/patterns/README.md`); how often they err is known from maps of heads
that they were not fitted on, and shares are corrected for it.
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
WHOLE = "whole"
"""The note of a block map that is spread over everything, not over the row's own segment."""

RANDOM = "random"
"""What the model with random weights is called, of those that maps were drawn from."""


# Maps of different lengths as one tensor, and which tokens of each belong together.


@dataclass(frozen=True, eq=False)
class Maps:
    """N maps, `weights` [N, L, L] in float32, rows looking; 0 at padding.

    `segment` [N, L] is the side QUERY at [CLS], the query and its separator, TITLE at all that follows, and
    PADDING elsewhere.
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
        """How many tokens each map has [N]."""
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
        """The maps [B, heads, L, L] of every head on a batch, pair by pair."""
        size, heads, length, _ = weights.shape
        segment = torch.where(batch.groups == CLS, QUERY, batch.groups)
        real = (segment != PADDING).float()
        clean = weights.float() * real[:, None, :, None] * real[:, None, None, :]
        wide = segment[:, None].expand(size, heads, length).reshape(-1, length)
        return cls(clean.reshape(-1, length, length), wide)


# What the rules read of a map: a few numbers that say what the definitions of the kinds say.


COLUMNS, WIDTH = 4, 2
"""How many columns may make a vertical map; how far from itself a diagonal one looks."""

FEATURES = ("columns", "band", "stripes", "line", "even", "even_own")
"""`columns`, `band`: the mean weight of a row on the best four columns, and on offsets −2…2;
`stripes`, `line`: the same without the cells that the two have in common (columns that are best
outside the band); `even`, `even_own`: how evenly a row's weight is spread over all tokens and over
its own segment, 1 for alike everywhere."""

_TINY = 1e-9


def features(maps: Maps) -> torch.Tensor:
    """The FEATURES of every map [N, FEATURES]; means are over all rows that are no padding."""
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
        "even": _evenness(weights, maps.lengths[:, None]),
        "even_own": _evenness(own / own.sum(-1, keepdim=True).clamp_min(_TINY), size) * own.sum(-1),
    }
    found = torch.stack([rows[name] for name in FEATURES], dim=-1)
    return (found * real[..., None]).sum(1) / maps.lengths[:, None]


def on_own_segment(maps: Maps) -> torch.Tensor:
    """How much more a row gives its own segment than an even row would [N]: 0 as that, 1 all of it."""
    given = ((maps.weights * maps.own).sum(-1) * maps.real).sum(-1) / maps.lengths
    even = (maps.own.sum(-1) * maps.real).sum(-1) / maps.lengths**2
    return (given - even) / (1 - even).clamp_min(_TINY)


def _best_columns(weights: torch.Tensor) -> torch.Tensor:
    """1 in the columns that all rows together give most [N, 1, L]."""
    most = weights.sum(1).topk(min(COLUMNS, weights.shape[-1]), dim=-1).indices
    return torch.zeros_like(weights[:, 0]).scatter_(1, most, 1.0)[:, None, :]


def _evenness(rows: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """exp(entropy) of each row over the number of tokens it could look at [N, L]."""
    return torch.special.entr(rows).sum(-1).exp() / size.clamp_min(1)


# The rules, and the record of what stands behind them.


@dataclass(frozen=True)
class Rules:
    """A map is the first of these that it is, else heterogeneous.

    Block: `even` (or, over its own segment, `even_own`) at least so much; both: at least `part` of a
    row's weight on the best four columns off the band, and as much in the band off these columns;
    diagonal: at least `band` on offsets −2…2; vertical: at least `columns` on the best four columns.
    """

    even: float = 0.8
    even_own: float = 0.6
    band: float = 0.5
    columns: float = 0.5
    part: float = 0.3

    def of_features(self, found: FloatArray) -> IntArray:
        """The kind of every map [N], as its place in KINDS, from its FEATURES [N, FEATURES]."""
        seen = dict(zip(FEATURES, found.T, strict=True))
        is_kind = {
            "block": (seen["even"] >= self.even) | (seen["even_own"] >= self.even_own),
            "both": np.minimum(seen["stripes"], seen["line"]) >= self.part,
            "diagonal": seen["band"] >= self.band,
            "vertical": seen["columns"] >= self.columns,
        }
        places = [KINDS.index(kind) for kind in is_kind]
        return np.select(list(is_kind.values()), places, KINDS.index("heterogeneous"))


RECORD = "classifier.json"
RULES: Literal["rules"] = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A figure and its 95 % interval, over groups of maps of the same head."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How a classifier did on maps of heads that it was not fitted on.

    `macro_f1` is the mean F1 of the kinds with labelled maps enough, `macro_f1_all` of all five;
    `macro_f1_trained` is `macro_f1` without the maps of random weights, which are easy. `f1` has one
    for each kind, `confusion` counts labels (rows) by answers (columns).
    """

    macro_f1: Measured
    macro_f1_trained: Measured
    macro_f1_all: float
    accuracy: float
    f1: tuple[float | None, ...]
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """How far two passes of labels of the same maps agree: Cohen's κ, and first (rows) by second.

    `kappa_trained` is without the maps of random weights.
    """

    kappa: Measured
    kappa_trained: Measured
    agreed: float
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """`classifier.json`: which classifier labels in the probe, and what stands behind it.

    `rules` are fitted on the first pass of labels, `rules_second` on the second, where there is one:
    they stand in for a stricter eye, and `judged_second` holds them against it. `counted` are the kinds
    in the macro-F1 of the first pass. `examples` names a map of each kind that all agree on, where
    there is one. `files` holds the SHA-256 of the files it was made from and of `answers.csv`.
    """

    schema: Literal[1] = 1
    chosen: Literal["rules"]
    kinds: tuple[str, ...]
    counted: tuple[str, ...]
    maps: int
    groups: int
    rules: Rules
    rules_second: Rules | None
    judged: dict[str, Judged]
    judged_second: Judged | None
    passes: Passes | None
    examples: dict[str, str]
    files: dict[str, str]


# The classifier's errors, and shares corrected for them.


ANSWERS = "answers.csv"
FIRST, SECOND, RULES_SECOND = "first", "second", "rules_second"
"""Its columns beside `id`, `model`, `group` and a classifier's name: either pass of labels, and what
rules fitted on the second pass say."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Labels (rows) by answers, counted apart for each group of maps of the same head.

    `tables` [groups, KINDS, KINDS] are of trained models alone: maps of random weights are all blocks
    that nobody mistakes, and say nothing of how blocks of a trained model are told.
    """

    tables: FloatArray

    @property
    def confusion(self) -> FloatArray:
        """The confusion matrix over all groups, counts [KINDS, KINDS]."""
        return np.asarray(self.tables.sum(axis=0))

    def redrawn(self, rng: np.random.Generator) -> FloatArray:
        """Another matrix as it could have come out: groups drawn anew, for maps of a head are alike."""
        drawn = rng.integers(len(self.tables), size=len(self.tables))
        return np.asarray(self.tables[drawn].sum(axis=0))


def read_errors(path: Path, labels: str, answers: str) -> Errors:
    """The errors of one column of `answers` against one of `labels`.

    Raises ArgumentError where a column is missing, or holds what is no kind.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["model"] != RANDOM]
        heads = [row["group"] for row in rows]
        told = [(KINDS.index(row[labels]), KINDS.index(row[answers])) for row in rows]
    except (OSError, KeyError, ValueError) as error:
        raise ArgumentError(f"{path}: no table of labels and answers ({error})") from error
    group = np.unique(heads, return_inverse=True)[1]
    label, answer = np.array(told, np.int64).reshape(-1, 2).T
    tables = np.zeros((len(set(heads)), len(KINDS), len(KINDS)))
    np.add.at(tables, (group, label, answer), 1.0)
    return Errors(tables)


LEAST_MAPS = 10
"""Of a kind with fewer labelled maps neither the errors nor the F1 are known."""


def are_known(confusion: FloatArray) -> BoolArray:
    """Whether a kind's errors are known [KINDS], from counts [KINDS, KINDS], labels as rows."""
    return np.asarray(confusion.sum(axis=1) >= LEAST_MAPS)


def rates(confusion: FloatArray, known: BoolArray) -> FloatArray:
    """How often a map of each kind (rows) gets each answer (columns), from counts [KINDS, KINDS].

    A kind whose errors are not `known` [KINDS] is taken to be told rightly.
    """
    rightly = np.eye(len(confusion))
    totals = confusion.sum(axis=1, keepdims=True)
    shares = np.divide(confusion, totals, out=rightly.copy(), where=totals > 0)
    return np.where(known[:, None], shares, rightly)


def corrected(shares: FloatArray, rates: FloatArray) -> FloatArray:
    """The shares of kinds [KINDS] that would give the answers' `shares` [KINDS] at these `rates`.

    None is below 0 and they sum to 1; among such the nearest in least squares (G. Forman's adjusted
    count, "Quantifying counts and costs via classification", DMKD 2008, for several classes).
    """
    # The last row, weighted up, asks for a sum of 1.
    weight = 1e3
    left = np.vstack([rates.T, np.full(len(rates), weight)])
    found, _ = nnls(left, np.append(shares, weight))
    return np.asarray(found / found.sum())


# The classifier that ships.


@dataclass(frozen=True, eq=False)
class Classifier:
    """Says of maps which kind they are, by rules.

    `errors` are those of the rules fitted on the first pass of labels, `errors_second` those of the
    rules fitted on the second pass, where there was one.
    """

    record: TrainingRecord
    folder: Path
    errors: Errors
    errors_second: Errors | None

    def answers(self, maps: Maps) -> list[IntArray]:
        """The kind of every map [N], as its place in KINDS; then the same by the second pass's rules."""
        seen = features(maps).double().numpy()
        rules = (self.record.rules, self.record.rules_second)
        return [one.of_features(seen) for one in rules if one is not None]

    @property
    def judged(self) -> Judged:
        """The figures of the one that was chosen."""
        return self.record.judged[self.record.chosen]


def open_classifier(folder: Path) -> Classifier:
    """The classifier of a folder with `classifier.json`.

    Raises ArgumentError where the record is broken or of other kinds, or the answers are not its
    own.
    """
    try:
        record = read_result(TrainingRecord, folder / RECORD)
    except (OSError, RunFolderError) as error:
        raise ArgumentError(f"{folder}: no classifier of patterns in it ({error})") from error
    if record.kinds != KINDS or record.chosen not in record.judged:
        raise ArgumentError(f"{folder / RECORD}: of other kinds than {KINDS}; train it anew")
    path = _own(folder, ANSWERS, record)
    errors = read_errors(path, FIRST, record.chosen)
    second = None if record.rules_second is None else read_errors(path, SECOND, RULES_SECOND)
    return Classifier(record, folder, errors, second)


def _own(folder: Path, name: str, record: TrainingRecord) -> Path:
    """The path of a file that the record speaks of; ArgumentError where it is another or none."""
    path = folder / name
    if not path.exists() or sha256_file(path) != record.files.get(name):
        raise ArgumentError(f"{path}: not the file that {RECORD} speaks of; train it anew")
    return path
