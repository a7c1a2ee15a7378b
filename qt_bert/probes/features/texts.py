"""The texts that heads look at, with the kinds of their characters, and the queries they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import jieba_tagger
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.treebank import Sentence, halves, read_treebank
from qt_bert.errors import PairFileError
from qt_bert.probes.base import Context
from qt_bert.probes.features.kinds import Labelled, by_people, by_tags

QUICK_PAIRS = {"discovery": 60, "validation": 120}
QUICK_SENTENCES = {"discovery": 60, "validation": 120}
LEAST_SENTENCES = 4
"""Of each half: two pairs, so that there is something to resample."""


class Read(NamedTuple):
    """What a model reads at once, in two texts; `query` says what it is resampled with."""

    query: str
    texts: tuple[Labelled, Labelled]


@dataclass(frozen=True, eq=False)
class Texts:
    """What heads are chosen on, and what the figures are of."""

    discovery: list[Read]
    validation: list[Read]


def texts_of_pairs(context: Context) -> Texts:
    """Queries and titles of both halves by jieba's tags; in quick a sample of many queries."""
    tag = jieba_tagger(context.userdict)
    labelled: dict[str, Labelled] = {}

    def of(text: str) -> Labelled:
        if text not in labelled:
            labelled[text] = by_tags(text, tag)
        return labelled[text]

    def read(half: str, pairs: Sequence[Pair]) -> list[Read]:
        limit = context.choose(QUICK_PAIRS[half], len(pairs))
        sample = spread_over_queries(pairs, limit, context.seed)
        return [Read(pair.query, (of(pair.query), of(pair.title))) for pair in sample]

    return Texts(read("discovery", context.discovery), read("validation", context.validation))


def texts_of_treebanks(context: Context) -> Texts | None:
    """The sentences of all treebanks, two in a row read as query and title; None where none is given.

    Each sentence once, in the half of its text. Raises PairFileError where a half has fewer than
    LEAST_SENTENCES.
    """
    if not context.treebanks:
        return None
    sentences = [one for path in context.treebanks for one in read_treebank(path).sentences]
    parts = halves({sentence.text: sentence for sentence in sentences}.values())

    def read(half: str, own: list[Sentence]) -> list[Read]:
        if len(own) < LEAST_SENTENCES:
            named = ", ".join(map(str, context.treebanks))
            raise PairFileError(
                f"{named}: {len(own)} different sentences in the half for {half}, which needs "
                f"{LEAST_SENTENCES}; give a larger treebank"
            )
        drawn = _drawn(own, context.choose(QUICK_SENTENCES[half], len(own)), context.seed)
        found = [by_people(sentence) for sentence in drawn]
        return [
            Read(one.text, (one, other))
            for one, other in zip(found[:-1:2], found[1::2], strict=True)
        ]

    return Texts(read("discovery", parts.discovery), read("validation", parts.validation))


def _drawn(sentences: list[Sentence], limit: int, seed: int) -> list[Sentence]:
    """At most `limit` of them, in order."""
    places = np.random.default_rng(seed).permutation(len(sentences))[:limit]
    return [sentences[place] for place in sorted(places)]
