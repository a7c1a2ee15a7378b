"""Heads that a share names, by a randomisation test over queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.variant import Variant
from qt_bert.encoder.heads import Head, Shape
from qt_bert.evaluation import q_values
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import chunk_sizes
from qt_bert.evaluation.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.probes.patched.effects import Gap

LEAST_SHARE = 0.02
"""A head that makes up for less of the gap is not named."""
LEAST_DRAWS, DRAWS_EACH = 999, 25
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class Chosen:
    """Shares of single heads on discovery: value, p and q [heads], and the named ones, best first.

    `per_query` [queries, layers, heads] is what each query's pairs move, towards closing the gap.
    """

    values: FloatArray
    p: FloatArray
    q: FloatArray
    heads: list[Head]
    per_query: FloatArray


def choose(
    singles: Sequence[Variant], moves: FloatArray, gap: Gap, shape: Shape, seed: int
) -> Chosen:
    """Name heads whose share is 0.02 or more with q < 0.05 over all of them.

    `singles` are variants of one head each, `moves` [variants, pairs] what they move of the gap.
    """
    heads = [variant.heads[0] for variant in singles]
    values, towards = gap.share(moves).values, gap.towards(moves)
    p = sign_flip_p(towards, seed)
    q = np.array(q_values(list(p)), np.float64)
    with np.errstate(invalid="ignore"):
        passed = (values >= LEAST_SHARE) & (q < FALSE_DISCOVERY_RATE)
    best_first = np.argsort(-np.nan_to_num(values), kind="stable")
    named = [heads[place] for place in best_first if passed[place]]
    return Chosen(values, p, q, named, placed(shape, towards))


def placed(shape: Shape, towards: FloatArray) -> FloatArray:
    """Values of all single heads [heads, queries] as [queries, layers, heads]."""
    return np.stack([shape.spread(one) for one in towards.T])


def sign_flip_p(sums: FloatArray, seed: int) -> FloatArray:
    """One-sided p of each row's sum over queries above 0 [variants, queries] → [variants].

    Under the null a query's move is as likely to be as large the other way: signs are drawn at
    random, the same for all rows. p = (1 + draws at least as large) / (1 + draws).
    """
    rows, queries = sums.shape
    draws = max(LEAST_DRAWS, DRAWS_EACH * rows)
    observed, hits = sums.sum(axis=1), np.zeros(rows)
    slack = ROUNDING * np.abs(sums).sum(axis=1)
    rng = np.random.default_rng(seed)
    for size in chunk_sizes(draws, max(rows, queries)):
        signs = rng.integers(2, size=(size, queries)) * 2.0 - 1.0
        hits += (signs @ sums.T >= observed - slack).sum(axis=0)
    return np.asarray((1 + hits) / (1 + draws))
