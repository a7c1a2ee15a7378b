"""Contests, on which claims rest: heads ablated against layer-matched random heads.

The unit is the probability of a pair's label set, in points: averaged within each label set, then over those
with enough queries, so that a file's mix of grades moves no verdict. −log p would measure over-confidence
too: ablating layers that cause it "improves" the model. One logit has no probability; its unit is the share of a
query's title pairs of unlike labels that are ordered right, in points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, permutations
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import softmax

from qt_bert.ablation.effects import logits_in_label
from qt_bert.ablation.families import MaskOf, layer_matched
from qt_bert.ablation.folder import SweepFolder
from qt_bert.ablation.interventions import Intervention, Variant
from qt_bert.ablation.masks import HeadMask, zeroed
from qt_bert.ablation.resample import Resample
from qt_bert.ablation.sweep import run_sweep
from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Contest, Context, reference
from qt_bert.probes.streams import balanced_a_query, few_a_query
from qt_bert.probes.texts import texts_of
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats import verdict
from qt_bert.stats.arrays import FloatArray, IntArray
from qt_bert.stats.estimate import (
    Estimate,
    change_of_rho,
    classes_judged,
    group_queries,
    over_classes,
    over_queries,
    rho,
    spearman,
)
from qt_bert.stats.judgements import known, name_set, set_means

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels

POINTS = 100.0
QUICK_SETS, SETS = 39, 99
"""Random sets of a contest, in a quick and in a full run; all of them where fewer exist."""
CHUNK = 20
"""Sets that are run before a contest may stop: enough to judge it by."""
LEAST_RHO = 0.1
"""A claim that rests on labels needs the interval of Spearman's ρ above this."""


def label_points(logits: FloatArray, pairs: Sequence[Pair], labels: ModelLabels) -> FloatArray:
    """Points of each pair's label set: logits [..., pairs, outputs] → [..., pairs]."""
    meant = logits_in_label(list(pairs), labels)
    return np.asarray((softmax(np.asarray(logits, np.float64), axis=-1) * meant).sum(-1) * POINTS)


def contest_pairs(context: Context, pairs: Sequence[Pair], least: int = 1) -> list[Pair]:
    """The pairs that a contest takes of a half: all under --full, else `quick_pairs`."""
    labels = context.model.checkpoint.settings.labels
    return list(pairs) if context.full else quick_pairs(pairs, labels, least)


def quick_pairs(pairs: Sequence[Pair], labels: ModelLabels, least: int = 1) -> list[Pair]:
    """At least `least` pairs of each query, and as few as keep every label set that is judged on all.

    For one logit three titles of unlike labels: three title pairs.
    """
    if labels.logits == 1:
        return few_a_query(pairs, 3, unlike=True)
    kept = {*_classes(pairs)[0]}
    samples = (balanced_a_query(pairs, most, kept) for most in count(least))
    return next(few for few in samples if kept <= {*_classes(few)[0]})


def label_name(label: GradeSet, labels: ModelLabels) -> str:
    """The grades of a label, or its level, which the file counts from 0."""
    return name_set(tuple(grade - labels.levels for grade in label))


def classes_settings(pairs: Sequence[Pair], labels: ModelLabels) -> dict[str, list[str]]:
    """The label sets that points are averaged over, and those left out, having too few queries."""
    named = ([label_name(label, labels) for label in part] for part in _classes(pairs))
    return dict(zip(("judged", "left_out"), named, strict=True))


def _classes(pairs: Sequence[Pair]) -> tuple[list[GradeSet], list[GradeSet]]:
    kept, others = classes_judged(
        [known(pair.grades) for pair in pairs], [pair.query for pair in pairs]
    )
    return sorted(cast(list[GradeSet], kept)), sorted(cast(list[GradeSet], others))


def grades_nothing(context: Context) -> bool:
    """Whether the model's score over all validation pairs `is_no_order`: no claim on labels can be judged."""
    pairs = context.validation
    logits = context.model.logits([(pair.query, pair.title) for pair in pairs])
    scores = ranking_scores(logits, context.model.checkpoint.settings.labels)
    grades = set_means([known(pair.grades) for pair in pairs])
    of_all = rho(scores, grades, [pair.query for pair in pairs])
    return is_no_order(of_all, context.resamples, context.seed)


def is_no_order(rho: Estimate, resamples: int, seed: int) -> bool:
    """Whether ρ's interval is not above LEAST_RHO; too few queries for a claim do not tell."""
    if rho.n_queries < verdict.CLAIM_QUERIES:
        return False
    interval = rho.interval(resamples, seed)
    return interval is None or not interval[0] > LEAST_RHO


@dataclass(frozen=True, eq=False)
class Ablated:
    """Logits of a sweep on some pairs, and the changes under its variants. Losses are positive."""

    folder: SweepFolder
    pairs: list[Pair]
    labels: ModelLabels

    @cached_property
    def queries(self) -> list[str]:
        """The query of each pair."""
        return [pair.query for pair in self.pairs]

    @cached_property
    def grades(self) -> FloatArray:
        """The mean grade of each pair's label."""
        return set_means([known(pair.grades) for pair in self.pairs])

    def logits(self, name: str) -> FloatArray:
        """A variant's logits [pairs, outputs]; `none` is the clean model."""
        return np.asarray(self.folder.logits[self.folder.row(name)], np.float64)

    def scores(self, name: str) -> FloatArray:
        """Expected grades or levels, or the one logit, under a variant [pairs]."""
        return ranking_scores(self.logits(name), self.labels)

    def points(self, name: str) -> FloatArray:
        """Points of the label set under a variant [pairs]."""
        return label_points(self.logits(name), self.pairs, self.labels)

    def loss(self, name: str) -> Estimate:
        """Points lost under a variant."""
        if self.labels.logits == 1:
            return self.ordered("none") - self.ordered(name)
        lost = self.points("none") - self.points(name)
        return over_classes(lost, [pair.grades for pair in self.pairs], self.queries)

    @property
    def judged(self) -> bool:
        """Whether any label set has enough queries for a claim on points."""
        return self.labels.logits == 1 or bool(_classes(self.pairs)[0])

    def ordered(self, name: str) -> Estimate:
        """Points of a query's title pairs of unlike labels that a variant orders right; a tie counts ½."""
        better, worse = self._unlike
        scores = self.scores(name)
        right = (1 + np.sign(scores[better] - scores[worse])) / 2
        return over_queries(right * POINTS, [self.queries[place] for place in better])

    @cached_property
    def _unlike(self) -> tuple[IntArray, IntArray]:
        """The places of the better and of the worse title of each such pair."""
        of_query: dict[int, list[int]] = {}
        for place, query in enumerate(group_queries(self.queries)[1].tolist()):
            of_query.setdefault(query, []).append(place)
        unlike = sorted(
            (better, worse)
            for places in of_query.values()
            for better, worse in permutations(places, 2)
            if self.grades[better] > self.grades[worse]
        )
        better, worse = np.array(unlike, np.int64).reshape(-1, 2).T
        return better, worse

    def rho(self, name: str) -> float:
        """Spearman's ρ under a variant."""
        return spearman(self.scores(name), self.grades)

    def rho_change(self, *names: str, draws: int = 0) -> Estimate:
        """Spearman's ρ, mean over the variants `names`, less the clean model's; `draws` as for `mean_of`."""
        clean, *ablated = (self.scores(name) for name in ("none", *names))
        return change_of_rho(ablated, clean, self.grades, self.queries, draws=draws)

    def grade_change(self, name: str) -> Estimate | None:
        """Mean expected grade (or level) under a variant, less the clean model's; None for a one-logit model."""
        if self.labels.logits == 1:
            return None
        return over_queries(self.scores(name) - self.scores("none"), self.queries)

    def accuracy(self, name: str) -> Estimate | None:
        """Points of accuracy under a variant; None for a one-logit model."""
        if self.labels.logits == 1:
            return None
        meant = logits_in_label(self.pairs, self.labels)
        right = meant[np.arange(len(self.pairs)), self.logits(name).argmax(1)]
        return over_queries(right * POINTS, self.queries)

    def accuracy_loss(self, name: str) -> Estimate | None:
        """Points of accuracy lost; None for a one-logit model."""
        whole, left = self.accuracy("none"), self.accuracy(name)
        return None if whole is None or left is None else whole - left


def ablate(
    context: Context, name: str, variants: Sequence[Variant], pairs: Sequence[Pair]
) -> Ablated:
    """Run `variants` on `pairs` of one half as the resumable sweep `name` of the probe."""
    listed, request = list(pairs), context.request
    chosen_on = {pair.query for pair in listed} <= {pair.query for pair in context.discovery}
    file = request.discovery_file if chosen_on else request.validation_file
    folder = run_sweep(
        context.model,
        listed,
        variants,
        context.work / name,
        pairs_ref=reference(file, listed),
        resamples=None,
        resume=True,
        label=f"{context.label}: {name}",
    )
    context.guards[name] = folder.record.guards
    return Ablated(folder, listed, context.model.checkpoint.settings.labels)


RESAMPLED = "resampled"


def resampled(context: Context, name: str, part: Intervention) -> list[Variant]:
    """The heads of a zero ablation, resampled, as `NAME:resampled`; nothing for another intervention.

    Zeros lie off the manifold of head outputs, so this stands beside.
    """
    if not isinstance(part, HeadMask):
        return []
    return [Variant(f"{name}:{RESAMPLED}", (resampling(context)(part.heads),), "target")]


def resampling(context: Context) -> MaskOf:
    """The ablation by resampling, with donors of discovery."""
    return lambda heads: Resample(tuple(heads), context.donors)


def random_sets(
    heads: Sequence[Head],
    shape: Shape,
    *,
    named: Collection[Head],
    ablated: MaskOf,
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
        # In random order: a contest that stops early has drawn from all of them.
        order = np.random.default_rng(seed).permutation(len(near))
        return [
            Variant(f"{name}:near#{draw:02d}", (ablated([near[place]]),), "matched", draw, seed)
            for draw, place in enumerate(order)
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
    ablated: MaskOf = zeroed,
) -> tuple[list[Variant], bool]:
    """Layer-matched sets of `heads` outside `heads` and `outside` as variants; whether they are exhaustive.

    Empty where a layer has too few heads left.
    """
    pool = [head for head in shape.all_heads if head not in {*heads, *outside}]
    sizes, available = Counter(h.layer for h in heads), Counter(h.layer for h in pool)
    if not heads or any(available[layer] < size for layer, size in sizes.items()):
        return [], True
    possible = math.prod(math.comb(available[layer], size) for layer, size in sizes.items())
    return layer_matched(shape, ablated, heads, draws, seed, pool, f"{name}:"), possible <= draws


def contest(
    context: Context,
    name: str,
    heads: Sequence[Head],
    *,
    pairs: Sequence[Pair],
    named: Collection[Head] = (),
    ablated: MaskOf = zeroed,
    statistic: Callable[[Ablated, str], Estimate] = Ablated.loss,
    claim: str | None = None,
    whole: Estimate | None = None,
) -> tuple[Contest | None, Ablated]:
    """Ablate `heads` on `pairs` against `random_sets`: the contest (None without a set), the target's run.

    The run also has the target as `resampled` makes it. `statistic` is compared, larger for a larger effect;
    by default the points lost. `claim` is the id of the claim that rests on the contest, `whole` what its
    share is of (see `against`).
    """
    most = context.choose(QUICK_SETS, SETS)
    shape = context.model.checkpoint.shape
    sets, enumerated = random_sets(
        heads, shape, named=named, ablated=ablated, name=name, seed=context.seed, most=most
    )
    part = ablated(heads)
    variants = [Variant(name, (part,), "target"), *resampled(context, name, part)]
    of_target = ablate(context, name, variants, pairs)
    value = statistic(of_target, name)

    def run(variants: list[Variant], number: int) -> list[Estimate]:
        swept = ablate(context, f"{name}_sets_{number}", variants, pairs)
        return [statistic(swept, variant.name) for variant in variants]

    return against(context, claim, value, sets, run, enumerated=enumerated, whole=whole), of_target


def against(
    context: Context,
    claim: str | None,
    target: Estimate,
    sets: Sequence[Variant],
    run: Callable[[list[Variant], int], list[Estimate]],
    *,
    enumerated: bool,
    whole: Estimate | None = None,
) -> Contest | None:
    """`target` against `sets`, estimated by `run` chunk by chunk (with its number); None without sets.

    Stops once END_AT sets do as much as the target, or where the interval over queries of target − mean
    set does not lie beyond the margin of `claim`: more sets would not narrow it.
    """
    estimates: list[Estimate] = []
    sign = -1 if claim and _declared(claim)["side"] == "below" else 1
    for start in range(0, len(sets), CHUNK):
        estimates += run(list(sets[start : start + CHUNK]), start // CHUNK)
        result = Contest(
            target=target,
            sets=tuple(estimates),
            enumerated=enumerated and len(estimates) == len(sets),
            whole=whole,
        )
        as_much = sum(sign * (one.value - target.value) >= 0 for one in estimates)
        if as_much >= verdict.END_AT or (claim and not _beyond_margin(context, claim, result)):
            break
    return result if estimates else None


def _declared(claim: str) -> Any:
    """The table of a claim in the TOML of its probe."""
    owner, _, name = claim.partition(".")
    return texts_of(owner).value(f"claims.{name}")


def _beyond_margin(context: Context, claim: str, contest: Contest) -> bool:
    """Whether the interval of target − mean set lies beyond the claim's margin."""
    declared = _declared(claim)
    judged, edge = verdict.linear(contest.beyond, contest.whole, declared["margin"])
    interval = judged.query_interval(context.resamples, context.seed)
    return interval is not None and verdict.place(interval, declared["side"], edge) == "beyond"
