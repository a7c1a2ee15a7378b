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
from qt_bert.results.probe import (
    OnSource,
    Stability,
    is_unstable,
    verdict_of,
)
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.stats.tests import FALSE_DISCOVERY_RATE, q_values
from qt_bert.text import Text

# Which heads have a function: a score above its null, over all heads, and large enough.


LEAST_WEIGHT = 0.05
"""A head that gives the texts asked about less of its attention is not named."""


@dataclass(frozen=True, eq=False)
class Named:
    """Scores and tests of every head [layers, heads]; `named` are those that pass all three bars."""

    score: FloatArray
    p: FloatArray
    q: FloatArray
    named: BoolArray

    def heads(self) -> list[Head]:
        """The named heads, best score first."""
        return [head for head in ranked(self.score) if self.named[head]]


def one_sided_p(excess: FloatArray) -> FloatArray:
    """p of a mean over queries above 0, by a t-test: [queries, …] → […].

    `excess` is a query's score less its null's mean; NaN where a query says nothing. Where fewer
    than two queries speak, or all say the same, there is no test and p is 1.
    """
    from scipy.stats import ttest_1samp

    speaking = np.isfinite(excess).sum(axis=0)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of heads that too few queries speak of: p is 1 for them
        p = ttest_1samp(excess, 0.0, axis=0, nan_policy="omit", alternative="greater").pvalue
    p = np.ma.filled(np.ma.asarray(p, dtype=np.float64), np.nan)
    return np.asarray(np.where((speaking > 1) & np.isfinite(p), p, 1.0))


def name_heads(
    score: FloatArray,
    p: FloatArray,
    weight: FloatArray,
    *,
    least: float,
    choice: IntArray | None = None,
) -> Named:
    """Heads with score ≥ `least`, q < 0.05 over all entries of `p`, and enough `weight`.

    `score` and `weight` [layers, heads]: the score, and the share of its attention that a head gives
    to the texts asked about. `p` [layers, heads] or [layers, heads, choices], where a head may
    be named for any of several choices (offsets, directions): then `choice` [layers, heads] says
    which of them the score is of, and that one's p and q count; without it the smallest.
    """
    tested = np.asarray(q_values(list(p.ravel())), dtype=np.float64).reshape(p.shape)
    own_p, own_q = _chosen(p, choice), _chosen(tested, choice)
    with np.errstate(invalid="ignore"):
        named = (score >= least) & (own_q < FALSE_DISCOVERY_RATE) & (weight >= LEAST_WEIGHT)
    return Named(score, own_p, own_q, np.asarray(named))


def _chosen(values: FloatArray, choice: IntArray | None) -> FloatArray:
    """Of [layers, heads, choices] each head's own entry, or the smallest; [layers, heads] as it is."""
    if values.ndim == 2:
        return values
    if choice is None:
        return np.asarray(values.min(axis=-1))
    return np.asarray(np.take_along_axis(values, choice[..., None], axis=-1)[..., 0])


def ranked(score: FloatArray) -> list[Head]:
    """All heads, best score first; NaN last, equals in the order of layers."""
    order = np.argsort(-np.where(np.isnan(score), -np.inf, score).ravel(), kind="stable")
    return [Head(int(place) // score.shape[1], int(place) % score.shape[1]) for place in order]


def by_query(values: FloatArray, queries: Sequence[str]) -> FloatArray:
    """Means over the pairs of each query [pairs, …] → [queries, …], NaN pairs left out."""
    numbers: dict[str, int] = {}
    index = np.array([numbers.setdefault(query, len(numbers)) for query in queries], dtype=np.int64)
    known = np.isfinite(values)
    sums = np.zeros((len(numbers), *values.shape[1:]))
    counts = np.zeros_like(sums)
    np.add.at(sums, index, np.where(known, values, 0.0))
    np.add.at(counts, index, known)
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


def means(per_query: FloatArray) -> FloatArray:
    """Means over queries [queries, …] → […], NaN where no query says anything."""
    known = np.isfinite(per_query)
    sums, counts = np.where(known, per_query, 0.0).sum(axis=0), known.sum(axis=0)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


# How much of a set of heads comes back when heads are scored again, beside what chance gives.
#
# Nothing is run for it: a rule turns weights of the queries into scores, from what each query said
# when
# the set was chosen. `overlap` resamples the queries; `halves` parts them, for a set is always at
# home
# on the queries it was chosen on, be its scores ever so much noise (`results.probe.verdict_of`).


RESAMPLES = 100
CHANCE = 0.95
"""The percentile of chance that an overlap has to exceed."""

VALIDATION = texts_of(COMMON).text("validation")

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


def stability_of_means(
    first: FloatArray, again: FloatArray, chosen: Collection[Head], pool: Iterable[Head], seed: int
) -> Stability | None:
    """`stability` by the mean over queries [queries, layers, heads], also `again`, on validation."""
    elsewhere = [Elsewhere(VALIDATION, by_mean(again), len(again))]
    return stability(by_mean(first), chosen, len(first), pool=pool, elsewhere=elsewhere, seed=seed)


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


# Heads with a function, as another probe named them: what causal probes ask about.
#
# The function is matching: they come from `--heads`, else from the result of `matching`.


MOST = 5
"""As many of the best by score as stand in where no head was named."""
FORWARD, PASSED = "matching", "named"
"""The set that `matching` puts forward, best first, and the heads that passed its bars."""


@dataclass(frozen=True)
class FunctionHeads:
    """Heads that match, best first.

    `named`: each of them passed the bars of its probe. `source` says where they come from.
    `unstable`: its probe found that other queries name other heads.
    """

    heads: tuple[Head, ...]
    named: bool
    source: Literal["option", "probe"]
    unstable: bool = False

    def describe(self) -> dict[str, Any]:
        """As settings hold it."""
        return {"heads": list(names_of(self.heads)), "named": self.named, "source": self.source}

    @property
    def status(self) -> Literal["given", "not_named", "unstable", "named"]:
        """In a word where the heads come from; an id of the probes' texts."""
        if self.source == "option":
            return "given"
        if not self.named:
            return "not_named"
        return "unstable" if self.unstable else "named"

    def below(self, layer: int) -> FunctionHeads:
        """Those that lie below a layer."""
        heads = tuple(head for head in self.heads if head.layer < layer)
        return replace(self, heads=heads)


def function_heads(context: Context) -> FunctionHeads | None:
    """The heads that match; None where the pairs gave no head a score.

    Heads of `--heads` count as named. Raises ArgumentError where these are not heads of the model.
    """
    if context.request.heads is not None:
        shape = context.model.checkpoint.shape
        return FunctionHeads(tuple(parse_heads(context.request.heads, shape)), True, "option")
    found = context.found("matching")
    forward, passed = (found.sets.get(name, ()) for name in (FORWARD, PASSED))
    unstable = is_unstable(found.stability, FORWARD)
    chosen = tuple(Head.parse(name) for name in forward if name in passed)
    if chosen:
        return FunctionHeads(chosen, True, "probe", unstable)
    best = tuple(map(Head.parse, forward[:MOST]))
    return FunctionHeads(best, False, "probe", unstable) if best else None


def named_beside(context: Context, asked: FunctionHeads) -> list[Head]:
    """Every head that `matching` names: none of them is in a control of `asked`."""
    if asked.source == "option":
        return []
    return [Head.parse(name) for name in context.found("matching").sets.get(PASSED, ())]
