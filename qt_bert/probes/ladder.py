"""Which layers must see both texts? (Vast et al. 2026; Zhan et al. 2020)

Query and title are cut apart from the lowest layer up: a rung cuts the layers 0 … l in all heads, masked before
the softmax (`ablation.masks.Cut`). Cutting only the low half of the layers is compared with cutting only the
high half. The model was not trained with cuts, so losses are those without adaptation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import Cut
from qt_bert.figures import Curve, Point, curve
from qt_bert.models.batches import Direction
from qt_bert.probes.base import Context, Result, estimate_bars, estimate_points
from qt_bert.probes.contests import Ablated, ablate, contest_pairs
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate
from qt_bert.stats.judgements import index_queries
from qt_bert.text import Label

LEAST_LOSS = 2.0
"""In points: a rung whose interval ends below this is free."""
DIRECTIONS: dict[str, Direction] = {
    "title_to_query": "T<Q",
    "query_to_title": "Q<T",
    "cls_to_title": "C<T",
}
"""The parts of the direction `all`: rows < the columns that they no longer see."""
RHO_MEASUREMENTS = ("ladder_all_spearman", "ladder_cls", "ladder_direction", "ladder_half_way")


def cut(first: int, last: int, direction: Direction = "all") -> Variant:
    """The texts cut apart in the layers `first` to `last`."""
    intervention = Cut(direction, first, last)
    return Variant(intervention.name, (intervention,), direction)


def measure(context: Context) -> Result:
    """Run all rungs on both halves of the pairs, each direction in all layers, and each half of the layers."""
    layers = context.model.checkpoint.layers
    rungs = [cut(0, last) for last in range(layers)]
    directions = {name: cut(0, layers - 1, of) for name, of in DIRECTIONS.items()}
    discovery = contest_pairs(context, context.discovery)
    validation = contest_pairs(context, context.validation)
    on_discovery = ablate(context, "discovery", rungs, discovery)
    run = ablate(context, "validation", [*rungs, *directions.values()], validation)
    losses = {
        "discovery": [on_discovery.loss(rung.name) for rung in rungs],
        "validation": [run.loss(rung.name) for rung in rungs],
    }
    free, free_on_validation = (free_rungs(each, context) for each in losses.values())
    unknown = any(np.isnan(half[0].value) for half in losses.values())

    halves: dict[str, Estimate] = {}
    if layers > 1:
        low, high = cut(0, layers // 2 - 1), cut(layers // 2, layers - 1)
        of_halves = ablate(context, "halves", [low, high], validation)
        halves = {"low_half": of_halves.loss(low.name), "high_half": of_halves.loss(high.name)}

    bars = {
        "all": losses["validation"][-1],
        **{name: run.loss(variant.name) for name, variant in directions.items()},
        **halves,
    }
    return Result(
        measurements={
            **dict.fromkeys(("low_half", "high_half")),
            **halves,
            "low_beyond_high": halves["low_half"] - halves["high_half"] if halves else None,
            "first_layer_loss": losses["validation"][free] if free < layers else None,
            "ladder_all_accuracy": run.accuracy_loss(rungs[-1].name),
            **_rho_changes(run, rungs, directions, context),
        },
        figures=[
            _curve(losses, context),
            estimate_bars(context, "ladder_cuts", list(bars), {"loss": [*bars.values()]}, digits=1),
        ],
        facts={
            "free": free,
            "again": free_on_validation,
            "layers": layers,
            "half": layers // 2,
            "pairs": len(validation),
            "chosen_on": len(discovery),
        },
        settings={
            "first_layer": {
                "discovery": free,
                "validation": free_on_validation,
                "layers": layers,
                "confirmed": free_on_validation >= free,
                "bar": LEAST_LOSS,
            }
        },
        pairs=validation,
        nothing="no_loss" if unknown else "nowhere" if free == layers else None,
    )


def free_rungs(losses: Sequence[Estimate], context: Context) -> int:
    """The number of free rungs, from the lowest up to the first that is not free.

    It is the number of the first layer that must see both texts. A loss without an interval (a single
    query) is not free.
    """
    for rung, loss in enumerate(losses):
        ends = loss.interval(context.resamples, context.seed)
        if ends is None or not ends[1] < LEAST_LOSS:
            return rung
    return len(losses)


def _rho_changes(
    run: Ablated, rungs: Sequence[Variant], directions: Mapping[str, Variant], context: Context
) -> dict[str, Estimate | float | None]:
    """Changes of ρ under the cuts, None for one query; the half-way layer is NaN without a loss."""
    if index_queries(run.queries)[1] < 2:
        return dict.fromkeys(RHO_MEASUREMENTS)
    changes = {name: run.rho_change(variant.name) for name, variant in directions.items()}
    ladder = [run.rho_change(rung.name) for rung in rungs]
    ends = ladder[-1].interval(context.resamples, context.seed)
    layer = math.nan
    if ends is not None and ends[1] < 0:
        layer = half_way(np.array([-change.value for change in ladder]))
    values = (
        -ladder[-1],
        changes["cls_to_title"],
        changes["title_to_query"] - changes["query_to_title"],
        layer,
    )
    return dict(zip(RHO_MEASUREMENTS, values, strict=True))


def half_way(losses: FloatArray) -> float:
    """The first layer at which the rungs' `losses` [layers] reach half of the whole loss."""
    return float((losses >= losses[-1] / 2).argmax())


def _curve(losses: dict[str, list[Estimate]], context: Context) -> Curve:
    """The loss on each rung, on both halves of the pairs, beside LEAST_LOSS."""
    steps = range(1, len(losses["validation"]) + 1)
    lines: dict[Label, list[Point]] = {
        name: [Point(x=0, y=0), *estimate_points(context, steps, estimates)]
        for name, estimates in losses.items()
    }
    ends = [Point(x=x, y=LEAST_LOSS) for x in (0, len(losses["validation"]))]
    return curve("ladder_first", {**lines, "bar": ends}, dashed=["bar"])
