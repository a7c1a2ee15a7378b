"""Heads chosen for a behaviour on discovery, left out on validation beside others of their layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.interventions import Variant
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.behaviour.carried import Carried
from qt_bert.probes.behaviour.cases import Case, Cases, titles_then_others
from qt_bert.probes.behaviour.estimates import Mean, mean
from qt_bert.probes.behaviour.scores import are_better, towards
from qt_bert.probes.behaviour.swept import swept_deltas
from qt_bert.probes.controls import Contest, contest, rank_p, zeroed
from qt_bert.probes.naming import mean_over
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import interval_or_reason

DRAWS = 99
CARRIES, HINDERS = "carries", "hinders"


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The heads chosen for one phenomenon, left out together.

    `way` is `carries` (without them the model did worse on discovery) or `hinders`. `change` is
    theirs on validation, towards what is expected; `others` the mean of the layer-matched draws,
    `beyond` the resampled difference of the two, `p` the set's rank among the draws; without
    draws these are None. `alone`: what each head changes by itself.
    """

    phenomenon: str
    way: str
    heads: tuple[Head, ...]
    change: Mean
    others: float | None
    beyond: FloatArray | None
    p: float | None
    draws: int
    alone: dict[Head, float]

    @property
    def name(self) -> str:
        """The set's name in the result: `carries_negation`."""
        return f"{self.way}_{self.phenomenon}"

    @property
    def matters(self) -> bool:
        """Whether they change more than others of their layers, the 95 % interval says.

        Of a single head a rank among the few others of its layer could not say so.
        """
        if self.beyond is None:
            return False
        low, high, _ = interval_or_reason(self.beyond, self.change.n_queries)
        if low is None or high is None:
            return False
        return high < 0 if self.way == CARRIES else low > 0


@dataclass(frozen=True)
class _Asked:
    """The sets of one phenomenon with their controls, and its cases of validation."""

    phenomenon: str
    cases: tuple[Case, ...]
    contests: dict[str, Contest]

    @property
    def alone(self) -> list[Variant]:
        """Each head of the sets by itself."""
        heads = {head for made in self.contests.values() for head in made.target.heads}
        return [Variant(str(head), (zeroed([head]),), "single") for head in sorted(heads)]

    @property
    def variants(self) -> list[Variant]:
        """All of them."""
        return [*(one for made in self.contests.values() for one in made.variants), *self.alone]


def tested(context: Context, cases: Cases, found: Carried) -> tuple[LeftOut, ...]:
    """Every set that the map of single heads chose, on the validation cases of its phenomenon."""
    asked = list(_asked(context, cases, found))
    if not asked:
        return ()
    guards = _checked(context, asked)
    results: list[LeftOut] = []
    for number, one in enumerate(asked):
        name = f"validation-{number:02d}"
        deltas = swept_deltas(context, cases, one.cases, one.variants, name, guards)
        moved = towards(deltas[:1], deltas[1:], are_better(one.cases))
        rows = {variant.name: row for row, variant in enumerate(one.variants)}
        results += [
            _tested(context, one, way, made, moved, rows) for way, made in one.contests.items()
        ]
    return tuple(results)


def _asked(context: Context, cases: Cases, found: Carried) -> Iterator[_Asked]:
    shape, validation = context.model.checkpoint.shape, cases.half("validation")
    for phenomenon in found.phenomena:
        chosen = {
            CARRIES: found.chosen(phenomenon, helps=True),
            HINDERS: found.chosen(phenomenon, helps=False),
        }
        own = tuple(case for case in validation if case.phenomenon == phenomenon)
        made = {
            way: contest(
                f"{way}:{phenomenon}", heads, shape, matched=DRAWS, free=0, seed=context.seed
            )
            for way, heads in chosen.items()
            if heads
        }
        if made and own:
            yield _Asked(phenomenon, own, made)


def _checked(context: Context, asked: Sequence[_Asked]) -> dict[str, object]:
    """The checks' figures for the masks of all sets, checked once."""
    scorer = context.model
    pairs = [pair for one in asked for pair in titles_then_others(one.cases)]
    encoded = scorer.tokenizer.encode([(pair.query, pair.title) for pair in pairs], offsets=False)
    variants = [variant for one in asked for variant in one.variants]
    figures = check_equivalence(
        scorer.checkpoint, scorer.encoder, variants, encoded, seed=context.seed
    )
    context.guards["validation"] = figures
    return figures


def _tested(
    context: Context,
    one: _Asked,
    way: str,
    made: Contest,
    moved: FloatArray,
    rows: dict[str, int],
) -> LeftOut:
    queries = [case.query for case in one.cases]

    def change(variant: Variant) -> Mean:
        values = moved[rows[variant.name]]
        return mean(values, queries, resamples=context.resamples, seed=context.seed, swaps=0)

    own, drawn = change(made.target), [change(variant) for variant in made.matched]
    others = beyond = p = None
    if drawn:
        others = float(np.mean([each.value for each in drawn]))
        controls = np.array([each.value for each in drawn])
        p = rank_p(own.value, controls, below=way == CARRIES)
        stacked = np.stack([each.samples for each in drawn])
        beyond = own.samples - mean_over(stacked, context.seed, f"{one.phenomenon}:{way}")
    return LeftOut(
        one.phenomenon,
        way,
        made.target.heads,
        own,
        others,
        beyond,
        p,
        len(drawn),
        {head: float(moved[rows[str(head)]].mean()) for head in made.target.heads},
    )
