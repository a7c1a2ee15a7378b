"""The texts that decisions are asked of: those of pairs, or of a file that people segmented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.evaluation.arrays import BoolArray
from qt_bert.pairs import PairTokenizer
from qt_bert.pairs.sample import sample_queries
from qt_bert.pairs.splits import half_of
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.word_ends.decisions import Asked, Decisions, Ends, asked_of, decisions_of
from qt_bert.probes.word_ends.references import GOLD, gold_texts, references
from qt_bert.probes.word_ends.union import LEAST_DECISIONS

QUICK_PAIRS = {"discovery": 200, "validation": 240}
QUICK_SEGMENTS = 300


@dataclass(frozen=True, eq=False)
class Texts:
    """The decisions of both halves, and where words end there by each reference [D].

    `known` are the labels of discovery, `truth` those of validation. `shared` counts the texts left
    out of validation because discovery has them.
    """

    discovery: Decisions
    validation: Decisions
    known: Mapping[str, BoolArray]
    truth: Mapping[str, BoolArray]
    shared: int = 0


def texts_of_pairs(context: ProbeContext) -> Texts:
    """Queries and titles of both halves, each distinct text once, at all granularities."""

    def asked(half: str, without: Sequence[Asked] = ()) -> list[Asked]:
        pairs = getattr(context, half)
        limit = context.choose(QUICK_PAIRS[half], len(pairs))
        sample = sample_queries(pairs, limit, context.seed)
        return asked_of(sample, {one.text for one in without})

    discovery = asked("discovery")
    validation = asked("validation", discovery)
    shared = len(asked("validation")) - len(validation)
    tokenizer = context.model.tokenizer
    return _texts(discovery, validation, references(context), tokenizer, shared)


def texts_of_gold(context: ProbeContext) -> Texts:
    """The segments of the gold file, halved by a hash of the text as queries are."""
    tokenizer = context.model.tokenizer
    # Two segments and at most four special tokens have to fit.
    asked, ends = gold_texts(Path(context.gold or ""), (tokenizer.max_length - 4) // 2)
    halves: dict[str, list[Asked]] = {"discovery": [], "validation": []}
    for one in asked:
        halves[half_of(one.text)].append(one)
    limit = context.choose(QUICK_SEGMENTS, len(asked))
    discovery, validation = (_drawn(half, limit, context.seed) for half in halves.values())
    return _texts(discovery, validation, {GOLD: ends}, tokenizer)


def _texts(
    discovery: list[Asked],
    validation: list[Asked],
    ends: Mapping[str, Ends],
    tokenizer: PairTokenizer,
    shared: int = 0,
) -> Texts:
    known = decisions_of(tokenizer, discovery, least=LEAST_DECISIONS)
    asked = decisions_of(tokenizer, validation)
    return Texts(
        known,
        asked,
        {name: known.labels(one) for name, one in ends.items()},
        {name: asked.labels(one) for name, one in ends.items()},
        shared,
    )


def _drawn(asked: Sequence[Asked], limit: int, seed: int) -> list[Asked]:
    """At most `limit` of them, in order."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(len(asked))[:limit]
    return [asked[place] for place in sorted(places)]
