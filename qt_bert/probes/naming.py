"""Which heads have a function: scores above a null, means over queries, stability."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from qt_bert.heads import Head, by_layer, names_of, parse_heads
from qt_bert.probes.base import Context
from qt_bert.probes.texts import COMMON, texts_of
from qt_bert.results.probe import OnSource, Stability, is_unstable, verdict_of
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.stats.judgements import index_queries
from qt_bert.stats.tests import FALSE_DISCOVERY_RATE, q_values
from qt_bert.text import Text

LEAST_WEIGHT = 0.05
"""The least attention of a named head to the measured texts."""


@dataclass(frozen=True, eq=False)
class Named:
    """Scores and tests of every head [layers, heads]; `named`: heads that meet all three criteria."""

    score: FloatArray
    p: FloatArray
    q: FloatArray
    named: BoolArray

    def heads(self) -> list[Head]:
        """The named heads, best score first."""
        return [head for head in ranked(self.score) if self.named[head]]


def one_sided_p(excess: FloatArray) -> FloatArray:
    """One-sided p of a mean over queries above 0, by a t-test: [queries, …] → […].

    `excess` is a query's score less its null's mean, or NaN. p is 1 with fewer than two queries, or where all
    are 0.
    """
    from scipy.stats import ttest_1samp

    queries = np.isfinite(excess).sum(axis=0)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # heads with too few queries get p = 1
        p = ttest_1samp(excess, 0.0, axis=0, nan_policy="omit", alternative="greater").pvalue
    p = np.ma.filled(np.ma.asarray(p, dtype=np.float64), np.nan)
    return np.asarray(np.where((queries > 1) & np.isfinite(p), p, 1.0))


def name_heads(
    score: FloatArray,
    p: FloatArray,
    weight: FloatArray,
    *,
    least: float,
    choice: IntArray | None = None,
) -> Named:
    """Heads with score ≥ `least`, q < 0.05 over all entries of `p`, and weight ≥ LEAST_WEIGHT.

    `score` [layers, heads]; `weight` [layers, heads]: the attention to the measured texts. `p` [layers,
    heads], or [layers, heads, choices] over several choices (offsets, directions): then `choice` [layers,
    heads] is the one of the score, whose p and q count; without it the smallest.
    """
    q_of_all = np.asarray(q_values(list(p.ravel())), dtype=np.float64).reshape(p.shape)
    p_chosen, q_chosen = _chosen(p, choice), _chosen(q_of_all, choice)
    with np.errstate(invalid="ignore"):
        named = (score >= least) & (q_chosen < FALSE_DISCOVERY_RATE) & (weight >= LEAST_WEIGHT)
    return Named(score, p_chosen, q_chosen, np.asarray(named))


def _chosen(values: FloatArray, choice: IntArray | None) -> FloatArray:
    """Each head's chosen, or smallest, entry of [layers, heads, choices]; [layers, heads] unchanged."""
    if values.ndim == 2:
        return values
    if choice is None:
        return np.asarray(values.min(axis=-1))
    return np.asarray(np.take_along_axis(values, choice[..., None], axis=-1)[..., 0])


def ranked(score: FloatArray) -> list[Head]:
    """All heads, best score first; NaN last, ties in the order of layers."""
    order = np.argsort(-np.where(np.isnan(score), -np.inf, score).ravel(), kind="stable")
    return [Head(int(place) // score.shape[1], int(place) % score.shape[1]) for place in order]


def by_query(values: FloatArray, queries: Sequence[str]) -> FloatArray:
    """Means over the pairs of each query [pairs, …] → [queries, …], without NaN."""
    index, n_queries = index_queries(queries)
    known = np.isfinite(values)
    sums = np.zeros((n_queries, *values.shape[1:]))
    counts = np.zeros_like(sums)
    np.add.at(sums, index, np.where(known, values, 0.0))
    np.add.at(counts, index, known)
    return ratio(sums, counts)


def means(per_query: FloatArray) -> FloatArray:
    """Means over queries [queries, …] → […], without NaN; NaN where all are."""
    known = np.isfinite(per_query)
    return ratio(np.where(known, per_query, 0.0).sum(axis=0), known.sum(axis=0))


# Stability: how much of a set comes back on other queries, against chance. Nothing is run: a rule turns
# weights of the queries into scores. `overlap` resamples the queries; `halves` compares disjoint halves,
# as resamples share queries with the choice, which favours even noise (`results.probe.verdict_of`).


RESAMPLES = 100
CHANCE = 0.95
"""The percentile of chance that an overlap must exceed."""

VALIDATION = texts_of(COMMON).text("validation")

Rule = Callable[[FloatArray], FloatArray]
"""Weights of the queries [R, queries] → scores [R, layers, heads]; NaN: never chosen."""


@dataclass(frozen=True)
class Elsewhere:
    """The same rule on other data or another model, called `name`."""

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
    seed: int = 0,
) -> Stability | None:
    """The stability of `chosen` among the k best heads by `rule`; None without heads or queries.

    Chance is that of random sets from `pool`, by default the heads with a score, and `chosen`.
    """
    members = set(chosen)
    if not members or not n_queries:
        return None
    rng, k = np.random.default_rng(seed), len(members)
    drawn = (_resampled(rng, n_queries), *_halved(rng, n_queries))
    scores = rule(np.concatenate([np.ones((1, n_queries)), *drawn]))  # at once: a rule may be slow
    mask = mask_of(members, scores[0].shape)
    again, first_half, second_half = np.split(_best(scores[1:], k), 3)
    shared = _shared(again, mask) / k
    halves = float(_shared(first_half, second_half).mean() / k) if n_queries > 1 else None
    scored = (Head(*map(int, place)) for place in np.argwhere(np.isfinite(scores[0])))
    law = chance_of(members, set(scored if pool is None else pool) | members)
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
        resamples=RESAMPLES,
        verdict=verdict_of(overlap, halves, chance_95),
        sources=tuple(_on(other, mask, k) for other in elsewhere if other.n_queries),
    )


def chance_of(chosen: Collection[Head], pool: Collection[Head]) -> FloatArray:
    """The probability that a layer-matched random set from `pool` shares 0, 1, … k heads [k + 1].

    Exact: hypergeometric in each layer, convolved over layers. `pool` includes `chosen`.
    """
    from scipy.stats import hypergeom

    sizes = {layer: len(numbers) for layer, numbers in by_layer(pool).items()}
    law = np.ones(1)
    for layer, numbers in by_layer(chosen).items():
        k = len(numbers)
        law = np.convolve(law, hypergeom(sizes[layer], k, k).pmf(np.arange(k + 1)))
    return np.asarray(law)


def by_mean(per_query: FloatArray) -> Rule:
    """The mean over queries without NaN, `per_query` [queries, layers, heads]."""
    known, filled = np.isfinite(per_query).astype(np.float64), np.nan_to_num(per_query)

    def score(weights: FloatArray) -> FloatArray:
        return ratio(np.tensordot(weights, filled, 1), np.tensordot(weights, known, 1))

    return score


def stability_of_means(
    first: FloatArray, again: FloatArray, chosen: Collection[Head], pool: Iterable[Head], seed: int
) -> Stability | None:
    """`stability` by the mean over queries of `first` [queries, layers, heads], and of `again`, on validation."""
    elsewhere = [Elsewhere(VALIDATION, by_mean(again), len(again))]
    return stability(by_mean(first), chosen, len(first), pool=pool, elsewhere=elsewhere, seed=seed)


def among(rule: Rule, allowed: BoolArray) -> Rule:
    """`rule` for the heads where `allowed` [layers, heads] is True; else NaN."""
    return lambda weights: np.where(allowed, rule(weights), np.nan)


def mask_of(heads: Iterable[Head], shape: tuple[int, ...]) -> BoolArray:
    """True at `heads` [layers, heads]."""
    mask = np.zeros(shape, bool)
    for head in heads:
        mask[head] = True
    return mask


def _resampled(rng: np.random.Generator, n_queries: int) -> FloatArray:
    """Counts of each query in each resample [RESAMPLES, queries]."""
    drawn = rng.integers(n_queries, size=(RESAMPLES, n_queries))
    drawn += np.arange(RESAMPLES)[:, None] * n_queries
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * n_queries)
    return counts.reshape(RESAMPLES, n_queries).astype(np.float64)


def _halved(rng: np.random.Generator, n_queries: int) -> tuple[FloatArray, FloatArray]:
    """Random halves of the queries, each [RESAMPLES, queries] of 0 and 1."""
    order = rng.permuted(np.tile(np.arange(n_queries), (RESAMPLES, 1)), axis=1)
    first = order < n_queries // 2
    return first.astype(np.float64), (~first).astype(np.float64)


def _on(elsewhere: Elsewhere, members: BoolArray, k: int) -> OnSource:
    again = _best(elsewhere.rule(np.ones((1, elsewhere.n_queries))), k)
    share = float(_shared(again, members)[0] / k)
    return OnSource(source=elsewhere.name, overlap=share, n_queries=elsewhere.n_queries)


def _best(score: FloatArray, k: int) -> BoolArray:
    """The k highest of each row [R, layers, heads]; never NaN, ties in the order of layers."""
    flat = score.reshape(len(score), -1)
    order = np.argsort(-np.where(np.isnan(flat), -np.inf, flat), axis=1, kind="stable")[:, :k]
    best = np.zeros(flat.shape, bool)
    np.put_along_axis(best, order, True, axis=1)
    return np.asarray((best & ~np.isnan(flat)).reshape(score.shape))


def _shared(first: BoolArray, second: BoolArray) -> FloatArray:
    """The number of common heads of two sets, row by row [R]."""
    return np.asarray((first & second).sum(axis=(1, 2)), np.float64)


# The matching heads for causal probes: from `--heads`, else from the result of `matching`.


MOST = 5
"""Number of the best heads taken where none is named."""
FORWARD, PASSED = "matching", "named"
"""The sets of `matching`: its best heads, best first, and its named heads."""


@dataclass(frozen=True)
class FunctionHeads:
    """The matching heads, best first; whether `matching` named them all, and its set is stable."""

    heads: tuple[Head, ...]
    named: bool
    source: Literal["option", "probe"]
    unstable: bool = False

    def describe(self) -> dict[str, Any]:
        """As stored in settings."""
        return {"heads": list(names_of(self.heads)), "named": self.named, "source": self.source}

    @property
    def status(self) -> Literal["given", "not_named", "unstable", "named"]:
        """The origin of the heads, as a text id."""
        if self.source == "option":
            return "given"
        if not self.named:
            return "not_named"
        return "unstable" if self.unstable else "named"

    def below(self, layer: int) -> FunctionHeads:
        """The heads below a layer."""
        return replace(self, heads=tuple(head for head in self.heads if head.layer < layer))


def function_heads(context: Context) -> FunctionHeads | None:
    """The matching heads; None where no head has a score.

    Heads of `--heads` count as named. Raises ArgumentError if they are not heads of the model.
    """
    if context.request.heads is not None:
        shape = context.model.checkpoint.shape
        return FunctionHeads(tuple(parse_heads(context.request.heads, shape)), True, "option")
    matching = context.result_of("matching")
    forward, passed = (matching.sets.get(name, ()) for name in (FORWARD, PASSED))
    unstable = is_unstable(matching.stability, FORWARD)
    chosen = tuple(Head.parse(name) for name in forward if name in passed)
    if chosen:
        return FunctionHeads(chosen, True, "probe", unstable)
    best = tuple(map(Head.parse, forward[:MOST]))
    return FunctionHeads(best, False, "probe", unstable) if best else None


def named_beside(context: Context, heads: FunctionHeads) -> list[Head]:
    """Every head named by `matching`, to be kept out of the controls of `heads`."""
    if heads.source == "option":
        return []
    return [Head.parse(name) for name in context.result_of("matching").sets.get(PASSED, ())]
