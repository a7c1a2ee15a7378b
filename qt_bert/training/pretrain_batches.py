"""The order of a pretraining run: which examples, packed how, masked where: all from (seed, step)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.training.corpus import Corpus, TokenStore
from qt_bert.training.packing import Example, PackedRows, best_fit, filled, lay_out

EXAMPLES_A_CHUNK = 20_000
"""Examples are drawn, packed and shuffled in chunks of this many."""


@dataclass(frozen=True)
class Special:
    """Ids of the tokenizer's special tokens and the size of its vocabulary.

    `lengths` [vocabulary] are the characters that a token spells; without them each counts as one.
    """

    cls: int
    sep: int
    pad: int
    mask: int
    vocabulary: int
    lengths: np.ndarray | None = None

    @cached_property
    def ordinary(self) -> np.ndarray:
        """The ids a masked character may be swapped for."""
        return np.setdiff1d(np.arange(self.vocabulary), [self.cls, self.sep, self.pad, self.mask])


@dataclass(frozen=True)
class BatchShape:
    """What one batch holds: a budget of slots, split into rows of one of two lengths."""

    slots: int = 6144
    short: int = 64
    long: int = 128
    pair_share: float = 0.25
    negative_share: float = 0.30
    masked_share: float = 0.15


@dataclass(frozen=True)
class PairExample(Example):
    """An example with the label of the segment-pair task."""

    belongs: bool


@dataclass(frozen=True)
class PretrainBatch:
    """One batch. `masked_slot`, `masked_label`, `masked_weight` [predictions] and `cls_slot`,
    `belongs`, `cls_weight` [examples] have one length in every batch; weight 0 fills them up.
    `characters` counts those of its text."""

    rows: PackedRows
    masked_slot: np.ndarray
    masked_label: np.ndarray
    masked_weight: np.ndarray
    cls_slot: np.ndarray
    belongs: np.ndarray
    cls_weight: np.ndarray
    characters: int = 0

    @property
    def real_tokens(self) -> int:
        return int((self.rows.segment > 0).sum())


def batches(
    corpus: Corpus, special: Special, shape: BatchShape, seed: int, skip: int = 0
) -> Iterator[PretrainBatch]:
    """Batches without end; `skip` passes over the first ones (a resumed run)."""
    chunk = 0
    while True:
        rng = np.random.default_rng([seed, chunk])
        packed = _pack_chunk(_examples(corpus, special, shape, seed, chunk, rng), shape, rng)
        for slots, group in packed:
            if skip:
                skip -= 1
                rng.random()  # one draw a batch keeps the masks of the others where they were
                continue
            mask_rng = np.random.default_rng([seed, chunk, int(rng.random() * 2**53)])
            yield _masked(group, slots, special, shape, mask_rng)
        chunk += 1


def _order(seed: int, name: int, start: int, count: int, population: int) -> np.ndarray:
    """Items start … start + count of an endless sequence of permutations of the population."""
    out = []
    while count:
        epoch, offset = divmod(start, population)
        order = np.random.default_rng([seed, name, epoch]).permutation(population)
        part = order[offset : offset + count]
        out.append(part)
        start, count = start + len(part), count - len(part)
    return np.concatenate(out)


def _examples(
    corpus: Corpus,
    special: Special,
    shape: BatchShape,
    seed: int,
    chunk: int,
    rng: np.random.Generator,
) -> list[PairExample]:
    n_pairs = int(EXAMPLES_A_CHUNK * shape.pair_share) if len(corpus.first) else 0
    n_text = EXAMPLES_A_CHUNK - n_pairs
    halves = [
        _cut(corpus.fragments, i, shape, rng)
        for i in _order(seed, 1, chunk * n_text, n_text, len(corpus.fragments))
    ]
    together = [
        _fit(corpus.first[i], corpus.second[i], shape.long - 3)
        for i in (_order(seed, 2, chunk * n_pairs, n_pairs, len(corpus.first)) if n_pairs else ())
    ]
    drawn = _with_negatives(halves, shape, rng) + _with_negatives(together, shape, rng)
    return [_joined(first, second, belongs, special) for first, second, belongs in drawn]


def _joined(first: np.ndarray, second: np.ndarray, belongs: bool, special: Special) -> PairExample:
    ids = np.concatenate([[special.cls], first, [special.sep], second, [special.sep]])
    types = np.repeat([0, 1], [len(first) + 2, len(second) + 1])
    return PairExample(ids, types, belongs)


def _cut(
    store: TokenStore, index: int, shape: BatchShape, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A fragment in two parts, cut between a fifth and four fifths; long ones are windowed first."""
    ids = store[index]
    room = (shape.long if rng.random() < 0.5 else shape.short) - 3
    if len(ids) > room:
        start = int(rng.integers(0, len(ids) - room + 1))
        ids = ids[start : start + room]
    cut = max(1, int(len(ids) * rng.uniform(0.2, 0.8)))
    return ids[:cut], ids[cut:]


def _fit(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Both texts within `room` tokens; the second is shortened first."""
    first = first[: room - 1]
    return first, second[: room - len(first)]


def _with_negatives(
    texts: list[tuple[np.ndarray, np.ndarray]], shape: BatchShape, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    """Give a share of the pairs another one's second text: (first, second, belong together)."""
    out = []
    for i, (first, second) in enumerate(texts):
        belongs = bool(rng.random() >= shape.negative_share) or len(texts) < 2
        if not belongs:
            second = texts[(i + int(rng.integers(1, len(texts)))) % len(texts)][1]
        out.append((*_fit(first, second, shape.long - 3), belongs))
    return out


def _pack_chunk(
    examples: list[PairExample], shape: BatchShape, rng: np.random.Generator
) -> list[tuple[int, list[list[PairExample]]]]:
    """(row length, rows) for each batch of the chunk, in shuffled order; remainders are dropped."""
    out: list[tuple[int, list[list[PairExample]]]] = []
    for low, slots in ((0, shape.short), (shape.short, shape.long)):
        chosen = [e for e in examples if low < len(e) <= slots]
        rows = best_fit([len(e) for e in chosen], slots)
        order = rng.permutation(len(rows))
        size = shape.slots // slots
        for start in range(0, len(rows) - size + 1, size):
            out.append((slots, [[chosen[i] for i in rows[r]] for r in order[start : start + size]]))
    return [out[i] for i in rng.permutation(len(out))]


def _masked(
    group: list[list[PairExample]],
    slots: int,
    special: Special,
    shape: BatchShape,
    rng: np.random.Generator,
) -> PretrainBatch:
    """Mask 15 % of the text tokens: 80 % [MASK], 10 % a random token, 10 % as they were."""
    rows = lay_out(group, slots, pad=special.pad)
    ids = rows.input_ids.reshape(-1)
    text = (rows.segment.reshape(-1) > 0) & (ids != special.cls) & (ids != special.sep)
    spelled = text.sum() if special.lengths is None else special.lengths[ids[text]].sum()
    chosen = np.flatnonzero(text & (rng.random(ids.size) < shape.masked_share))
    room = int(ids.size * (shape.masked_share + 0.01))
    chosen = np.sort(rng.permutation(chosen)[:room])
    labels = ids[chosen].copy()
    kind = rng.random(len(chosen))
    ids[chosen[kind < 0.8]] = special.mask
    swapped = chosen[kind >= 0.9]
    ids[swapped] = rng.choice(special.ordinary, len(swapped))
    examples = shape.slots // 4
    belongs = np.array([e.belongs for row in group for e in row], np.int64)
    return PretrainBatch(
        rows,
        filled(room, chosen),
        filled(room, labels),
        filled(room, np.ones(len(chosen), np.float32)),
        filled(examples, rows.first_slot),
        filled(examples, belongs),
        filled(examples, np.ones(len(belongs), np.float32)),
        int(spelled),
    )
