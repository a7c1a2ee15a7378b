"""Heads ablated, against layer-matched random heads: the contests that claims rest on.

A contest is judged in points of the probability that the model gives a pair's label set, averaged over
a query's pairs. −log p would mix what a head does with how confident the model is: layers that make it
over-confident "improve" it when they are ablated. A one-logit model gets its probabilities from an
ordinal logistic map of the score (McCullagh 1980), fitted on discovery with the clean model.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, softmax

from qt_bert.ablation.effects import logits_in_label
from qt_bert.ablation.families import layer_matched
from qt_bert.ablation.folder import SweepFolder
from qt_bert.ablation.interventions import Intervention, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.sweep import run_sweep
from qt_bert.data.pairs import Pair
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Contest, Context, reference
from qt_bert.probes.texts import texts_of
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats import estimate, verdict
from qt_bert.stats.arrays import BoolArray, FloatArray
from qt_bert.stats.estimate import Estimate, change_of_rho, over_queries
from qt_bert.stats.judgements import known, set_means

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels

POINTS = 100.0
SETS = 99
"""Random sets of a contest; all of them where fewer exist."""
CHUNK = 33
"""Sets that are run before a contest asks whether it may stop."""
ENOUGH = 10
"""So many sets that do as much as the target end a contest."""
CONTEST_PAIRS = 1
"""Pairs of each query in a quick contest: intervals count queries, and 99 sets are run on each pair."""
PAIRS_A_QUERY = 2
LEAST_RHO = 0.1
"""A claim that rests on labels needs the interval of Spearman's ρ above this."""

Ablate = Callable[[Iterable[Head]], Intervention]


def zeroed(heads: Iterable[Head]) -> Intervention:
    """The article's ablation: the heads give zero."""
    return HeadMask(tuple(heads))


def few_a_query(pairs: Sequence[Pair], most: int = PAIRS_A_QUERY, seed: int = 0) -> list[Pair]:
    """At most `most` pairs of each query, in file order; those whose title's hash comes first."""

    def rank(place: int) -> bytes:
        return hashlib.sha256(f"{seed}\0{pairs[place].title}".encode()).digest()

    taken: Counter[str] = Counter()
    kept = []
    for place in sorted(range(len(pairs)), key=rank):
        if taken[pairs[place].query] < most:
            taken[pairs[place].query] += 1
            kept.append(place)
    return [pairs[place] for place in sorted(kept)]


@dataclass(frozen=True, eq=False)
class LabelProbability:
    """The probability that a model gives a pair's label set, in points.

    `thresholds` [4] and `slope` are those of the ordinal map of a one-logit model:
    P(grade ≤ g) = σ(θ_g − slope · score); None where the logits are grades.
    """

    labels: ModelLabels
    thresholds: FloatArray | None = None
    slope: float = 0.0

    def shares(self, logits: FloatArray) -> FloatArray:
        """Probabilities of the outputs, of a one-logit model those of the grades 1 to 5."""
        values = np.asarray(logits, np.float64)
        if self.thresholds is None:
            return np.asarray(softmax(values, axis=-1))
        return _grade_shares(values[..., 0], self.thresholds, self.slope)

    def points(self, logits: FloatArray, pairs: Sequence[Pair]) -> FloatArray:
        """Points of each pair's label set: logits [..., pairs, outputs] → [..., pairs]."""
        one_logit = self.thresholds is not None
        meant = _grade_sets(pairs) if one_logit else logits_in_label(list(pairs), self.labels)
        return np.asarray((self.shares(logits) * meant).sum(-1) * POINTS)


def label_probability(context: Context) -> LabelProbability:
    """How a probe of `context` turns logits into points; fitted once on the clean discovery pairs."""
    labels = context.model.checkpoint.settings.labels
    if labels.logits > 1:
        return LabelProbability(labels)
    pairs = context.discovery
    scores = context.model.logits([(pair.query, pair.title) for pair in pairs])[:, 0]
    thresholds, slope = fit_ordinal(np.asarray(scores, np.float64), _grade_sets(pairs))
    return LabelProbability(labels, thresholds, slope)


def fit_ordinal(scores: FloatArray, sets: BoolArray) -> tuple[FloatArray, float]:
    """Thresholds [4] and slope ≥ 0 of the ordinal logistic map with the greatest likelihood.

    `scores` [pairs]; `sets` [pairs, 5]: which grades a pair's label allows.
    """
    scale = float(np.std(scores)) or 1.0
    centre = float(np.mean(scores))
    standard = (scores - centre) / scale

    def loss(parameters: FloatArray) -> float:
        thresholds, slope = _ordered(parameters)
        shares = (_grade_shares(standard, thresholds, slope) * sets).sum(-1)
        return float(-np.log(np.maximum(shares, 1e-12)).mean() + 1e-4 * (parameters**2).sum())

    found = minimize(loss, np.array([-1.5, 0.0, 0.0, 0.0, 0.0]), method="L-BFGS-B").x
    thresholds, slope = _ordered(found)
    return thresholds + slope * centre / scale, slope / scale


def _ordered(parameters: FloatArray) -> tuple[FloatArray, float]:
    """Any five numbers as four rising thresholds and a slope above 0."""
    steps = np.concatenate([parameters[:1], np.exp(parameters[1:4])])
    return np.cumsum(steps), float(np.exp(parameters[4]))


def _grade_shares(scores: FloatArray, thresholds: FloatArray, slope: float) -> FloatArray:
    """Shares of the grades 1 to 5: scores [...] → [..., 5]."""
    at_most = expit(thresholds - slope * scores[..., None])
    ends = np.ones((*scores.shape, 1))
    return np.diff(np.concatenate([0 * ends, at_most, ends], axis=-1), axis=-1)


def _grade_sets(pairs: Sequence[Pair]) -> BoolArray:
    return np.array([[grade in (pair.grades or ()) for grade in range(1, 6)] for pair in pairs])


def rho(context: Context) -> Estimate:
    """Spearman's ρ of the model's score and the mean grade of the label, over all validation pairs."""
    pairs = context.validation
    logits = context.model.logits([(pair.query, pair.title) for pair in pairs])
    scores = ranking_scores(logits, context.model.checkpoint.settings.labels)
    return estimate.rho(
        scores, set_means([known(pair.grades) for pair in pairs]), [pair.query for pair in pairs]
    )


def grades_nothing(context: Context) -> bool:
    """Whether the model grades too poorly for a claim that rests on labels: ρ's interval is not above .1."""
    interval = rho(context).interval(context.resamples, context.seed)
    return interval is None or not interval[0] > LEAST_RHO


@dataclass(frozen=True, eq=False)
class Ablated:
    """Logits of a sweep on some pairs, and what its variants change there.

    Estimates are means over queries of the change for a query's pairs; a loss is above 0.
    """

    folder: SweepFolder
    pairs: list[Pair]
    probability: LabelProbability

    @cached_property
    def queries(self) -> list[str]:
        """The query of each pair."""
        return [pair.query for pair in self.pairs]

    def logits(self, name: str) -> FloatArray:
        """A variant's logits [pairs, outputs]; `none` is the clean model."""
        return np.asarray(self.folder.logits[self.folder.row(name)], np.float64)

    def points(self, name: str) -> FloatArray:
        """Points of the label set under a variant [pairs]."""
        return self.probability.points(self.logits(name), self.pairs)

    def loss(self, name: str) -> Estimate:
        """Points of the label set lost under a variant."""
        return over_queries(self.points("none") - self.points(name), self.queries)

    def rho_change(self, *names: str) -> Estimate:
        """Spearman's ρ under the variants `names`, mean over them, less the clean model's."""
        labels, grades = (
            self.probability.labels,
            set_means([known(pair.grades) for pair in self.pairs]),
        )
        clean, *ablated = (ranking_scores(self.logits(name), labels) for name in ("none", *names))
        return change_of_rho(ablated, clean, grades, self.queries)

    def accuracy(self, name: str) -> Estimate | None:
        """Points of accuracy under a variant; None for a one-logit model."""
        if self.probability.thresholds is not None:
            return None
        meant = logits_in_label(self.pairs, self.probability.labels)
        right = meant[np.arange(len(self.pairs)), self.logits(name).argmax(1)]
        return over_queries(right * POINTS, self.queries)

    def accuracy_loss(self, name: str) -> Estimate | None:
        """Points of accuracy lost; None for a one-logit model."""
        whole, left = self.accuracy("none"), self.accuracy(name)
        return None if whole is None or left is None else whole - left


def ablate(
    context: Context, name: str, variants: Sequence[Variant], pairs: Sequence[Pair]
) -> Ablated:
    """Run `variants` on `pairs`; the sweep lies in the probe's folder as `name` and resumes there."""
    listed = list(pairs)
    folder = run_sweep(
        context.model,
        listed,
        variants,
        context.work / name,
        pairs_ref=reference(context.request.validation_file, listed),
        resamples=None,
        resume=True,
        label=f"{context.label}: {name}",
    )
    context.guards[name] = folder.record.guards
    return Ablated(
        folder, listed, context.cached("probability", lambda: label_probability(context))
    )


def random_sets(
    heads: Sequence[Head],
    shape: Shape,
    *,
    named: Collection[Head],
    ablated: Ablate,
    name: str,
    seed: int,
    most: int = SETS,
) -> tuple[list[Variant], bool]:
    """The control sets of `heads` as variants, and whether these are all there are.

    They are layer-matched, outside `heads` and outside every head that the probe `named`. For a single
    head they are the unnamed heads of its own and of both neighbouring layers. None where a layer has
    too few heads left.
    """
    outside = set(named) | set(heads)
    if len(heads) == 1:
        near = [
            head
            for head in shape.all_heads
            if abs(head.layer - heads[0].layer) <= 1 and head not in outside
        ]
        return [
            Variant(f"{name}:near#{place:02d}", (ablated([head]),), "matched", place, seed)
            for place, head in enumerate(near)
        ], True
    return layer_matched_sets(shape, heads, outside, most, seed, name=name, ablated=ablated)


def layer_matched_sets(
    shape: Shape,
    heads: Sequence[Head],
    outside: Collection[Head],
    draws: int,
    seed: int,
    *,
    name: str = "matching",
    ablated: Ablate = zeroed,
) -> tuple[list[Variant], bool]:
    """Sets of as many heads in each layer as `heads`, none of them in `heads` or `outside`, as variants;
    and whether these are all there are. None where a layer has too few heads left."""
    pool = [head for head in shape.all_heads if head not in {*heads, *outside}]
    wanted, there = Counter(h.layer for h in heads), Counter(h.layer for h in pool)
    if not heads or any(there[layer] < count for layer, count in wanted.items()):
        return [], True
    possible = math.prod(math.comb(there[layer], count) for layer, count in wanted.items())
    drawn = layer_matched(shape, ablated, heads, draws, seed, [*pool, *heads], f"{name}:")
    return drawn, possible <= draws


def contest(
    context: Context,
    name: str,
    heads: Sequence[Head],
    *,
    named: Collection[Head] = (),
    pairs: Sequence[Pair] | None = None,
    ablated: Ablate = zeroed,
    statistic: Callable[[Ablated, str], Estimate] = Ablated.loss,
    most: int = SETS,
    claim: str | None = None,
) -> tuple[Contest | None, Ablated]:
    """`heads` ablated, against sets of `random_sets`: the contest, and the target's own run.

    `statistic` gives what is compared, larger where a variant does more; by default the points lost.
    At most `most` sets are drawn, and run in three batches, as long as `against` asks for more of them; `claim`
    is the id of the claim that rests on the contest. None where there is no set to compare with.
    """
    chosen = few_a_query(context.validation) if pairs is None else list(pairs)
    shape = context.model.checkpoint.shape
    sets, enumerated = random_sets(
        heads, shape, named=named, ablated=ablated, name=name, seed=context.seed, most=most
    )
    target = Variant(name, (ablated(heads),), "target")
    found = ablate(context, name, [target], chosen)
    value = statistic(found, name)

    def run(some: list[Variant], number: int) -> list[Estimate]:
        swept = ablate(context, f"{name}_sets_{number}", some, chosen)
        return [statistic(swept, one.name) for one in some]

    return against(context, claim, value, sets, run, enumerated=enumerated), found


def against(
    context: Context,
    claim: str | None,
    target: Estimate,
    sets: Sequence[Variant],
    run: Callable[[list[Variant], int], list[Estimate]],
    *,
    enumerated: bool,
) -> Contest | None:
    """`target` against `sets`, of which `run` estimates a chunk, given with its number.

    No more are run once ten sets do as much as the target, nor where the interval over queries of
    target − mean set does not lie beyond the margin of `claim`: more sets narrow the target's rank, not
    that interval. None where there is no set.
    """
    estimates: list[Estimate] = []
    for start in range(0, len(sets), CHUNK):
        estimates += run(list(sets[start : start + CHUNK]), start // CHUNK)
        found = Contest(
            target=target,
            sets=tuple(estimates),
            enumerated=enumerated and len(estimates) == len(sets),
        )
        as_much = sum(one.value >= target.value for one in estimates)
        if as_much >= ENOUGH or not (claim is None or _goes_beyond(context, claim, found)):
            break
    return found if estimates else None


def _goes_beyond(context: Context, claim: str, found: Contest) -> bool:
    """Whether the interval of target − mean set lies beyond the claim's margin, so that its rank decides."""
    owner, _, name = claim.partition(".")
    declared = texts_of(owner).value(f"claims.{name}")
    interval = found.beyond.interval(context.resamples, context.seed)
    if interval is None:
        return False
    return verdict.place(interval, declared["side"], declared["margin"]) == "beyond"
