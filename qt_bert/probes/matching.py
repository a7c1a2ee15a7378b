"""Which heads match terms of query and title, and what is left without them? (`heads_of_query_title_bert`, 2.4)

Heads are scored on discovery (`matching_scores`): by lift, with matched weight beside it. The five best by
lift are ablated on validation, each of them alone, all but the one that costs most, and query and title are
cut from each other inside them. The article halves a model's accuracy so, and loses nothing with five
random heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from qt_bert.ablation import families
from qt_bert.ablation.interventions import Intervention, Variant
from qt_bert.ablation.masks import SegmentBlock
from qt_bert.data.pairs import Pair
from qt_bert.figures import Figure, bars, head_map
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Contest, Context, Result, mean_of
from qt_bert.probes.base_model import other_seed
from qt_bert.probes.contests import (
    CONTEST_PAIRS,
    Ablated,
    ablate,
    contest,
    few_a_query,
    grades_nothing,
    zeroed,
)
from qt_bert.probes.matching_cells import CHARACTERS, DIRECTIONS, KINDS
from qt_bert.probes.matching_scores import (
    LEAST_QUERIES,
    LEAST_SCORE,
    K,
    Scores,
    along,
    chosen_heads,
    discovery_scores,
    scored_sample,
    scores_by,
    scores_on,
    stable_matching,
)
from qt_bert.probes.naming import VALIDATION
from qt_bert.probes.shared import estimate_bars, head_table
from qt_bert.results.probe import Stability
from qt_bert.stats import verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, over_queries
from qt_bert.stats.judgements import name_set
from qt_bert.text import Label, Text

CLAIMS = ("five", "rest", "cut")
FREE_SETS = 20
"""Sets of as many heads drawn anywhere, whose mean loss stands beside."""
PERCENT = 100.0


def cut_apart(heads: Iterable[Head]) -> Intervention:
    """Query and title cannot see each other in these heads."""
    return SegmentBlock(tuple(heads))


@dataclass(frozen=True, eq=False)
class Chosen:
    """Scores on both halves, and the heads chosen on discovery: the `five` best by lift, and the best of
    the low half. `second` are scores of a model of another seed."""

    shape: Shape
    discovery: Scores
    validation: Scores
    five: list[Head]
    low: list[Head]
    second: tuple[Text, Scores] | None

    def own(self, values: FloatArray) -> FloatArray:
        """Of [layers, heads, directions] each head's in its direction on discovery [layers, heads]."""
        return along(self.discovery.direction, values)

    @cached_property
    def lift(self) -> FloatArray:
        """The lift on validation [layers, heads]."""
        return self.own(self.validation.ratio())

    @cached_property
    def sets(self) -> dict[str, list[Head]]:
        """Every set by its name."""
        return {"matching": self.five, "low_half": self.low, "named": self.discovery.named()}

    def stability(self, seed: int) -> dict[str, Stability | None]:
        """Of every set, beside validation and a model of another seed."""
        elsewhere = dict([(VALIDATION, self.validation), *([self.second] if self.second else [])])
        return {
            name: stable_matching(
                self.discovery,
                heads,
                seed=seed,
                within=low_half_of(self.shape) if name == "low_half" else None,
                elsewhere=elsewhere,
            )
            for name, heads in self.sets.items()
        }


def choose(context: Context) -> Chosen:
    """Score the heads on both halves, and choose on discovery."""
    shape = context.model.checkpoint.shape
    low = low_half_of(shape)
    return Chosen(
        shape=shape,
        discovery=discovery_scores(context),
        validation=scores_on(context, scored_sample(context, context.validation)),
        five=chosen_heads(context),
        low=chosen_heads(context, within=low) if len(low) > 1 else [],
        second=other_seed(context, lambda scorer: scores_by(scorer, context)),
    )


def low_half_of(shape: Shape) -> list[Head]:
    """The heads of the layers below n // 2."""
    return [head for head in shape.all_heads if head.layer < shape.layers // 2]


def measure(context: Context) -> Result:
    """Score and choose heads, ablate them, and set the three claims against layer-matched sets."""
    chosen = choose(context)
    found = chosen.discovery.named()
    direction = chosen.discovery.direction
    best = chosen.five[0] if chosen.five else None
    facts = {
        "head": None if best is None else str(best),
        "direction": None if best is None else DIRECTIONS[direction[best]],
        "named": len(found),
        "named_again": sum(bool(chosen.lift[head] >= LEAST_SCORE) for head in found),
        "number": len(chosen.five),
        "costliest": None,
        **{f"head_{rank + 1}": None for rank in range(K)},
        **{f"head_{rank + 1}": str(head) for rank, head in enumerate(chosen.five)},
    }
    common = {
        "heads": head_table(chosen.shape, _columns(chosen)),
        "sets": chosen.sets,
        "selected": "matching",
        "stability": chosen.stability(context.seed),
        "settings": _settings(chosen),
    }
    if best is None:
        nothing = dict.fromkeys(CLAIMS, "nothing_shared")
        return Result(nothing="nothing_shared", claims=nothing, facts=facts, **common)
    pairs = few_a_query(context.validation, context.choose(CONTEST_PAIRS, len(context.validation)))
    rest, costliest = _rest(context, chosen.five)
    run = ablate(context, "parts", _parts(chosen, rest, context.seed), pairs)
    losses = _losses(chosen, rest, run)
    return Result(
        claims=_claims(context, chosen, rest, pairs),
        measurements={
            **{f"{name}_loss": one for name, one in losses.items() if name in _NAMED_LOSSES},
            **{f"alone_{rank + 1}": losses[str(h)] for rank, h in enumerate(chosen.five)},
            **_accuracies(chosen, run),
            "best_lift": chosen.validation.estimate(best, int(direction[best])),
        },
        figures=tuple(_figures(context, chosen, run, losses)),
        facts={**facts, "costliest": costliest and str(costliest)},
        pairs=pairs,
        **common,
    )


def _columns(chosen: Chosen) -> dict[str, FloatArray]:
    """Scores on validation, in the direction of discovery; p and q are those of discovery."""
    found, again = chosen.discovery, chosen.validation
    return {
        "score": chosen.lift,
        "discovery_score": found.score,
        "matched_weight": chosen.own(again.matched_weight),
        "discovery_matched_weight": chosen.own(found.matched_weight),
        **{name: again.ratio()[..., number] for number, name in enumerate(DIRECTIONS)},
        "p": found.tested.p,
        "q": found.tested.q,
        "weight": chosen.own(again.weight),
        **{
            name: chosen.own(again.firm_ratio(kind))
            for kind, name in enumerate(KINDS)
            if kind != CHARACTERS
        },
    }


def _settings(chosen: Chosen) -> dict[str, object]:
    """On what heads were scored, in which direction the chosen ones look, and what a kind rests on."""
    return {
        "least_score": LEAST_SCORE,
        "least_queries": LEAST_QUERIES,
        "free_sets": FREE_SETS,
        "scored": {
            "discovery": asdict(chosen.discovery.sample),
            "validation": asdict(chosen.validation.sample),
        },
        "queries": {
            name: dict(zip(DIRECTIONS, chosen.validation.queries(kind).tolist(), strict=True))
            for kind, name in enumerate(KINDS)
        },
        "directions": {
            str(head): DIRECTIONS[chosen.discovery.direction[head]] for head in chosen.five
        },
    }


# Ablation.

_NAMED_LOSSES = ("five", "rest", "cut", "free", "cut_all")


def _rest(context: Context, five: list[Head]) -> tuple[list[Head], Head | None]:
    """The heads without the one that costs most points alone on discovery, and that one."""
    if len(five) < 2:
        return [], None
    alone = [Variant(str(head), (zeroed([head]),), "alone") for head in five]
    run = ablate(context, "alone_discovery", alone, few_a_query(context.discovery))
    costliest = max(five, key=lambda head: run.loss(str(head)).value)
    return [head for head in five if head != costliest], costliest


def _parts(chosen: Chosen, rest: list[Head], seed: int) -> list[Variant]:
    """What is measured beside the contests; a head alone is named as the head."""
    shape, five = chosen.shape, chosen.five
    sets: dict[str, Intervention] = {
        "five": zeroed(five),
        "cut": cut_apart(five),
        "cut_all": cut_apart(shape.all_heads),
        **{str(head): zeroed([head]) for head in five},
    }
    if rest:
        sets["rest"] = zeroed(rest)
    if chosen.low:
        sets["low_half_kept"] = zeroed({*low_half_of(shape)} - {*chosen.low})
    free = families.random_sets(shape, zeroed, len(five), FREE_SETS, seed)
    return [*(Variant(name, (part,), "part") for name, part in sets.items()), *free]


def _free(run: Ablated) -> list[str]:
    variants = run.folder.variants
    return list(variants.loc[variants["family"] == "random", "name"])


def _losses(chosen: Chosen, rest: list[Head], run: Ablated) -> dict[str, Estimate]:
    """Points of the label set lost: the five, the rest, the cut, the mean free set, each head alone."""
    names = ["five", *(["rest"] if rest else []), "cut"]
    return {
        **{name: run.loss(name) for name in names},
        "free": mean_of([run.loss(name) for name in _free(run)]),
        "cut_all": run.loss("cut_all"),
        **{str(head): run.loss(str(head)) for head in chosen.five},
    }


def _accuracies(chosen: Chosen, run: Ablated) -> dict[str, Estimate | None]:
    """As the article counts: accuracy lost, its relative change, the share kept; not of one logit."""
    whole, without = run.accuracy("none"), run.accuracy("five")
    if whole is None or without is None:
        return {}
    free = mean_of([one for name in _free(run) if (one := run.accuracy_loss(name)) is not None])
    kept = run.accuracy("low_half_kept") if chosen.low else None
    return {
        "accuracy_relative": PERCENT * (without / whole - 1.0),
        "accuracy_loss": whole - without,
        "free_accuracy_loss": free,
        "low_half_kept": None if kept is None else PERCENT * (kept / whole),
    }


def _claims(
    context: Context, chosen: Chosen, rest: list[Head], pairs: list[Pair]
) -> Mapping[str, Contest | str]:
    """The three contests; none is run where a claim cannot be judged."""
    if len({pair.query for pair in pairs}) < verdict.LEAST_QUERIES:
        return dict.fromkeys(CLAIMS, "few_queries")
    if grades_nothing(context):
        return dict.fromkeys(CLAIMS, "grades_nothing")
    named = {*chosen.five, *chosen.discovery.named()}

    def judged(
        name: str, heads: list[Head], ablated: Callable[[Iterable[Head]], Intervention]
    ) -> Contest | str:
        found, _ = contest(
            context,
            name,
            heads,
            named=named,
            pairs=pairs,
            ablated=ablated,
            claim=f"matching.{name}",
        )
        return "few_sets" if found is None else found

    return {
        "five": judged("five", chosen.five, zeroed),
        "rest": judged("rest", rest, zeroed) if rest else "no_others",
        "cut": judged("cut", chosen.five, cut_apart),
    }


# Figures.


def _figures(
    context: Context, chosen: Chosen, run: Ablated, losses: Mapping[str, Estimate]
) -> Iterator[Figure]:
    """Lift and matched weight of every head, what is lost without some, by label, and what they match."""
    named = [str(head) for head in chosen.sets["named"]]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log2(chosen.lift)
    yield head_map("lift", logs, marked=named, scale="diverging", digits=1)
    weight = PERCENT * chosen.own(chosen.validation.matched_weight)
    yield head_map("matched_weight", weight, marked=named, low=0.0, digits=1)
    shown = {name: one for name, one in losses.items() if name != "cut_all"}
    yield estimate_bars(context, "losses", list(shown), {"loss": list(shown.values())}, digits=1)
    by_label = _by_label(run)
    yield estimate_bars(
        context, "labels", list(by_label), {"loss": list(by_label.values())}, digits=1
    )
    lifts = [chosen.own(chosen.validation.firm_ratio(kind)) for kind in range(len(KINDS))]
    series: dict[Label, tuple[list[float], None]] = {
        str(head): ([float(np.log2(one[head])) for one in lifts], None) for head in chosen.five
    }
    yield bars("kinds", KINDS, series, digits=1)


def _by_label(run: Ablated) -> dict[str, Estimate]:
    """Points lost without the five, by label, the lowest mean grade first."""
    lost = run.points("none") - run.points("five")
    labels = sorted(
        {pair.grades for pair in run.pairs if pair.grades}, key=lambda one: (np.mean(one), one)
    )
    return {
        name_set(label): over_queries(
            np.where([pair.grades == label for pair in run.pairs], lost, np.nan), run.queries
        )
        for label in labels
    }
