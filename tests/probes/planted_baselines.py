"""A made table of baselines in which it is known which model is better than which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.results.baselines import (
    BERT_LSTM,
    CHARACTERS,
    CROSS_ENCODER,
    LEXICAL,
    LSTM,
    LSTM_WORDS,
    MODELS,
    NO_PAIRS,
    RANDOM,
    TWO_TOWER,
    WORDS,
    Baselines,
    BaselinesRecord,
    BoundaryOutputs,
    HeadRead,
    MatchingOutputs,
    Pretraining,
    TableRow,
    digest_of,
)
from qt_bert.results.probe import PairsRef

NOISE = {
    CROSS_ENCODER: 0.3,
    CHARACTERS: 0.8,
    WORDS: 0.8,
    NO_PAIRS: 0.8,
    LSTM: 3.0,
    LSTM_WORDS: 1.0,
    TWO_TOWER: 2.0,
    BERT_LSTM: 2.0,
    LEXICAL: 2.0,
}
"""How much a model's grades stray, as the article would have it."""


def pairs_of(queries: int = 120, titles: int = 4, seed: int = 0) -> list[Pair]:
    """Graded pairs of made queries."""
    rng = np.random.default_rng(seed)
    return [
        Pair(f"query {q}", f"title {q} {t}", (grade,), None, q * titles + t + 2, str(grade), {})
        for q in range(queries)
        for t in range(titles)
        for grade in [int(rng.integers(1, 6))]
    ]


def table(
    pairs: Sequence[Pair], noise: Mapping[str, float] = NOISE, *, words_like_characters: bool = True
) -> Baselines:
    """The table of these pairs; words and characters stray alike for BERT, where asked for."""
    grades = np.array([(pair.grades or (0,))[0] for pair in pairs], float)
    said = {}
    for number, name in enumerate(MODELS):
        rng = np.random.default_rng([1, number])
        said[name] = grades + rng.normal(0, noise[name], len(grades))
    if words_like_characters:
        said[WORDS] = said[CHARACTERS] + np.random.default_rng(2).normal(0, 0.01, len(grades))
    numbers: dict[str, int] = {}
    queries = np.array([numbers.setdefault(pair.query, len(numbers)) for pair in pairs])
    record = BaselinesRecord(
        versions={},
        recipe="made.toml",
        pairs=PairsRef(
            name="test.tsv", sha256="0" * 64, n_pairs=len(pairs), n_queries=len(numbers)
        ),
        digest=digest_of((pair.query, pair.title) for pair in pairs),
        discovery=PairsRef(name="dev.tsv", sha256="1" * 64, n_pairs=1, n_queries=1),
        pretraining=tuple(_pretraining(name) for name in (CHARACTERS, WORDS, NO_PAIRS)),
        rows=tuple(_row(name, -noise[name]) for name in MODELS),
        boundary=tuple(_read(name, "L0H1") for name in (CHARACTERS, NO_PAIRS, RANDOM)),
        matching=tuple(_read(name, "L1H0") for name in (CHARACTERS, NO_PAIRS, RANDOM)),
    )
    return Baselines(
        record,
        np.stack([_probabilities(said[name]) for name in MODELS]),
        np.array([[grade == g for g in range(1, 6)] for grade in grades]),
        queries,
        {
            name: boundary(apart)
            for name, apart in ((CHARACTERS, 2.0), (NO_PAIRS, 2.0), (RANDOM, 0))
        },
        {
            name: matching(times)
            for name, times in ((CHARACTERS, 6.0), (NO_PAIRS, 1.5), (RANDOM, 1))
        },
    )


def boundary(apart: float, queries: int = 60, each: int = 20) -> BoundaryOutputs:
    """Decisions whose word ends lie `apart` standard deviations above the others."""
    rng = np.random.default_rng(3)
    labels = rng.random(queries * each) < 0.5
    values = rng.normal(0, 1, labels.size) + apart * labels
    return BoundaryOutputs(values.astype(np.float32), labels, np.repeat(np.arange(queries), each))


def matching(times: float, queries: int = 60) -> MatchingOutputs:
    """Sums of a head that looks `times` as much at its own place as elsewhere, beside none."""
    rng = np.random.default_rng(4)
    counts = np.tile([4.0, 20.0], (queries, 1))
    plain = counts * 0.01 * rng.uniform(0.9, 1.1, (queries, 2))
    own = plain * [times, 1.0]
    return MatchingOutputs(own, plain, counts)


def write(folder: Path, pairs: Sequence[Pair], **changes: object) -> Path:
    """The folder of a made table."""
    table(pairs, **changes).write(folder)  # type: ignore[arg-type]
    return folder


def _probabilities(said: np.ndarray) -> np.ndarray:
    """Normal bells over the grades, so that the expected grade rises with what is said."""
    logits = -((np.clip(said, 0, 6)[:, None] - np.arange(1, 6)) ** 2)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))


def _row(name: str, discovery: float) -> TableRow:
    kinds = {LSTM: LSTM, LSTM_WORDS: LSTM, TWO_TOWER: TWO_TOWER, BERT_LSTM: BERT_LSTM}
    return TableRow(
        name=name,
        architecture=kinds.get(name, LEXICAL if name == LEXICAL else CROSS_ENCODER),
        base="pretrained",
        sha256=None,
        parameters=7_000_000,
        steps=900,
        rate=3e-4,
        pairs_seen=50_000,
        pairs_per_second=200.0,
        discovery=discovery,
    )


def _pretraining(name: str) -> Pretraining:
    return Pretraining(
        name=name,
        sha256="2" * 64,
        words=None,
        pair_objective=name != NO_PAIRS,
        steps=10,
        tokens=100,
        characters=100,
        mlm_loss=5.0,
        mlm_accuracy=0.2,
        pair_accuracy=None,
        seconds=900.0,
        texts=1000,
    )


def _read(model: str, head: str) -> HeadRead:
    return HeadRead(model=model, head=head, discovery=0.7)
