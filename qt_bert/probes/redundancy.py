"""How redundant are the heads? (`heads_of_query_title_bert`, 2.1; Michel, Levy and Neubig 2019)

Heads are ablated (`zero`): random shares of all heads, each half of the layers, each layer, each head. The
claims (a random fifth, the halves) take all validation pairs; in a quick run curve and layers take one pair
of each query. Single heads take all discovery pairs, as the plan chooses among them too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax

from qt_bert.ablation.families import layers, random_sets, random_shares, single
from qt_bert.ablation.importance import importance_on
from qt_bert.ablation.interventions import Variant
from qt_bert.figures import Curve, Point, curve, head_map
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Context, Result, estimate_bars, estimate_points, head_table, mean_of
from qt_bert.probes.contests import CONTEST_PAIRS, Ablated, ablate, grades_nothing, zeroed
from qt_bert.probes.streams import few_in_quick
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, spearman
from qt_bert.stats.tests import q_values, sign_flip_p

SINGLES = "singles"
"""The folder of the sweep over single heads, which a plan in the same run reuses."""
SHARE, DRAWS = 0.2, 20
"""The claim's share of the heads, and its number of draws."""
CURVE, CURVE_DRAWS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0), 5
"""Shares of the curve, and draws of each in a quick run."""
LEAST_LOSS, SIGNIFICANT = 2.0, 0.05
"""A critical head's least loss in points, and its q over all heads."""


def measure(context: Context) -> Result:
    """Ablate random shares, halves, layers and single heads; judge a fifth of the heads and the halves."""
    shape = context.model.checkpoint.shape
    number = max(1, round(SHARE * len(shape.all_heads)))
    fifth = random_sets(shape, zeroed, number, DRAWS, context.seed)
    halves = _halves(shape)
    whole = ablate(context, "claims", [*fifth, *halves], context.validation)
    half_losses = {variant.name: whole.loss(variant.name) for variant in halves}
    change = whole.rho_change(*(variant.name for variant in fifth))

    pairs = few_in_quick(context, context.validation, CONTEST_PAIRS)
    shares = random_shares(shape, zeroed, context.choose(CURVE_DRAWS, DRAWS), context.seed, CURVE)
    run = ablate(context, "shares", [*layers(shape, zeroed), *shares], pairs)

    singles = ablate(context, SINGLES, single(shape, zeroed), context.discovery)
    alone = {head: singles.loss(str(head)) for head in shape.all_heads}
    losses = shape.spread([loss.value for loss in alone.values()])
    p = sign_flip_p(np.stack([loss.values for loss in alone.values()], axis=1), seed=context.seed)
    q = np.array([np.nan if value is None else value for value in q_values(list(p))])
    with context.progress(len(singles.pairs), "pairs") as shown:
        importance = importance_on(context.model, singles.pairs, shown)
    critical = _critical(alone, q)
    of_layers = {variant.name: run.loss(variant.name) for variant in layers(shape, zeroed)}
    costliest = max(alone, key=lambda head: alone[head].value)
    return Result(
        claims=_claims(context, change, half_losses),
        measurements={
            "rho_without_fifth": change,
            "fifth": mean_of([whole.loss(variant.name) for variant in fifth]),
            **{"low_half": None, "high_half": None, **half_losses},
            "costliest": alone[costliest],
            "within_a_point": float(np.mean(np.abs(losses[np.isfinite(losses)]) < 1)),
            "importance": spearman(
                np.array([losses[head] for head in shape.all_heads]),
                np.array([importance[head] for head in shape.all_heads]),
            ),
        },
        heads=head_table(shape, _columns(singles, shape, alone, p, q, importance, context)),
        sets={"critical": critical},
        selected="critical",
        figures=[
            _curve(run, shares, context),
            head_map("heads", losses, marked=map(str, critical), digits=1, scale="diverging"),
            estimate_bars(
                context,
                "layers",
                list(of_layers),
                {"layer_loss": list(of_layers.values())},
                digits=1,
            ),
        ],
        facts={
            "number": number,
            "draws": DRAWS,
            "heads": len(shape.all_heads),
            "half": shape.layers // 2,
            "head": str(costliest),
            "alone": len(critical),
            "pairs": len(pairs),
            "whole": len(context.validation),
            "chosen": len(context.discovery),
        },
        pairs=context.validation,
    )


def _halves(shape: Shape) -> list[Variant]:
    """All heads of the low and of the high half of the layers; empty for a model of one layer."""
    half = shape.layers // 2
    if not half:
        return []
    low = [head for head in shape.all_heads if head.layer < half]
    halves = {"low_half": low, "high_half": [h for h in shape.all_heads if h.layer >= half]}
    return [Variant(name, (zeroed(h),), "halves") for name, h in halves.items() if h]


def _claims(
    context: Context, change: Estimate, halves: dict[str, Estimate]
) -> dict[str, Estimate | str]:
    if grades_nothing(context):
        return dict.fromkeys(("random", "halves"), "grades_nothing")
    difference: Estimate | str = "one_layer"
    if len(halves) == 2:
        difference = halves["low_half"] - halves["high_half"]
    return {"random": change, "halves": difference}


def _critical(alone: dict[Head, Estimate], q: FloatArray) -> list[Head]:
    """The critical heads, the costliest first."""
    heads = [
        head
        for (head, loss), of_head in zip(alone.items(), q, strict=True)
        if loss.value >= LEAST_LOSS and of_head < SIGNIFICANT
    ]
    return sorted(heads, key=lambda head: -alone[head].value)


def _columns(
    run: Ablated,
    shape: Shape,
    alone: dict[Head, Estimate],
    p: FloatArray,
    q: FloatArray,
    importance: FloatArray,
    context: Context,
) -> dict[str, FloatArray]:
    """Scores by name [layers, heads]; changes of the label's probability (0 to 1), below 0 worse."""
    none = (np.nan, np.nan)
    ends = [loss.interval(context.resamples, context.seed) or none for loss in alone.values()]
    columns = {
        "change": shape.spread([-loss.value / 100 for loss in alone.values()]),
        "ci_low": shape.spread([-high / 100 for _, high in ends]),
        "ci_high": shape.spread([-low / 100 for low, _ in ends]),
        "p": shape.spread(list(p)),
        "q": shape.spread(list(q)),
        "importance": importance,
    }
    if run.probability.thresholds is None:
        clean = log_softmax(run.logits("none"), axis=-1)
        ablated = (log_softmax(run.logits(str(head)), axis=-1) for head in alone)
        kl = [float((np.exp(clean) * (clean - log_p)).sum(-1).mean()) for log_p in ablated]
        columns["kl"] = shape.spread(kl)
    return columns


def _curve(run: Ablated, shares: Sequence[Variant], context: Context) -> Curve:
    """Points lost against the share of heads ablated, mean over draws."""
    draws: dict[float, list[Estimate]] = {}
    for variant in shares:
        share = float(variant.name.partition("#")[0].partition(":")[2].rstrip("%"))
        draws.setdefault(share, []).append(run.loss(variant.name))
    means = [mean_of(estimates) for estimates in draws.values()]
    points = [Point(x=0, y=0), *estimate_points(context, list(draws), means)]
    return curve("effects", {"loss": points})
