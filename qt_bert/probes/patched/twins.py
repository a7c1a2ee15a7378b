"""Twins: a pair, and the same pair with the rarest term of both texts replaced in its title.

They are made on token ids, so that both are equally long whatever the tokenizer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from qt_bert.pairs import Pair
from qt_bert.pairs.sample import spread_over_queries
from qt_bert.pairs.segmenters import Segmenter
from qt_bert.pairs.tokenise import EncodedPair, PairTokenizer
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.patched.classes import TokenClass, TwinText, classes_of
from qt_bert.probes.patched.terms import Donors, Term, document_frequency, usable_terms

PAIRS = 64
"""So many pairs in quick; under --full one of each query, and so many at least."""
QUICK_LOOKED_AT = 6 * PAIRS
QUICK_COUNTED = 2_000
"""Discovery pairs that words are counted in."""


@dataclass(frozen=True, eq=False)
class Twin:
    """A pair as it is (`given`) and with `word` replaced in the title."""

    pair: Pair
    word: str
    given: TwinText
    replaced: TwinText

    def masked(self, token: int) -> Twin:
        """The twin that has `token` in the term's place."""
        return replace(self, replaced=with_slot(self.given, [token]))


@dataclass(frozen=True, eq=False)
class Made:
    """The twins of some pairs, and of how many there are none: no term in common, or no replacement."""

    twins: list[Twin]
    looked_at: int
    unshared: int
    unreplaced: int

    @property
    def texts(self) -> list[TwinText]:
        """Each twin's two texts, one after the other."""
        return [text for twin in self.twins for text in (twin.given, twin.replaced)]

    @property
    def queries(self) -> list[str]:
        """The query of each twin."""
        return [twin.pair.query for twin in self.twins]

    def spread(self, limit: int, seed: int) -> Made:
        """At most so many of the twins, of as many queries as there can be."""
        kept = set(map(id, spread_over_queries([one.pair for one in self.twins], limit, seed)))
        return replace(self, twins=[one for one in self.twins if id(one.pair) in kept])

    def masked(self, token: int) -> Made:
        """The same pairs with `token` in the term's place."""
        return replace(self, twins=[twin.masked(token) for twin in self.twins])

    def describe(self) -> dict[str, int]:
        """For the settings of a result."""
        return {
            "pairs": len(self.twins),
            "queries": len(set(self.queries)),
            "looked_at": self.looked_at,
            "no_shared_term": self.unshared,
            "no_replacement": self.unreplaced,
        }


def with_slot(text: TwinText, ids: Sequence[int]) -> TwinText:
    """`text` with `ids` in its slot, over and over where the term stands more than once."""
    slots = [place for place, kind in enumerate(text.classes) if kind == TokenClass.SLOT]
    put = dict(zip(slots, cycle(ids), strict=False))
    return replace(text, input_ids=[put.get(at, one) for at, one in enumerate(text.input_ids)])


@dataclass(frozen=True, eq=False)
class TwinMaker:
    """Makes twins; what it draws depends on the seed and the pair alone.

    `frequency` counts the texts that have a word, `special` are tokens that no word may hold.
    """

    tokenizer: PairTokenizer
    segmenter: Segmenter
    frequency: Mapping[str, int]
    donors: Donors
    special: frozenset[int]
    seed: int

    @classmethod
    def of(cls, context: ProbeContext) -> TwinMaker:
        """For a run: words counted on discovery, replacements drawn from the queries of both halves."""
        scorer, cut = context.model, context.segmenter
        special = frozenset(map(int, scorer.checkpoint.tokenizer.all_special_ids))
        counted = _at_most(context.discovery, QUICK_COUNTED, context)
        asked = [pair.query for pair in (*counted, *_looked_at(context.validation, context))]
        donors = Donors(scorer.tokenizer, cut, asked, special)
        frequency = document_frequency(counted, cut)
        return cls(scorer.tokenizer, cut, frequency, donors, special, context.seed)

    def sample(self, pairs: Sequence[Pair], context: ProbeContext) -> Made:
        """Twins of one pair of each query, of more where there are few queries; by profile."""
        made = self.make(_looked_at(pairs, context))
        limit = PAIRS if not context.full else max(PAIRS, len(set(made.queries)))
        return made.spread(limit, context.seed)

    def make(self, pairs: Sequence[Pair]) -> Made:
        """The twins of all `pairs` that have any."""
        twins, unshared, unreplaced = [], 0, 0
        encodings = self.tokenizer.encode([(pair.query, pair.title) for pair in pairs])
        for pair, encoded in zip(pairs, encodings, strict=True):
            terms = usable_terms(encoded, pair.query, pair.title, self.segmenter, self.special)
            twin = self._twin(pair, encoded, terms)
            if twin is not None:
                twins.append(twin)
            unshared += not terms
            unreplaced += bool(terms) and twin is None
        return Made(twins, len(pairs), unshared, unreplaced)

    def _twin(self, pair: Pair, encoded: EncodedPair, terms: Sequence[Term]) -> Twin | None:
        """Of the rarest term that another word can stand in for."""
        rng, taken = self._generator(pair), frozenset(encoded.input_ids)
        for term in sorted(
            terms, key=lambda one: (self.frequency.get(one.word, 0), -len(one.word))
        ):
            ids = self.donors.draw(term.length, taken, (pair.query, pair.title), rng)
            if ids is not None:
                facts = {name: getattr(encoded, name) for name in EncodedPair.__slots__}
                given = TwinText(**facts, classes=classes_of(encoded, term.query, term.title))
                return Twin(pair, term.word, given, with_slot(given, ids))
        return None

    def _generator(self, pair: Pair) -> np.random.Generator:
        digest = hashlib.sha256(f"{pair.query}\0{pair.title}".encode()).digest()
        return np.random.default_rng([self.seed, *digest[:8]])


def _looked_at(pairs: Sequence[Pair], context: ProbeContext) -> list[Pair]:
    return _at_most(pairs, QUICK_LOOKED_AT, context)


def _at_most(pairs: Sequence[Pair], limit: int, context: ProbeContext) -> list[Pair]:
    """All of them under --full."""
    return list(pairs) if context.full else spread_over_queries(pairs, limit, context.seed)
