"""What the probe runs: matching heads left out, kept alone, and cut between the texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from qt_bert.ablation.asked import reference_means
from qt_bert.ablation.masks import HeadMask, SegmentBlock
from qt_bert.ablation.run_sweep import run_sweep
from qt_bert.ablation.variant import Part, Variant
from qt_bert.encoder.heads import Head, Shape
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import Pair
from qt_bert.probes.common.controls import Contest, contest, zeroed
from qt_bert.probes.common.norms import head_norms
from qt_bert.probes.common.other_seed import OtherSeed, other_seed
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.split import reference
from qt_bert.probes.term_matching.changes import Changes
from qt_bert.probes.term_matching.head_scores import Scores, along
from qt_bert.probes.term_matching.scores import (
    chosen_heads,
    discovery_scores,
    scored_sample,
    scores_by,
    scores_on,
)
from qt_bert.probes.term_matching.swept import swept_pairs

QUICK_STEPS = (1, 3, 5, 10, 20)
FULL_STEPS = tuple(range(1, 21))


@dataclass(frozen=True)
class Draws:
    """How many draws of each control.

    `matched` and `free` for the heads left out, `beside` for those kept alone and for the cut,
    `curve` for other numbers of heads.
    """

    matched: int
    free: int
    beside: int
    curve: int


QUICK = Draws(matched=99, free=20, beside=49, curve=5)
FULL = Draws(matched=999, free=100, beside=999, curve=20)


@dataclass(frozen=True, eq=False)
class Contests:
    """Every set of heads with its controls.

    `out` are the k best heads left out; `curve` the same for other numbers of heads; `kept` keeps
    the best of the low half alone, beside `low_off`, its whole absence; `cut` blocks the two texts
    from each other in the k best, `cut_all` in every head. `mean` is `out` under the mode `mean`.
    """

    out: Contest
    curve: dict[int, Contest]
    cut: Contest
    cut_all: Variant
    kept: Contest | None = None
    low_off: Variant | None = None
    mean: Contest | None = None

    @property
    def variants(self) -> list[Variant]:
        """All of them."""
        found = [*self.out.variants, *self.cut.variants, self.cut_all]
        for one in self.curve.values():
            if one is not self.out:
                found += one.variants
        for more in (self.kept, self.mean):
            found += more.variants if more else []
        return found + ([self.low_off] if self.low_off else [])


@dataclass(frozen=True, eq=False)
class Study:
    """Scores on both splits, heads chosen on the first, and what leaving them out does on the other.

    `contests` and `changes` are None where no head could be scored. `second` are the scores of a
    model tuned with another seed on discovery, where one was given.
    """

    shape: Shape
    discovery: Scores
    validation: Scores
    pairs: list[Pair]
    chosen: list[Head]
    low: list[Head]
    draws: Draws
    contests: Contests | None = None
    changes: Changes | None = None
    second: OtherSeed[Scores] | None = None

    @cached_property
    def score(self) -> FloatArray:
        """The ratio on validation, in the direction that is better on discovery [layers, heads]."""
        return along(self.discovery.direction, self.validation.ratio())


def study(context: ProbeContext) -> Study:
    """Score heads, choose, and run the sweep; it lies in the probe's folder and resumes there."""
    checkpoint = context.model.checkpoint
    shape = checkpoint.shape
    discovery = discovery_scores(context)
    low_half = low_half_of(shape)
    found = Study(
        shape,
        discovery,
        scores_on(context, scored_sample(context, context.validation)),
        swept_pairs(context),
        chosen_heads(context),
        chosen_heads(context, within=low_half) if len(low_half) > 1 else [],
        context.choose(QUICK, FULL),
        second=other_seed(context, lambda scorer: scores_by(scorer, context)),
    )
    if not found.chosen:
        return found
    contests = _contests(found, context)
    return replace(found, contests=contests, changes=_changes(found, contests, context))


def low_half_of(shape: Shape) -> list[Head]:
    """The heads of the layers below n // 2."""
    return [head for head in shape.all_heads if head.layer < shape.layers // 2]


def _contests(study: Study, context: ProbeContext) -> Contests:
    shape, draws, seed, chosen = study.shape, study.draws, context.seed, study.chosen
    norms = head_norms(context.model, context.discovery) if context.full else None
    out = contest(
        "out", chosen, shape, matched=draws.matched, free=draws.free, seed=seed, norms=norms
    )
    cut = contest("cut", chosen, shape, matched=draws.beside, free=0, seed=seed, mask=_cut)
    contests = Contests(out, {}, cut, Variant("cut:all", (_cut(shape.all_heads),), "cut"))
    contests = replace(contests, curve=_curve(study, out, context))
    if context.full:
        contests = replace(contests, mean=_mean_contest(study, context))
    return _with_kept(contests, study, seed) if study.low else contests


def _curve(study: Study, out: Contest, context: ProbeContext) -> dict[int, Contest]:
    """Contests of the 1, 2, … best heads, up to half of all; at the claim's own k it is `out`."""
    found, draws, seed = {len(study.chosen): out}, study.draws.curve, context.seed
    for k in context.choose(QUICK_STEPS, FULL_STEPS):
        heads = study.discovery.best(k)
        if k not in found and len(heads) == k and 2 * k <= len(study.shape.all_heads):
            found[k] = contest(f"out:{k}", heads, study.shape, matched=draws, free=draws, seed=seed)
    return dict(sorted(found.items()))


def _with_kept(contests: Contests, study: Study, seed: int) -> Contests:
    low = low_half_of(study.shape)

    def rest_out(kept: Iterable[Head]) -> Part:
        spared = set(kept)
        return HeadMask(tuple(head for head in low if head not in spared))

    kept = contest(
        "keep",
        study.low,
        study.shape,
        matched=study.draws.beside,
        free=0,
        seed=seed,
        within=low,
        mask=rest_out,
    )
    return replace(contests, kept=kept, low_off=Variant("low:off", (zeroed(low),), "low"))


def _mean_contest(study: Study, context: ProbeContext) -> Contest:
    means = reference_means(context.model, context.reference_pairs)

    def averaged(heads: Iterable[Head]) -> Part:
        return HeadMask(tuple(heads), "mean", means)

    return contest(
        "mean",
        study.chosen,
        study.shape,
        matched=study.draws.matched,
        free=0,
        seed=context.seed,
        mask=averaged,
    )


def _cut(heads: Iterable[Head]) -> Part:
    return SegmentBlock(tuple(heads))


def _changes(study: Study, contests: Contests, context: ProbeContext) -> Changes:
    folder = run_sweep(
        context.model,
        study.pairs,
        contests.variants,
        context.work / "matching",
        pairs_ref=reference(context.files.pairs, study.pairs),
        resamples=context.resamples,
        seed=context.seed,
        resume=True,
        label=context.label,
    )
    context.guards["matching"] = folder.record.guards
    labels = context.model.checkpoint.settings.labels
    return Changes(folder, labels, context.resamples, context.seed)
