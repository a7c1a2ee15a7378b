"""Which layers must see both texts? (Vast et al. 2026; Zhan et al. 2020)

Query and title are cut apart from the lowest layer up: rung l of the ladder cuts the layers 0 … l − 1 in all
heads, masked before the softmax (`ablation.masks.Cut`). The claim cuts the low half of the layers and the
high half, each alone. The model was never trained apart: a rung says what the cut costs it as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import Cut
from qt_bert.figures import Curve, Point, curve
from qt_bert.models.batches import Direction
from qt_bert.probes.base import Context, Result
from qt_bert.probes.contests import Ablated, ablate, grades_nothing
from qt_bert.probes.shared import estimate_bars, estimate_points
from qt_bert.probes.streams import for_model
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate
from qt_bert.stats.verdict import LEAST_QUERIES
from qt_bert.text import Label

QUICK_PAIRS = {"discovery": 64, "validation": 128}
"""Pairs of a quick run for the rungs; the claim takes all."""
LEAST_LOSS = 2.0
"""Points of the label's probability: a rung that is shown to lose less is free."""
PARTS: dict[str, Direction] = {
    "title_to_query": "T<Q",
    "query_to_title": "Q<T",
    "cls_to_title": "C<T",
}
"""What *all* cuts together, by who no longer sees whom: rows < columns."""
OF_RHO = ("ladder_all_spearman", "ladder_cls", "ladder_direction", "ladder_half_way")


def cut(first: int, last: int, direction: Direction = "all") -> Variant:
    """The texts cut apart in the layers `first` to `last`."""
    found = Cut(direction, first, last)
    return Variant(found.name, (found,), direction)


def measure(context: Context) -> Result:
    """Climb the ladder on both halves, cut each direction in all layers, and judge the halves."""
    layers = context.model.checkpoint.layers
    rungs = [cut(0, last) for last in range(layers)]
    directions = {name: cut(0, layers - 1, one) for name, one in PARTS.items()}
    chosen, tested = (
        for_model(pairs, QUICK_PAIRS[name], context)
        for name, pairs in (("discovery", context.discovery), ("validation", context.validation))
    )
    there = ablate(context, "discovery", rungs, chosen)
    here = ablate(context, "validation", [*rungs, *directions.values()], tested)
    losses = {
        name: [run.loss(rung.name) for rung in rungs]
        for name, run in (("discovery", there), ("validation", here))
    }
    free, again = (free_rungs(one, context) for one in losses.values())

    # The two halves of the layers, on all pairs.
    halves: dict[str, Estimate] = {}
    if layers > 1:
        low, high = cut(0, layers // 2 - 1), cut(layers // 2, layers - 1)
        run = ablate(context, "halves", [low, high], context.validation)
        halves = {"low_half": run.loss(low.name), "high_half": run.loss(high.name)}

    bars = {
        "all": losses["validation"][-1],
        **{name: here.loss(one.name) for name, one in directions.items()},
        **halves,
    }
    return Result(
        claims={"low": _claim(context, halves)},
        measurements={
            **dict.fromkeys(("low_half", "high_half")),
            **halves,
            "first_layer_loss": losses["validation"][free] if free < layers else None,
            "ladder_all_accuracy": here.accuracy_loss(rungs[-1].name),
            **_of_rho(here, rungs, directions, context),
        },
        figures=[
            _first(losses, context),
            estimate_bars(context, "ladder_cuts", list(bars), {"loss": [*bars.values()]}, digits=1),
        ],
        facts={
            "free": free,
            "again": again,
            "layers": layers,
            "half": layers // 2,
            "pairs": len(tested),
            "chosen_on": len(chosen),
            "halves_on": len(context.validation),
        },
        settings={
            "first_layer": {
                "discovery": free,
                "validation": again,
                "layers": layers,
                "confirmed": again >= free,
                "bar": LEAST_LOSS,
            },
        },
        pairs=tested,
        nothing="nowhere" if free == layers else None,
    )


def _claim(context: Context, halves: dict[str, Estimate]) -> Estimate | str:
    """What the low half costs beyond the high half."""
    if not halves:
        return "one_layer"
    if halves["low_half"].n_queries < LEAST_QUERIES:
        return "few_queries"
    if grades_nothing(context):
        return "grades_nothing"
    return halves["low_half"] - halves["high_half"]


def free_rungs(losses: Sequence[Estimate], context: Context) -> int:
    """How many rungs, from the lowest on, each lose less than LEAST_LOSS, upper end of the interval.

    So the layer of this number is the first that must see both texts; none must where all rungs are
    free. A loss without an interval (a single query) shows nothing, and is not free.
    """
    for rung, loss in enumerate(losses):
        ends = loss.interval(context.resamples, context.seed)
        if ends is None or not ends[1] < LEAST_LOSS:
            return rung
    return len(losses)


def _of_rho(
    run: Ablated,
    rungs: Sequence[Variant],
    directions: Mapping[str, Variant],
    context: Context,
) -> dict[str, Estimate | float | None]:
    """What cuts change of ρ, which moves with every pair, where accuracy moves in jumps.

    All are None of a single query, which no jackknife can leave out; there is no half-way layer where the
    whole loss cannot be told from 0.
    """
    if len(set(run.queries)) < 2:
        return dict.fromkeys(OF_RHO)
    changes = {name: run.rho_change(one.name) for name, one in directions.items()}
    ladder = [run.rho_change(one.name) for one in rungs]
    ends = ladder[-1].interval(context.resamples, context.seed)
    layer = math.nan
    if ends is not None and ends[1] < 0:
        layer = half_way(np.array([-one.value for one in ladder]))
    found = (
        -ladder[-1],
        changes["cls_to_title"],
        changes["title_to_query"] - changes["query_to_title"],
        layer,
    )
    return dict(zip(OF_RHO, found, strict=True))


def half_way(losses: FloatArray) -> float:
    """The first layer whose cut brings the loss to half of the whole, of the rungs' `losses` [layers]."""
    return float((losses >= losses[-1] / 2).argmax())


def _first(losses: dict[str, list[Estimate]], context: Context) -> Curve:
    """The loss on each rung, on both halves of the pairs, beside what counts as none."""
    steps = range(1, len(losses["validation"]) + 1)
    drawn: dict[Label, list[Point]] = {
        name: [Point(x=0, y=0), *estimate_points(context, steps, estimates)]
        for name, estimates in losses.items()
    }
    ends = [Point(x=x, y=LEAST_LOSS) for x in (0, len(losses["validation"]))]
    return curve("ladder_first", {**drawn, "bar": ends}, dashed=["bar"])
