"""How much of a set of heads comes back when heads are scored again, beside what chance gives.

Nothing is run for it: a rule turns weights of the queries into scores, from what each query said when
the set was chosen. `overlap` resamples the queries; `halves` parts them, for a set is always at home
on the queries it was chosen on, be its scores ever so much noise (`results.stability.verdict_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.encoder.heads import Head, by_layer
from qt_bert.evaluation.arrays import BoolArray, FloatArray, ratio
from qt_bert.results import Text
from qt_bert.results.stability import OnSource, Stability, verdict_of

RESAMPLES = 100
CHANCE = 0.95
"""The percentile of chance that an overlap has to exceed."""

VALIDATION = Text("验证集", "validation")

Rule = Callable[[FloatArray], FloatArray]
"""How often each query counts [R, queries] → scores [R, layers, heads]; NaN: not to be chosen."""


@dataclass(frozen=True)
class Elsewhere:
    """The same rule on other data or another model, `name` in words."""

    name: Text
    rule: Rule
    n_queries: int


def stability(
    rule: Rule,
    chosen: Collection[Head],
    n_queries: int,
    *,
    pool: Iterable[Head] | None = None,
    elsewhere: Sequence[Elsewhere] = (),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Stability | None:
    """How stable `chosen` is, whose heads are among the best by `rule`; None for no heads or queries.

    As many heads as it has count as the best. Random sets are drawn from `pool`, by default the
    heads that the rule scores, with those of the set.
    """
    wanted = set(chosen)
    if not wanted or not n_queries:
        return None
    rng, k = np.random.default_rng(seed), len(wanted)
    drawn = (_resampled(rng, n_queries, resamples), *_halved(rng, n_queries, resamples))
    scores = rule(np.concatenate([np.ones((1, n_queries)), *drawn]))  # at once: a rule may be slow
    members = mask_of(wanted, scores[0].shape)
    again, one, other = np.split(_best(scores[1:], k), 3)
    shared = _shared(again, members) / k
    halves = float(_shared(one, other).mean() / k) if n_queries > 1 else None
    drawn_from = set(_heads(np.isfinite(scores[0])) if pool is None else pool) | wanted
    law = chance_of(wanted, drawn_from)
    chance_95 = int(np.searchsorted(np.cumsum(law), CHANCE - 1e-9)) / k
    overlap = float(shared.mean())
    low, high = np.quantile(shared, [0.025, 0.975])
    return Stability(
        overlap=overlap,
        low=float(low),
        high=float(high),
        halves=halves,
        chance_mean=min(1.0, float(law @ np.arange(k + 1)) / k),
        chance_95=chance_95,
        k=k,
        n_queries=n_queries,
        resamples=resamples,
        verdict=verdict_of(overlap, halves, chance_95),
        sources=tuple(_on(one, members, k) for one in elsewhere if one.n_queries),
    )


def known_stability(**found: Stability | None) -> dict[str, Stability]:
    """By the set's name, those that are there."""
    return {name: one for name, one in found.items() if one is not None}


def chance_of(chosen: Collection[Head], pool: Collection[Head]) -> FloatArray:
    """The chance that a random set of as many heads in each layer shares 0, 1, … k heads [k + 1].

    `pool`, with `chosen` in it, is what sets are drawn from. Exact, as if every set were drawn: of
    one layer the number is hypergeometric, and layers are drawn apart.
    """
    from scipy.stats import hypergeom

    sizes = {layer: len(numbers) for layer, numbers in by_layer(pool).items()}
    law = np.ones(1)
    for layer, numbers in by_layer(chosen).items():
        k = len(numbers)
        law = np.convolve(law, hypergeom(sizes[layer], k, k).pmf(np.arange(k + 1)))
    return np.asarray(law)


def by_mean(per_query: FloatArray) -> Rule:
    """The mean over the queries that say something, `per_query` [queries, layers, heads]."""
    known, filled = np.isfinite(per_query).astype(np.float64), np.nan_to_num(per_query)

    def score(weights: FloatArray) -> FloatArray:
        return ratio(np.tensordot(weights, filled, 1), np.tensordot(weights, known, 1))

    return score


def among(rule: Rule, allowed: BoolArray) -> Rule:
    """`rule` over some heads alone: those where `allowed` [layers, heads] is True."""
    return lambda weights: np.where(allowed, rule(weights), np.nan)


def mask_of(heads: Iterable[Head], shape: tuple[int, ...]) -> BoolArray:
    """True at `heads` [layers, heads]."""
    found = np.zeros(shape, bool)
    for head in heads:
        found[head] = True
    return found


def _resampled(rng: np.random.Generator, n_queries: int, resamples: int) -> FloatArray:
    """How often each query is drawn in each resample [R, queries]."""
    drawn = rng.integers(n_queries, size=(resamples, n_queries))
    drawn += np.arange(resamples)[:, None] * n_queries
    counts = np.bincount(drawn.ravel(), minlength=resamples * n_queries)
    return counts.reshape(resamples, n_queries).astype(np.float64)


def _halved(
    rng: np.random.Generator, n_queries: int, resamples: int
) -> tuple[FloatArray, FloatArray]:
    """The queries parted at random into two halves, each [R, queries] of 0 and 1."""
    order = rng.permuted(np.tile(np.arange(n_queries), (resamples, 1)), axis=1)
    first = order < n_queries // 2
    return first.astype(np.float64), (~first).astype(np.float64)


def _on(elsewhere: Elsewhere, members: BoolArray, k: int) -> OnSource:
    again = _best(elsewhere.rule(np.ones((1, elsewhere.n_queries))), k)
    share = float(_shared(again, members)[0] / k)
    return OnSource(source=elsewhere.name, overlap=share, n_queries=elsewhere.n_queries)


def _best(score: FloatArray, k: int) -> BoolArray:
    """The k highest of each row [R, layers, heads]; NaN never, equals in the order of layers."""
    flat = score.reshape(len(score), -1)
    order = np.argsort(-np.where(np.isnan(flat), -np.inf, flat), axis=1, kind="stable")[:, :k]
    found = np.zeros(flat.shape, bool)
    np.put_along_axis(found, order, True, axis=1)
    return np.asarray((found & ~np.isnan(flat)).reshape(score.shape))


def _shared(one: BoolArray, other: BoolArray) -> FloatArray:
    """How many heads two sets have in common, row by row [R]."""
    return np.asarray((one & other).sum(axis=(1, 2)), np.float64)


def _heads(where: BoolArray) -> list[Head]:
    return [Head(int(layer), int(head)) for layer, head in np.argwhere(where)]
