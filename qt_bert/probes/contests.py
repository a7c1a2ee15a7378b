"""Contests, on which claims rest: heads ablated against layer-matched random heads.

The unit is the probability of a pair's label set, in points, averaged over a query's pairs. −log p would
measure over-confidence too: ablating layers that cause it "improves" the model. A one-logit model gets its
probabilities from an ordinal logistic map of the score (McCullagh 1980), fitted on discovery with the clean
model.
"""

from __future__ import annotations

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
from qt_bert.probes.streams import few_a_query
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
"""Sets that are run before a contest may stop."""
ENOUGH = 10
"""A contest stops once so many sets do as much as the target."""
CONTEST_PAIRS = 1
"""Pairs of each query in a quick contest, as intervals are over queries."""
LEAST_RHO = 0.1
"""A claim that rests on labels needs the interval of Spearman's ρ above this."""

Ablate = Callable[[Iterable[Head]], Intervention]


def zeroed(heads: Iterable[Head]) -> Intervention:
    """The article's ablation: zero head outputs."""
    return HeadMask(tuple(heads))


@dataclass(frozen=True, eq=False)
class LabelProbability:
    """A model's probability of a pair's label set, in points.

    `thresholds` [4] and `slope` of a one-logit model's ordinal map P(grade ≤ g) = σ(θ_g − slope · score);
    None where the logits are grades.
    """

    labels: ModelLabels
    thresholds: FloatArray | None = None
    slope: float = 0.0

    def shares(self, logits: FloatArray) -> FloatArray:
        """Probabilities of the outputs; for one logit, of the grades 1 to 5."""
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
    """The map from logits to points, fitted on the discovery pairs with the clean model."""
    labels = context.model.checkpoint.settings.labels
    if labels.logits > 1:
        return LabelProbability(labels)
    pairs = context.discovery
    scores = context.model.logits([(pair.query, pair.title) for pair in pairs])[:, 0]
    thresholds, slope = fit_ordinal(np.asarray(scores, np.float64), _grade_sets(pairs))
    return LabelProbability(labels, thresholds, slope)


def fit_ordinal(scores: FloatArray, sets: BoolArray) -> tuple[FloatArray, float]:
    """Maximum-likelihood thresholds [4] and slope ≥ 0 of the ordinal logistic map.

    `scores` [pairs]; `sets` [pairs, 5]: the grades that a pair's label allows.
    """
    scale = float(np.std(scores)) or 1.0
    centre = float(np.mean(scores))
    standard = (scores - centre) / scale

    def loss(parameters: FloatArray) -> float:
        thresholds, slope = _ordered(parameters)
        shares = (_grade_shares(standard, thresholds, slope) * sets).sum(-1)
        return float(-np.log(np.maximum(shares, 1e-12)).mean() + 1e-4 * (parameters**2).sum())

    solution = minimize(loss, np.array([-1.5, 0.0, 0.0, 0.0, 0.0]), method="L-BFGS-B").x
    thresholds, slope = _ordered(solution)
    return thresholds + slope * centre / scale, slope / scale


def _ordered(parameters: FloatArray) -> tuple[FloatArray, float]:
    """Four rising thresholds and a slope above 0, from any five numbers."""
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
    """Whether ρ's interval is not above LEAST_RHO, so that no claim on labels can be judged."""
    interval = rho(context).interval(context.resamples, context.seed)
    return interval is None or not interval[0] > LEAST_RHO


@dataclass(frozen=True, eq=False)
class Ablated:
    """Logits of a sweep on some pairs, and the changes under its variants.

    Estimates are means over queries, averaged over a query's pairs; losses are positive.
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
        """Points under a variant [pairs]."""
        return self.probability.points(self.logits(name), self.pairs)

    def loss(self, name: str) -> Estimate:
        """Points lost under a variant."""
        return over_queries(self.points("none") - self.points(name), self.queries)

    def rho_change(self, *names: str) -> Estimate:
        """Spearman's ρ, mean over the variants `names`, less the clean model's."""
        labels = self.probability.labels
        grades = set_means([known(pair.grades) for pair in self.pairs])
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
    """Run `variants` on `pairs` as the resumable sweep `name` of the probe."""
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
    """The control sets of `heads` as variants, and whether they are exhaustive.

    They are layer-matched, outside `heads` and `named`; for a single head, the unnamed heads of its own
    and of both neighbouring layers. Empty where a layer has too few heads left.
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
    """Layer-matched sets of `heads` outside `heads` and `outside` as variants; whether they are exhaustive.

    Empty where a layer has too few heads left.
    """
    pool = [head for head in shape.all_heads if head not in {*heads, *outside}]
    sizes, available = Counter(h.layer for h in heads), Counter(h.layer for h in pool)
    if not heads or any(available[layer] < size for layer, size in sizes.items()):
        return [], True
    possible = math.prod(math.comb(available[layer], size) for layer, size in sizes.items())
    drawn = layer_matched(shape, ablated, heads, draws, seed, pool, f"{name}:")
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
    """Ablate `heads` against at most `most` of `random_sets`: the contest (None without a set), the target's run.

    `statistic` is compared, larger for a larger effect; by default the points lost. `claim` is the id of
    the claim that rests on the contest (see `against`).
    """
    chosen = few_a_query(context.validation) if pairs is None else list(pairs)
    shape = context.model.checkpoint.shape
    sets, enumerated = random_sets(
        heads, shape, named=named, ablated=ablated, name=name, seed=context.seed, most=most
    )
    target = Variant(name, (ablated(heads),), "target")
    of_target = ablate(context, name, [target], chosen)
    value = statistic(of_target, name)

    def run(variants: list[Variant], number: int) -> list[Estimate]:
        swept = ablate(context, f"{name}_sets_{number}", variants, chosen)
        return [statistic(swept, variant.name) for variant in variants]

    return against(context, claim, value, sets, run, enumerated=enumerated), of_target


def against(
    context: Context,
    claim: str | None,
    target: Estimate,
    sets: Sequence[Variant],
    run: Callable[[list[Variant], int], list[Estimate]],
    *,
    enumerated: bool,
) -> Contest | None:
    """`target` against `sets`, estimated by `run` chunk by chunk (with its number); None without sets.

    Stops once ENOUGH sets do as much as the target, or where the interval over queries of target − mean
    set does not lie beyond the margin of `claim`: more sets would not narrow it.
    """
    estimates: list[Estimate] = []
    for start in range(0, len(sets), CHUNK):
        estimates += run(list(sets[start : start + CHUNK]), start // CHUNK)
        result = Contest(
            target=target,
            sets=tuple(estimates),
            enumerated=enumerated and len(estimates) == len(sets),
        )
        as_much = sum(estimate.value >= target.value for estimate in estimates)
        if as_much >= ENOUGH or not (claim is None or _beyond_margin(context, claim, result)):
            break
    return result if estimates else None


def _beyond_margin(context: Context, claim: str, contest: Contest) -> bool:
    """Whether the interval of target − mean set lies beyond the claim's margin."""
    owner, _, name = claim.partition(".")
    declared = texts_of(owner).value(f"claims.{name}")
    interval = contest.beyond.interval(context.resamples, context.seed)
    if interval is None:
        return False
    return verdict.place(interval, declared["side"], declared["margin"]) == "beyond"
