"""What is run: one pass over both halves, least squares on the one, agreement on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.effects import OutputReader
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.controls import contest
from qt_bert.probes.matching_scores import along
from qt_bert.probes.naming import FunctionHeads, function_heads
from qt_bert.probes.surrogate.directions import directions_of
from qt_bert.probes.surrogate.fit import Agreement, agreements, correlations, predictions
from qt_bert.probes.surrogate.idf import Counted, counted
from qt_bert.probes.surrogate.lexical import bm25, overlap
from qt_bert.probes.surrogate.soft_counts import soft_counts
from qt_bert.probes.surrogate.terms import Idf, Term, terms_of
from qt_bert.stats.arrays import FloatArray, IntArray

QUICK_PAIRS, QUICK_HELD_OUT = 240, 120
"""Pairs of a quick run: of either half, and of each held-out file."""
QUICK_DRAWS, FULL_DRAWS = 99, 999
"""Layer-matched sets; every head's feature is there, so one more costs a small fit."""

LEXICAL = ("bm25", "overlap")


@dataclass(frozen=True, eq=False)
class Measured:
    """Some pairs: the model's `grade` [n], and what is fitted to it.

    `soft` [n, layers, heads] are the soft counts of each head in its own direction, `lexical` [n, 2]
    are BM25 and the overlap of words.
    """

    name: str
    pairs: list[Pair]
    grade: FloatArray
    soft: FloatArray
    lexical: FloatArray

    def of_heads(self, heads: Sequence[Head]) -> FloatArray:
        """The features of some heads [n, k]."""
        return np.stack([self.soft[:, head.layer, head.head] for head in heads], axis=1)


@dataclass(frozen=True, eq=False)
class Fits:
    """How what was fitted on discovery agrees with the model on other pairs.

    `heads` is of the asked heads, `matched` of each layer-matched set, `said` [n] what the heads' fit
    says; None, empty and None where there are no heads to ask about.
    """

    on: Measured
    bm25: Agreement
    overlap: Agreement
    heads: Agreement | None
    matched: list[Agreement]
    said: FloatArray | None


@dataclass(frozen=True, eq=False)
class Study:
    """All that the result is made of. `directions` [layers, heads] says how each head is read."""

    shape: Shape
    asked: FunctionHeads | None
    directions: IntArray
    counted: Counted
    discovery: Measured
    validation: Fits
    held_out: list[Fits]

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads asked about."""
        return () if self.asked is None else self.asked.heads

    def own_r(self, on: Measured) -> FloatArray:
        """r of each head's own soft count with the grade [layers, heads]; NaN for absent heads."""
        found = correlations(on.soft, on.grade)
        return self.shape.spread([found[head] for head in self.shape.all_heads])


def study(context: Context) -> Study:
    """Run all of it. Raises PairFileError for a corpus that cannot be read."""
    shape = context.model.checkpoint.shape
    asked = function_heads(context, "matching")
    directions = directions_of(context.found("matching"), shape)
    samples = _samples(context)
    cut = {
        text: terms_of(text, context.segmenter)
        for text in {text for _, pairs in samples for p in pairs for text in (p.query, p.title)}
    }
    asked_for = {term.word for _, pairs in samples for p in pairs for term in cut[p.query]}
    weights = counted(context, asked_for)
    length = _mean_length([cut[pair.title] for pair in samples[0][1]])
    discovery, validation, *others = (
        _measured(name, pairs, cut, weights.idf, length, directions, context)
        for name, pairs in samples
    )
    heads = () if asked is None else asked.heads
    sets = [heads, *_controls(heads, shape, context)] if heads else []
    return Study(
        shape,
        asked,
        directions,
        weights,
        discovery,
        _fits(discovery, validation, sets, context),
        [_fits(discovery, one, sets, context) for one in others],
    )


def _samples(context: Context) -> list[tuple[str, list[Pair]]]:
    """Discovery, validation, and each held-out file."""
    limits = [
        ("discovery", context.discovery, QUICK_PAIRS),
        ("validation", context.validation, QUICK_PAIRS),
        *((name, pairs, QUICK_HELD_OUT) for name, pairs in context.held_out),
    ]
    return [
        (name, spread_over_queries(pairs, context.choose(limit, len(pairs)), context.seed))
        for name, pairs, limit in limits
    ]


def _mean_length(titles: Sequence[Sequence[Term]]) -> float:
    return float(np.mean([len(title) for title in titles])) if titles else 0.0


def _controls(heads: Sequence[Head], shape: Shape, context: Context) -> list[tuple[Head, ...]]:
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    drawn = contest("surrogate", heads, shape, matched=draws, free=0, seed=context.seed)
    return [variant.heads for variant in drawn.matched]


def _measured(
    name: str,
    pairs: list[Pair],
    cut: dict[str, list[Term]],
    idf: Idf,
    mean_length: float,
    directions: IntArray,
    context: Context,
) -> Measured:
    scorer = context.model
    texts = [(pair.query, pair.title) for pair in pairs]
    with context.progress(len(pairs), "pairs") as shown:
        found, logits = soft_counts(scorer, texts, [cut[q] for q, _ in texts], idf, shown=shown)
    soft = np.stack([along(directions, one) for one in found])
    lexical = [
        (bm25(cut[query], cut[title], idf, mean_length), overlap(cut[query], cut[title]))
        for query, title in texts
    ]
    grade = OutputReader(pairs, scorer.checkpoint.settings.labels).read(logits).score
    return Measured(name, pairs, grade, soft, np.array(lexical))


def _fits(
    discovery: Measured, on: Measured, sets: Sequence[Sequence[Head]], context: Context
) -> Fits:
    """`sets` are the asked heads, then their controls."""
    features = [(one.lexical[:, [0]], one.lexical[:, [1]]) for one in (discovery, on)]
    fitted = [
        *zip(*features, strict=True),
        *((discovery.of_heads(heads), on.of_heads(heads)) for heads in sets),
    ]
    said = np.stack([predictions(known, discovery.grade, new) for known, new in fitted])
    queries = [pair.query for pair in on.pairs]
    found = agreements(said, on.grade, queries, context.resamples, context.seed)
    bm, words, *of_heads = found
    own = said[len(LEXICAL)] if sets else None
    return Fits(on, bm, words, of_heads[0] if sets else None, of_heads[1:], own)
