"""Graded pairs of several files as one tokenised training set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.encoder import ModelLabels
from qt_bert.encoder.architectures.texts import apart
from qt_bert.encoder.batches import groups_of
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs import Pair, PairTokenizer
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.training.packing import Example
from qt_bert.training.sources import PairSource


@dataclass(frozen=True)
class LabelledExample(Example):
    """A tokenised pair with its target.

    `allowed` [outputs] is 1 at each output the label may mean; a pair without a label has none
    allowed, nor has one of an auxiliary source, whose class is `auxiliary` = (output, class).
    """

    allowed: np.ndarray
    auxiliary: tuple[int, int]
    weight: float


@dataclass(frozen=True)
class ApartExample(LabelledExample):
    """A labelled pair whose query, the first `cut` tokens, and title are read apart."""

    cut: int

    @property
    def texts(self) -> Sequence[Example]:
        """Query and title, each `[CLS] … [SEP]`."""
        return (
            Example(self.input_ids[: self.cut], self.token_type_ids[: self.cut]),
            Example(self.input_ids[self.cut :], self.token_type_ids[self.cut :]),
        )


@dataclass(frozen=True)
class TrainingSet:
    """Examples, the auxiliary outputs (name → labels in order), and how many rows each file gave.

    `sha256` is over all that training sees, `texts_sha256` over texts and labels before any is cut.
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
    *,
    split: bool = False,
) -> TrainingSet:
    """Read and tokenise `sources` for outputs that mean `labels`; `split` lays the texts apart.

    Where these are no grades, labels are read as ordered levels 0 … K − 1; a single output has no
    label it could mean. Raises PairFileError where a source gives no row or too many bad ones
    (listed in the folder `rejects`), ArgumentError where levels and auxiliary outputs are asked for
    together.
    """
    levels = labels.logits if labels.grades is None and labels.logits > 1 else None
    if levels and any(source.auxiliary for source in sources):
        raise ArgumentError("--levels trains one output; leave the auxiliary sources out")
    read = [(s, _pairs(s, levels, rejects, number)) for number, s in enumerate(sources, 1)]
    auxiliaries = _auxiliaries(read)
    outputs = list(auxiliaries)
    examples: list[LabelledExample] = []
    counts: dict[str, int] = {}
    truncated = 0
    for source, pairs in read:
        name = f"{source.file.name}{f' ({source.auxiliary})' if source.auxiliary else ''}"
        counts[name] = counts.get(name, 0) + len(pairs)
        encoded = tokenizer.encode([(p.query, p.title) for p in pairs], offsets=False)
        for pair, tokens in zip(pairs, encoded, strict=True):
            truncated += tokens.title_truncated or tokens.query_truncated
            if source.auxiliary:
                allowed = np.zeros(labels.logits, np.float32)
                output = outputs.index(source.auxiliary)
                place = (output, auxiliaries[source.auxiliary].index(pair.label or ""))
            else:
                allowed, place = _allowed(pair, labels), (-1, 0)
            made = _apart if split else _together
            examples.append(made(tokens, allowed, place, source.weight))
    return TrainingSet(
        examples, auxiliaries, counts, truncated, _digest(examples), _digest_of_texts(read)
    )


def _together(
    tokens: EncodedPair, allowed: np.ndarray, auxiliary: tuple[int, int], weight: float
) -> LabelledExample:
    ids, types = np.array(tokens.input_ids), np.array(tokens.token_type_ids)
    groups = np.array(groups_of(tokens), np.int8)
    return LabelledExample(ids, types, allowed, auxiliary, weight, groups=groups)


def _apart(
    tokens: EncodedPair, allowed: np.ndarray, auxiliary: tuple[int, int], weight: float
) -> LabelledExample:
    query, title = apart(tokens)
    ids = np.array(query + title)
    return ApartExample(ids, np.zeros_like(ids), allowed, auxiliary, weight, len(query))


def _digest(examples: Sequence[LabelledExample]) -> str:
    """One hash over all that training sees of the examples, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(example.input_ids.astype(np.int32).tobytes())
        digest.update(example.allowed.tobytes())
        digest.update(f"{example.auxiliary} {example.weight}".encode())
    return digest.hexdigest()


def _digest_of_texts(read: Sequence[tuple[PairSource, list[Pair]]]) -> str:
    """One hash over texts and labels, whatever the tokenizer makes of them."""
    digest = hashlib.sha256()
    for source, pairs in read:
        digest.update(f"{source.auxiliary} {source.weight}\n".encode())
        for pair in pairs:
            digest.update(f"{(pair.query, pair.title, pair.grades, pair.label)!r}\n".encode())
    return digest.hexdigest()


def _pairs(source: PairSource, levels: int | None, rejects: Path | None, number: int) -> list[Pair]:
    listed = rejects / f"rejects-{number}.tsv" if rejects else None
    pairs = source.read(levels=levels, labelled=True, rejects_path=listed)
    if not pairs:
        raise PairFileError(f"{source.file}: no row is left to train on; check labels and exclude")
    return pairs


def _auxiliaries(read: list[tuple[PairSource, list[Pair]]]) -> dict[str, list[str]]:
    labels: dict[str, set[str]] = {}
    for source, pairs in read:
        if source.auxiliary:
            labels.setdefault(source.auxiliary, set()).update(p.label or "" for p in pairs)
    return {name: sorted(found) for name, found in labels.items()}


def _allowed(pair: Pair, labels: ModelLabels) -> np.ndarray:
    """1 at each output that the pair's label may mean."""
    if labels.logits == 1:
        return np.zeros(1, np.float32)
    means = labels.grades or [(level,) for level in range(1, labels.logits + 1)]
    label = set(pair.grades or ())
    return np.array([not label.isdisjoint(one) for one in means], np.float32)
