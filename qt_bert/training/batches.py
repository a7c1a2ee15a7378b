"""Graded pairs as one tokenised training set, and their order: all from (seed, epoch)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import torch

from qt_bert.data.pairs import Pair
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.models.card import ModelLabels
from qt_bert.text import query_key
from qt_bert.training.packing import Example, best_fit, filled, lay_out
from qt_bert.training.recipes import PairSource, rejects_file

UNLABELLED = (float("nan"), float("nan"))


@dataclass(frozen=True)
class LabelledExample(Example):
    """A tokenised pair with its target.

    `allowed` [outputs] is 1 at each output the label may mean, 0 everywhere without a label and for
    an auxiliary source, whose target is `auxiliary` = (output, class). `query` numbers the queries of each
    source; `bounds` are the label's lowest and highest value, from 0 for the lowest label (NaN: none);
    `taught` [outputs or 1] are the outputs of a teacher, NaN where it has none, None without a teacher.
    """

    allowed: np.ndarray
    auxiliary: tuple[int, int]
    weight: float
    query: int = field(default=0, kw_only=True)
    bounds: tuple[float, float] = field(default=UNLABELLED, kw_only=True)
    taught: np.ndarray | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class TrainingSet:
    """Examples, the auxiliary outputs (name → labels in order), and how many rows each file gave.

    `sha256` covers all that training sees, `texts_sha256` texts and labels before truncation.
    """

    examples: list[LabelledExample]
    auxiliaries: dict[str, list[str]]
    counts: dict[str, int]
    truncated: int
    sha256: str
    texts_sha256: str


def training_set(
    sources: Sequence[PairSource],
    tokenizer: PairTokenizer,
    labels: ModelLabels,
    rejects: Path | None = None,
    teacher: Callable[[Sequence[Pair]], np.ndarray] | None = None,
) -> TrainingSet:
    """Read and tokenise `sources` for outputs that mean `labels`.

    Where these are no grades, labels are read as ordered levels 0 … K − 1; a single output has no
    target. `teacher` maps the pairs that are not auxiliary to targets [n, outputs or 1]. Raises
    PairFileError where a source has no row or too many bad ones (listed in the folder `rejects`),
    ArgumentError for levels with auxiliary outputs.
    """
    levels = levels_of(labels)
    if levels and any(source.auxiliary for source in sources):
        raise ArgumentError("--levels trains one output; leave the auxiliary sources out")
    read: list[tuple[PairSource, list[Pair]]] = []
    classes: dict[str, set[str]] = {}
    for number, source in enumerate(sources, 1):
        listed = rejects_file(rejects, number) if rejects else None
        pairs = source.read(levels=levels, labelled=True, rejects_path=listed)
        if not pairs:
            raise PairFileError(
                f"{source.file}: no row is left to train on; check labels and exclude"
            )
        read.append((source, pairs))
        if source.auxiliary:
            classes.setdefault(source.auxiliary, set()).update(p.label or "" for p in pairs)
    auxiliaries = {name: sorted(labels) for name, labels in classes.items()}
    outputs = list(auxiliaries)
    examples: list[LabelledExample] = []
    counts: dict[str, int] = {}
    truncated = 0
    targets, untaught = None, None
    if teacher is not None:
        values = teacher([p for source, pairs in read if not source.auxiliary for p in pairs])
        targets, untaught = iter(values), np.full(values.shape[1], np.nan, np.float32)
    queries: dict[tuple[int, Hashable], int] = {}
    for number, (source, pairs) in enumerate(read):
        name = f"{source.file.name}{f' ({source.auxiliary})' if source.auxiliary else ''}"
        counts[name] = counts.get(name, 0) + len(pairs)
        encoded = tokenizer.encode([(p.query, p.title) for p in pairs], offsets=False)
        for pair, tokens in zip(pairs, encoded, strict=True):
            truncated += tokens.title_truncated or tokens.query_truncated
            bounds, taught = UNLABELLED, untaught
            if source.auxiliary:
                allowed = np.zeros(labels.logits, np.float32)
                output = outputs.index(source.auxiliary)
                place = (output, auxiliaries[source.auxiliary].index(pair.label or ""))
            else:
                allowed, place = _allowed(pair, labels), (-1, 0)
                bounds = bounds_of(pair, labels)
                taught = None if targets is None else next(targets)
            ids, types = np.array(tokens.input_ids), np.array(tokens.token_type_ids)
            examples.append(
                LabelledExample(
                    ids,
                    types,
                    allowed,
                    place,
                    source.weight,
                    at=tokens.at,
                    query=queries.setdefault((number, query_key(pair.query)), len(queries)),
                    bounds=bounds,
                    taught=taught,
                )
            )
    return TrainingSet(
        examples, auxiliaries, counts, truncated, _digest(examples), _digest_of_texts(read)
    )


def levels_of(labels: ModelLabels) -> int | None:
    """The number of ordered levels that labels are read as for a model; None: as grades."""
    return labels.logits if labels.levels else None


def _digest(examples: Sequence[LabelledExample]) -> str:
    """A hash of all that training sees of the examples, in order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(example.input_ids.astype(np.int32).tobytes())
        digest.update(example.allowed.tobytes())
        digest.update(
            f"{example.auxiliary} {example.weight} {example.bounds} {example.query}".encode()
        )
        if example.taught is not None:
            digest.update(example.taught.astype(np.float32).tobytes())
    return digest.hexdigest()


def _digest_of_texts(read: Sequence[tuple[PairSource, list[Pair]]]) -> str:
    """A hash of texts and labels, independent of the tokenizer."""
    digest = hashlib.sha256()
    for source, pairs in read:
        digest.update(f"{source.auxiliary} {source.weight}\n".encode())
        for pair in pairs:
            digest.update(f"{(pair.query, pair.title, pair.grades, pair.label)!r}\n".encode())
    return digest.hexdigest()


def _allowed(pair: Pair, labels: ModelLabels) -> np.ndarray:
    """1 at each output that the pair's label may mean."""
    if labels.logits == 1:
        return np.zeros(1, np.float32)
    outputs = labels.grades or [(level,) for level in range(1, labels.logits + 1)]
    label = set(pair.grades or ())
    return np.array([not label.isdisjoint(grades) for grades in outputs], np.float32)


def bounds_of(pair: Pair, labels: ModelLabels) -> tuple[float, float]:
    """Lowest and highest value of a label, 0 for the lowest; for a single output, in grades."""
    if not pair.grades:
        return UNLABELLED
    if labels.logits == 1:
        return float(pair.grades[0] - 1), float(pair.grades[-1] - 1)
    meant = np.array(labels.values)[_allowed(pair, labels) > 0] - labels.values[0]
    return (float(meant.min()), float(meant.max())) if meant.size else UNLABELLED


# The order of a fine-tuning run: length-bucketed, packed batches, all from (seed, epoch).


@dataclass(frozen=True)
class BatchLayout:
    """The row lengths (`buckets`, tokens) and the `slots` of a batch.

    With `by_query`, the titles of a query share a batch, up to its size.
    """

    buckets: tuple[int, ...]
    slots: int
    pad: int
    first_position: int
    by_query: bool = False


@dataclass(frozen=True)
class BatchPlan:
    """One batch: its row length and the examples of each row, by index."""

    slots: int
    rows: list[list[int]]


def buckets_for(longest: int) -> tuple[int, ...]:
    """Row lengths for texts of up to `longest` tokens: the half and the whole, multiples of 8."""
    whole = -(-longest // 8) * 8
    half = -(-whole // 16) * 8
    return (half, whole) if half >= 32 else (whole,)


def plan_epoch(
    examples: Sequence[Sized], layout: BatchLayout, seed: int, epoch: int
) -> list[BatchPlan]:
    """Every example once: packed within its length bucket, rows shuffled, then batches shuffled.

    By query, its titles are packed together, in the bucket of the longest; titles that exceed a batch
    are split differently in each epoch.
    """
    rng = np.random.default_rng([seed, epoch])
    labelled = cast(Sequence[LabelledExample], examples)
    units: dict[int, list[int]] = {}
    for i in rng.permutation(len(examples)).tolist():
        units.setdefault(labelled[i].query if layout.by_query else i, []).append(i)
    plans: list[BatchPlan] = []
    low = 0
    for slots in layout.buckets:
        size = max(1, layout.slots // slots)
        fitting = [u for u in units.values() if low < max(len(examples[i]) for i in u) <= slots]
        blocks = _blocks(fitting, examples, slots, size)
        batch: list[list[int]] = []
        for block in (blocks[b] for b in rng.permutation(len(blocks))):
            if len(batch) + len(block) > size:
                plans.append(BatchPlan(slots, batch))
                batch = []
            batch = batch + block
        if batch:
            plans.append(BatchPlan(slots, batch))
        low = slots
    return [plans[i] for i in rng.permutation(len(plans))]


def _blocks(
    units: Sequence[Sequence[int]], examples: Sequence[Sized], slots: int, size: int
) -> list[list[list[int]]]:
    """Rows that share a batch, at most `size`: those of a long unit, or one row of short ones."""
    short: list[Sequence[int]] = []
    blocks: list[list[list[int]]] = []
    for unit in units:
        lengths = [len(examples[i]) for i in unit]
        if sum(lengths) <= slots:
            short.append(unit)
            continue
        most = size * (slots // max(lengths))  # fits in any packing
        for start in range(0, len(unit), most):
            part = unit[start : start + most]
            rows = best_fit([len(examples[i]) for i in part], slots)
            blocks.append([[part[i] for i in row] for row in rows])
    rows = best_fit([sum(len(examples[i]) for i in unit) for unit in short], slots)
    return blocks + [[[i for place in row for i in short[place]]] for row in rows]


def to_tensors(
    plan: BatchPlan, examples: Sequence[LabelledExample], layout: BatchLayout
) -> dict[str, torch.Tensor]:
    """The tensors of a batch: rows in shapes that depend on the row length alone, examples padded to a multiple.

    `share` [examples] is each example's weight over that of the batch. `query` [examples] and `bounds`
    [examples, 2] are present where titles of a query are compared, `taught` [examples, outputs or 1]
    with a teacher.
    """
    total = sum(examples[i].weight for row in plan.rows for i in row)
    n_rows = max(1, layout.slots // plan.slots)
    rows = [[examples[i] for i in row] for row in plan.rows] + [[]] * (n_rows - len(plan.rows))
    packed = lay_out(rows, plan.slots, pad=layout.pad, first_position=layout.first_position)
    flat = [example for row in rows for example in row]
    # Few numbers of places for examples, so that few shapes are compiled.
    step = max(16, n_rows * plan.slots // 24)
    room = -(-max(len(flat), 1) // step) * step
    share = np.array([e.weight / total for e in flat], np.float32)
    labels = len(examples[0].allowed)
    arrays = packed | {
        "first_slot": filled(room, packed["first_slot"]),
        "allowed": filled(
            room, np.array([e.allowed for e in flat], np.float32).reshape(-1, labels)
        ),
        "auxiliary": filled(room, np.array([e.auxiliary for e in flat]).reshape(-1, 2)),
        "share": filled(room, share),
    }
    if layout.by_query:
        arrays["query"] = filled(room, np.array([e.query for e in flat], np.int64))
        arrays["bounds"] = filled(room, np.array([e.bounds for e in flat], np.float32))
    if examples[0].taught is not None:
        arrays["taught"] = filled(room, np.array([e.taught for e in flat], np.float32))
    return {name: torch.from_numpy(array) for name, array in arrays.items()}  # on the CPU
