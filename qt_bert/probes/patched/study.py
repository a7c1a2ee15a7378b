"""What the study of patches runs: twins of validation, and under --full those of discovery to choose on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qt_bert.ablation.patching import single_patches
from qt_bert.ablation.variant import Variant
from qt_bert.encoder.heads import Shape
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.common.function_heads import FunctionHeads, function_heads
from qt_bert.probes.common.ranks import rank_correlation
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.patched.chosen import Chosen, choose
from qt_bert.probes.patched.effects import Gap, Shares
from qt_bert.probes.patched.identities import guard
from qt_bert.probes.patched.passes import Outcomes, run
from qt_bert.probes.patched.plan import Plan, left_out, set_contest
from qt_bert.probes.patched.twins import Made, TwinMaker
from qt_bert.probes.patched.words import NO_HEADS, NO_TWINS
from qt_bert.results import Text

QUICK_DRAWS, FULL_DRAWS = 49, 99
QUICK_EACH = 32
"""Pairs of a quick run for heads and layers one by one, which nothing is claimed of."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Twins, their scores under variants, and the gap between them."""

    made: Made
    outcomes: Outcomes
    gap: Gap

    def restoring(self, variants: Sequence[Variant]) -> Shares:
        """What patches from the pair as it is bring back."""
        return self.gap.share(self.outcomes.restoring(variants))

    def breaking(self, variants: Sequence[Variant]) -> Shares:
        """What patches from the replaced pair take away."""
        return self.gap.share(self.outcomes.breaking(variants))

    def closing(self, variants: Sequence[Variant]) -> Shares:
        """What of the gap is lost when heads are left out of both."""
        return self.gap.share(self.outcomes.closing(variants))


@dataclass(frozen=True, eq=False)
class Choice:
    """What discovery names: by patching, and by leaving out."""

    made: Made
    restoring: Chosen
    left_out: Chosen


@dataclass(frozen=True, eq=False)
class Study:
    """All that the result is made of.

    `seen` has the set and its controls, `each` heads and layers one by one: under --full they are
    the same, and in quick `each` has some of the pairs. Under --full, `masked` are all pairs with
    [MASK] for the term (None without such a token) and `choice` what discovery names (None where it
    has no twins).
    """

    shape: Shape
    asked: FunctionHeads
    plan: Plan
    seen: Seen
    each: Seen
    masked: Seen | None
    choice: Choice | None
    seed: int

    def correlation(self) -> Estimate:
        """Spearman's ρ over heads between what patching brings back and what leaving out loses."""
        one = self.each.restoring(self.plan.singles)
        other = self.each.closing(self.plan.left_out)
        value = rank_correlation(one.values[:, None], other.values[:, None])
        return Estimate(float(value[0]), rank_correlation(one.samples.T, other.samples.T))


def study(context: ProbeContext) -> Study | Text:
    """Make twins, prove the patches on a few, run them; or why there is nothing to run."""
    maker, shape = TwinMaker.of(context), context.model.checkpoint.shape
    made = maker.sample(context.validation, context)
    if not made.twins:
        return NO_TWINS
    asked = function_heads(context, "matching")
    if asked is None:
        return NO_HEADS
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    contest = set_contest(asked.heads, shape, draws, context.seed)
    plan = Plan.of(shape, contest, full=context.full)
    guard(context, made, plan.variants)
    seen, each = _validation(context, made, plan)
    return Study(
        shape,
        asked,
        plan,
        seen,
        each,
        _masked(context, made, contest.variants),
        _choice(context, maker, shape),
        context.seed,
    )


def _validation(context: ProbeContext, made: Made, plan: Plan) -> tuple[Seen, Seen]:
    """The set beside its controls, and heads and layers one by one."""
    if context.full:
        seen = _seen(context, made, plan.variants)
        return seen, seen
    some = made.spread(QUICK_EACH, context.seed)
    return _seen(context, made, plan.contest.variants), _seen(context, some, plan.each)


def _seen(context: ProbeContext, made: Made, variants: Sequence[Variant]) -> Seen:
    outcomes = run(context, made, variants, both=context.full)
    gap = Gap.of(outcomes.gap, made.queries, context.resamples, context.seed)
    return Seen(made, outcomes, gap)


def _masked(context: ProbeContext, made: Made, variants: Sequence[Variant]) -> Seen | None:
    token = context.model.checkpoint.tokenizer.mask_token_id
    if not context.full or token is None:
        return None
    return _seen(context, made.masked(int(token)), variants)


def _choice(context: ProbeContext, maker: TwinMaker, shape: Shape) -> Choice | None:
    if not context.full:
        return None
    made = maker.sample(context.discovery, context)
    if not made.twins:
        return None
    patches, absences = single_patches(shape), left_out(shape)
    seen = _seen(context, made, [*patches, *absences])

    def named(variants: Sequence[Variant], moves: FloatArray) -> Chosen:
        return choose(variants, moves, seen.gap, shape, context.seed)

    return Choice(
        made,
        named(patches, seen.outcomes.restoring(patches)),
        named(absences, seen.outcomes.closing(absences)),
    )
