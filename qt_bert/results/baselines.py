"""The table of baselines: how each model was trained, and its outputs pair by pair.

Two files: `baselines.json` is the record of the runs, `baselines.npz` holds each model's
probabilities and the outputs of the best heads of the pretrained models. Neither holds texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from qt_bert.codec import encode, read_result
from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_write, sha256_file, write_json
from qt_bert.results.probe import PairsRef

RECORD, OUTPUTS = "baselines.json", "baselines.npz"
CROSS_ENCODER, LSTM, LSTM_WORDS = "cross-encoder", "lstm-attention", "lstm-attention-words"
TWO_TOWER, BERT_LSTM, LEXICAL = "two-tower", "bert+lstm", "lexical"
CHARACTERS, WORDS, NO_PAIRS = "characters", "words", "no-pairs"
PRETRAINED = (CHARACTERS, WORDS, NO_PAIRS)
"""The three that were pretrained anew, and the models tuned from them."""
MODELS = (CROSS_ENCODER, *PRETRAINED, LSTM, LSTM_WORDS, TWO_TOWER, BERT_LSTM, LEXICAL)
"""All rows of the table, in their order."""
RANDOM = "random"
"""Random weights of the same shape: the heads before training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretraining:
    """One short pretraining: `characters` and `tokens` seen, the last figures of its log.

    `texts` is the number of fragments it drew from; equal numbers are drawn in one order. Where it
    began with fewer layers (`first_layers` for `first_steps`), `steps` are the later ones; tokens,
    characters and seconds count both.
    """

    name: str
    sha256: str
    words: int | None
    pair_objective: bool
    texts: int
    first_layers: int | None = None
    first_steps: int | None = None
    steps: int
    tokens: int
    characters: int
    mlm_loss: float | None
    mlm_accuracy: float | None
    pair_accuracy: float | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTrial:
    """A learning rate and the metric it `reached` on the recipe's dev file; None where undefined."""

    rate: float
    reached: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One model: its base, its fine-tuning, its size and its speed.

    `rate` is the best of those `tried`; with none tried, the recipe's, or that of the model `rate_of`.
    `discovery` is its Spearman's ρ on discovery. The lexical baseline has no weights, steps or rate.
    """

    name: str
    architecture: str
    base: str | None
    sha256: str | None
    parameters: int
    steps: int | None
    rate: float | None
    rate_of: str | None = None
    tried: tuple[RateTrial, ...] = ()
    pairs_seen: int
    pairs_per_second: float
    discovery: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRead:
    """The best head on discovery of a pretrained model (or of random weights) and its figure there;
    None where it could not be measured, with the `reason`."""

    model: str
    head: str | None
    discovery: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselinesRecord:
    """`baselines.json`. `digest` is that of the texts of the validation pairs, in their order."""

    kind: ClassVar[str] = "baselines"
    schema: Literal[1] = 1
    versions: dict[str, str]
    recipe: str
    pairs: PairsRef
    digest: str
    discovery: PairsRef
    pretraining: tuple[Pretraining, ...]
    rows: tuple[TableRow, ...]
    boundary: tuple[HeadRead, ...]
    matching: tuple[HeadRead, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    outputs_sha256: str = ""

    def row(self, name: str) -> TableRow:
        """The row of a model."""
        return next(row for row in self.rows if row.name == name)


@dataclass(frozen=True, eq=False)
class BoundaryOutputs:
    """A head's value at each decision [D], large where a word ends; whether one ends there [D]; and
    the index of the decision's query [D]."""

    values: np.ndarray
    labels: np.ndarray
    queries: np.ndarray


@dataclass(frozen=True, eq=False)
class MatchingOutputs:
    """Sums of a head's attention by query [Q, own and other], those of replaced queries, and counts
    of cells, as in `probes.matching_scores`."""

    original: np.ndarray
    replaced: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True, eq=False)
class Baselines:
    """A record with its arrays.

    `probabilities` of the five grades [rows, pairs, 5]; `labels` [pairs, 5], True at each grade
    that the label may mean; `queries` [pairs], the number of a pair's query; heads by the name of
    their model.
    """

    record: BaselinesRecord
    probabilities: np.ndarray
    labels: np.ndarray
    queries: np.ndarray
    boundary: Mapping[str, BoundaryOutputs]
    matching: Mapping[str, MatchingOutputs]

    def of(self, name: str) -> np.ndarray:
        """A model's probabilities [pairs, 5]."""
        names = [row.name for row in self.record.rows]
        probabilities: np.ndarray = self.probabilities[names.index(name)]
        return probabilities

    def write(self, folder: Path) -> None:
        """Write both files, the record last: a folder without it holds no table."""
        arrays: dict[str, Any] = {
            "probabilities": self.probabilities.astype(np.float32),
            "labels": self.labels,
            "queries": self.queries,
        }
        for kind, heads in (("boundary", self.boundary), ("matching", self.matching)):
            for model, outputs in heads.items():
                arrays |= {f"{kind}/{model}/{n}": v for n, v in vars(outputs).items()}
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / OUTPUTS) as temporary, open(temporary, "wb") as handle:
            np.savez_compressed(handle, **arrays)
        value = encode(self.record) | {"outputs_sha256": sha256_file(folder / OUTPUTS)}
        write_json(folder / RECORD, value)


def digest_of(texts: Iterable[tuple[str, str]]) -> str:
    """One hash over queries and titles, in their order."""
    digest = hashlib.sha256()
    for query, title in texts:
        digest.update(f"{query}\t{title}\n".encode())
    return digest.hexdigest()


def labels_of(labels: Iterable[Iterable[int] | None]) -> np.ndarray:
    """True at each of the five grades that a label may mean [pairs, 5]."""
    sets = [set(grades or ()) for grades in labels]
    return np.array([[grade in grades for grade in range(1, 6)] for grades in sets])


def read_baselines(folder: Path) -> Baselines:
    """The table in `folder`.

    Raises RunFolderError where a file is missing or damaged, the files do not belong together, or a
    model is missing from the table.
    """
    record = read_result(BaselinesRecord, folder / RECORD)
    path = folder / OUTPUTS
    if not path.is_file() or sha256_file(path) != record.outputs_sha256:
        raise RunFolderError(
            f"{path}: missing, or not the file that {RECORD} was written with; "
            "make it again with experiments/baselines"
        )
    with np.load(path, allow_pickle=False) as stored:
        table = Baselines(
            record,
            stored["probabilities"],
            stored["labels"],
            stored["queries"],
            _heads(stored, "boundary", BoundaryOutputs),
            _heads(stored, "matching", MatchingOutputs),
        )
    _check(table, folder)
    return table


def _heads(stored: Any, kind: str, outputs: type[Any]) -> dict[str, Any]:
    names = dict.fromkeys(key.split("/")[1] for key in stored.files if key.startswith(f"{kind}/"))
    fields = outputs.__dataclass_fields__
    return {
        name: outputs(**{field: stored[f"{kind}/{name}/{field}"] for field in fields})
        for name in names
    }


def _check(table: Baselines, folder: Path) -> None:
    names = [row.name for row in table.record.rows]
    missing = [name for name in MODELS if name not in names]
    if missing:
        raise RunFolderError(f"{folder / RECORD}: the table has no row {missing[0]!r}")
    pairs = table.record.pairs.n_pairs
    fits = (
        table.probabilities.shape == (len(names), pairs, 5)
        and table.labels.shape == (pairs, 5)
        and table.queries.shape == (pairs,)
    )
    if not fits:
        raise RunFolderError(f"{folder / OUTPUTS}: the arrays do not fit {RECORD}")
