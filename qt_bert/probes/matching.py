"""Which heads match terms of query and title, and what is lost without them? (`heads_of_query_title_bert`, 2.4)

Heads are scored on discovery by matched weight less that of replaced queries (`matching_scores`). On validation
the five best are ablated together and each alone, left alone in the low half, and query and title are cut apart
inside them. In the article the first halves the accuracy, and five random heads lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from qt_bert.ablation import families
from qt_bert.ablation.interventions import Intervention, Variant
from qt_bert.ablation.masks import SegmentBlock, zeroed
from qt_bert.figures import Figure, head_map
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Contest, Context, Judged, Result, estimate_bars, head_table
from qt_bert.probes.base_model import other_seed
from qt_bert.probes.contests import (
    RESAMPLED,
    Ablated,
    ablate,
    classes_settings,
    contest,
    contest_pairs,
    grades_nothing,
    label_name,
)
from qt_bert.probes.matching_cells import DIRECTIONS
from qt_bert.probes.matching_scores import (
    LEAST_SCORE,
    K,
    Scores,
    along,
    chosen_heads,
    discovery_scores,
    scores_on,
    stable_matching,
)
from qt_bert.probes.naming import VALIDATION
from qt_bert.results.probe import Stability
from qt_bert.stats import verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, mean_of, over_queries
from qt_bert.text import Text

CLAIMS = ("five", "set", "cut", "kept")
LEAST_KEPT, LEAST_LOW_LOSS = 3, 10.0
"""Matching heads of the low half, and points lost without that half, for `kept` to be judged."""
QUICK_FREE_SETS, FREE_SETS = 5, 20
"""Sets of as many heads drawn from all layers, for comparison."""
PERCENT = 100.0


def cut_apart(heads: Iterable[Head]) -> Intervention:
    """Query and title cannot see each other in these heads."""
    return SegmentBlock(tuple(heads))


@dataclass(frozen=True, eq=False)
class Chosen:
    """Scores on both halves, and the heads chosen on discovery: the `five` best, and the best of
    the `low` half, whose heads are `low_half`. `second`: scores of a model of another seed."""

    shape: Shape
    discovery: Scores
    validation: Scores
    five: list[Head]
    low: list[Head]
    low_half: list[Head]
    second: tuple[Text, Scores] | None

    def by_direction(self, values: FloatArray) -> FloatArray:
        """`values` [layers, heads, directions] in each head's direction on discovery [layers, heads]."""
        return along(self.discovery.direction, values)

    @cached_property
    def score(self) -> FloatArray:
        """The score on validation [layers, heads]."""
        return self.by_direction(self.validation.excess())

    @cached_property
    def sets(self) -> dict[str, list[Head]]:
        """Every set by name."""
        return {"matching": self.five, "low_half": self.low, "named": self.discovery.named()}

    def stability(self, seed: int) -> dict[str, Stability | None]:
        """The stability of every set, also on validation and on a model of another seed."""
        elsewhere = [(VALIDATION, self.validation), *([self.second] if self.second else [])]
        return {
            name: stable_matching(
                self.discovery,
                heads,
                seed=seed,
                within=self.low_half if name == "low_half" else None,
                elsewhere=elsewhere,
            )
            for name, heads in self.sets.items()
        }


def choose(context: Context) -> Chosen:
    """Score the heads on both halves, and choose on discovery."""
    shape = context.model.checkpoint.shape
    low_half = low_half_of(shape)
    return Chosen(
        shape=shape,
        discovery=discovery_scores(context),
        validation=scores_on(context, "validation"),
        five=chosen_heads(context),
        low=chosen_heads(context, low_half) if len(low_half) > 1 else [],
        low_half=low_half,
        second=other_seed(context, lambda scorer: scores_on(context, "discovery", scorer)),
    )


def low_half_of(shape: Shape) -> list[Head]:
    """The heads of the layers below n // 2."""
    return [head for head in shape.all_heads if head.layer < shape.layers // 2]


def measure(context: Context) -> Result:
    """Score and choose heads, ablate them, and judge the claims, three of them against layer-matched sets."""
    chosen = choose(context)
    named = chosen.discovery.named()
    direction = chosen.discovery.direction
    best = chosen.five[0] if chosen.five else None
    facts = {
        "head": None if best is None else str(best),
        "direction": None if best is None else DIRECTIONS[direction[best]],
        "named": len(named),
        "named_again": len(passed := {*named} & {*chosen.validation.named()}),
        "number": len(chosen.five),
        "number_low": sum(head in chosen.low_half for head in chosen.five),
        "costliest": None,
        **{f"head_{rank + 1}": None for rank in range(K)},
        **{f"head_{rank + 1}": str(head) for rank, head in enumerate(chosen.five)},
    }
    common = {
        "heads": head_table(chosen.shape, _columns(chosen)),
        "sets": chosen.sets,
        "selected": "matching",
        "shown": {head: head in passed for heads in chosen.sets.values() for head in heads},
        "stability": chosen.stability(context.seed),
        "settings": _settings(chosen),
    }
    if best is None:
        nothing = dict.fromkeys(CLAIMS, "nothing_shared")
        return Result(nothing="nothing_shared", claims=nothing, facts=facts, **common)
    pairs = contest_pairs(context, context.validation)
    costliest = _costliest(context, chosen.five)
    free = context.choose(QUICK_FREE_SETS, FREE_SETS)
    run = ablate(context, "parts", _parts(chosen, free, context.seed), pairs)
    losses = _losses(chosen, run)
    common["settings"] |= {"classes": classes_settings(pairs, run.labels), "free_sets": free}
    resampled: dict[str, Estimate | None] = {"five_resampled": None, "kept_resampled": None}
    claims = _claims(context, chosen, run, losses, costliest, resampled)
    return Result(
        claims=claims,
        measurements={
            **{f"{name}_loss": loss for name, loss in losses.items() if name in _NAMED_LOSSES},
            "five_grade": run.grade_change("five"),
            "five_rho": run.rho_change("five"),
            **{f"alone_{rank + 1}": losses[str(h)] for rank, h in enumerate(chosen.five)},
            **_accuracies(chosen, run),
            **resampled,
            "best_score": PERCENT * chosen.validation.estimate(best, int(direction[best])),
        },
        figures=tuple(_figures(context, chosen, run, losses)),
        facts={**facts, "costliest": str(costliest), "free_sets": len(_free(run))},
        pairs=pairs,
        **common,
    )


def _columns(chosen: Chosen) -> dict[str, FloatArray]:
    """Scores on validation, in each head's direction on discovery; p and q are of discovery."""
    discovery, validation = chosen.discovery, chosen.validation
    return {
        "score": chosen.score,
        "discovery_score": discovery.score,
        "matched_weight": chosen.by_direction(validation.matched_weight),
        **{name: validation.excess()[..., number] for number, name in enumerate(DIRECTIONS)},
        "p": discovery.tested.p,
        "q": discovery.tested.q,
        "weight": chosen.by_direction(validation.weight),
    }


def _settings(chosen: Chosen) -> dict[str, Any]:
    """The scored samples, and the chosen heads' directions."""
    return {
        "least_score": LEAST_SCORE,
        "scored": {
            "discovery": asdict(chosen.discovery.sample),
            "validation": asdict(chosen.validation.sample),
        },
        "directions": {
            str(head): DIRECTIONS[chosen.discovery.direction[head]] for head in chosen.five
        },
    }


# Ablation.

_NAMED_LOSSES = ("five", "cut", "free", "cut_all", "low_half")


def _costliest(context: Context, five: list[Head]) -> Head:
    """The head that alone costs most on discovery."""
    alone = [Variant(str(head), (zeroed([head]),), "alone") for head in five]
    run = ablate(context, "alone_discovery", alone, contest_pairs(context, context.discovery))
    return max(five, key=lambda head: np.nan_to_num(run.loss(str(head)).value, nan=-np.inf))


def _parts(chosen: Chosen, free_sets: int, seed: int) -> list[Variant]:
    """The variants measured beside the contests; a single head has the head's name."""
    shape, five = chosen.shape, chosen.five
    sets: dict[str, Intervention] = {
        "five": zeroed(five),
        "cut": cut_apart(five),
        "cut_all": cut_apart(shape.all_heads),
        **{str(head): zeroed([head]) for head in five},
    }
    if chosen.low:
        sets["low_half"] = zeroed(chosen.low_half)
        sets["low_half_kept"] = zeroed({*chosen.low_half} - {*chosen.low})
    free = families.random_sets(shape, zeroed, len(five), free_sets, seed)
    return [*(Variant(name, (part,), "part") for name, part in sets.items()), *free]


def _free(run: Ablated) -> list[str]:
    variants = run.folder.variants
    return list(variants.loc[variants["family"] == "random", "name"])


def _losses(chosen: Chosen, run: Ablated) -> dict[str, Estimate]:
    """Points lost: the five, the cut, the mean free set, the low half, all cut, each head alone."""
    free = _free(run)
    return {
        "five": run.loss("five"),
        "cut": run.loss("cut"),
        "free": mean_of([run.loss(name) for name in free], draws=len(free)),
        **({"low_half": run.loss("low_half")} if chosen.low else {}),
        "cut_all": run.loss("cut_all"),
        **{str(head): run.loss(str(head)) for head in chosen.five},
    }


def _accuracies(chosen: Chosen, run: Ablated) -> dict[str, Estimate | None]:
    """The article's measures: accuracy lost, its relative change, the share kept; not for one logit."""
    whole, without = run.accuracy("none"), run.accuracy("five")
    if whole is None or without is None:
        return {}
    losses = [loss for name in _free(run) if (loss := run.accuracy_loss(name)) is not None]
    free = mean_of(losses, draws=len(losses))
    kept = run.accuracy("low_half_kept") if chosen.low else None
    return {
        "accuracy_relative": PERCENT * (without / whole - 1.0),
        "accuracy_loss": whole - without,
        "free_accuracy_loss": free,
        "low_half_kept": None if kept is None else PERCENT * (kept / whole),
    }


def _claims(
    context: Context,
    chosen: Chosen,
    run: Ablated,
    losses: Mapping[str, Estimate],
    costliest: Head,
    beside: dict[str, Estimate | None],
) -> Mapping[str, Judged | str]:
    """The three contests, where the claims can be judged, and the difference; fills `beside`."""
    if grades_nothing(context):
        return dict.fromkeys(CLAIMS, "grades_nothing")
    if not run.judged:
        return dict.fromkeys(CLAIMS, "few_of_a_label")
    if losses["five"].n_queries < verdict.CLAIM_QUERIES:
        return dict.fromkeys(CLAIMS, f"few_queries:{losses['five'].n_queries}")

    def judge(
        name: str, heads: list[Head], ablated: Callable[[Iterable[Head]], Intervention], **more: Any
    ) -> Contest | str:
        judged, of_target = contest(
            context,
            name,
            heads,
            named={*chosen.five, *chosen.discovery.named()},
            pairs=run.pairs,
            ablated=ablated,
            claim=f"matching.{name}",
            **more,
        )
        if name != "cut":
            changed = more.get("statistic", Ablated.loss)(of_target, f"{name}:{RESAMPLED}")
            beside[f"{name}_resampled"] = changed / more.get("whole", 1.0)
        return "few_sets" if judged is None else judged

    def kept() -> Contest | str:
        """Of the points lost without the low half, those that the matching heads in it alone keep."""
        low = [head for head in chosen.five if head in chosen.low_half]
        whole = losses.get("low_half")
        if whole is None or len(low) < LEAST_KEPT:
            return "precondition:few_low"
        if not whole.value >= LEAST_LOW_LOSS:
            return "precondition:low_loss"
        return judge(
            "kept",
            low,
            lambda heads: zeroed({*chosen.low_half} - {*heads}),
            statistic=lambda run, name: whole - run.loss(name),
            whole=whole,
        )

    return {
        "five": judge("five", chosen.five, zeroed),
        "set": losses["five"] - losses[str(costliest)] if len(chosen.five) > 1 else "no_others",
        "cut": judge("cut", chosen.five, cut_apart),
        "kept": kept(),
    }


# Figures.


def _figures(
    context: Context, chosen: Chosen, run: Ablated, losses: Mapping[str, Estimate]
) -> Iterator[Figure]:
    """The score of every head, losses, and losses by label."""
    named = [str(head) for head in chosen.sets["named"]]
    yield head_map("score", PERCENT * chosen.score, marked=named, scale="diverging", digits=1)
    shown = {name: loss for name, loss in losses.items() if name != "cut_all"}
    yield estimate_bars(context, "losses", list(shown), {"loss": list(shown.values())}, digits=1)
    if by_label := _by_label(run):
        yield estimate_bars(
            context, "labels", list(by_label), {"loss": list(by_label.values())}, digits=1
        )


def _by_label(run: Ablated) -> dict[str, Estimate]:
    """Points lost without the five, by label, the lowest mean grade first; none for one logit."""
    if run.labels.logits == 1:
        return {}
    lost = run.points("none") - run.points("five")
    labels = sorted(
        {pair.grades for pair in run.pairs if pair.grades}, key=lambda set_: (np.mean(set_), set_)
    )
    return {
        label_name(label, run.labels): over_queries(
            np.where([pair.grades == label for pair in run.pairs], lost, np.nan), run.queries
        )
        for label in labels
    }
