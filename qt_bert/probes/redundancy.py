"""How redundant are the heads? (`heads_of_query_title_bert`, 2.1; Michel, Levy and Neubig 2019)

Heads are ablated (`zero`): random fifths of all heads, each half of the layers, each layer, each head. The layer
that costs least and the head that harms most are chosen on discovery. Single heads take all discovery
pairs, as the plan chooses among them too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax

from qt_bert.ablation.families import layers, random_parts, random_shares, single
from qt_bert.ablation.importance import importance_on
from qt_bert.ablation.interventions import Variant
from qt_bert.data.pairs import Pair
from qt_bert.figures import Curve, Point, curve, head_map, known
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Context, Result, estimate_bars, estimate_points, head_table
from qt_bert.probes.contests import (
    Ablated,
    ablate,
    classes_settings,
    contest_pairs,
    grades_nothing,
    zeroed,
)
from qt_bert.probes.naming import by_mean, stability
from qt_bert.probes.streams import PAIRS_A_QUERY, few_a_query
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, mean_of, simultaneous_bound, spearman
from qt_bert.stats.tests import q_values, sign_flip_p

SINGLES = "singles"
"""The folder of the sweep over single heads, which a plan in the same run reuses."""
PARTS, ORDERS = 5, 8
"""Random orders of all heads, and the number of sets that each is cut in: one claim is of a fifth."""
MARGIN = -0.02
"""The change of ρ down to which a set counts as safe."""
CURVE, CURVE_DRAWS, FULL_DRAWS = (0.1, 0.4, 0.6, 0.8, 1.0), 4, 20
"""Further shares of the curve, and draws of each."""
LEAST_LOSS, SIGNIFICANT = 2.0, 0.05
"""A critical head's least loss in points, and its q over all heads."""
CLAIMS = ("random", "layer", "halves", "harmful")


def measure(context: Context) -> Result:
    """Choose a layer and a head on discovery; ablate fifths, halves, that layer and head on validation."""
    shape = context.model.checkpoint.shape
    singles = ablate(context, SINGLES, single(shape, zeroed), context.discovery)
    alone = {head: singles.loss(str(head)) for head in shape.all_heads}
    values = np.stack([loss.centred for loss in alone.values()], axis=1)
    p = sign_flip_p(values, seed=context.seed)
    q = np.array(q_values([known(value) for value in p]), np.float64)
    with context.progress(len(singles.pairs), "pairs") as shown:
        importance = importance_on(context.model, singles.pairs, shown)
    of_queries = np.full((len(values), *shape.size), np.nan)
    of_queries[:, *np.transpose(shape.all_heads)] = values
    critical = _critical(alone, q)
    losses = shape.spread([loss.value for loss in alone.values()])
    finite = losses[np.isfinite(losses)]
    costliest = max(alone, key=lambda head: alone[head].value)
    harmful = min(alone, key=lambda head: alone[head].value)

    every_layer = layers(shape, zeroed)
    on_discovery = ablate(context, "layers", every_layer, _few(context, context.discovery))
    rhos = {variant.name: on_discovery.rho(variant.name) for variant in every_layer}
    layer = max(rhos, key=lambda name: np.nan_to_num(rhos[name], nan=-np.inf))

    fifths = random_parts(shape, zeroed, PARTS, ORDERS, context.seed)
    halves = _halves(shape)
    heads = [v for v in single(shape, zeroed) if v.name in map(str, {harmful, *critical})]
    chosen_layer = [variant for variant in every_layer if variant.name == layer]
    variants = [*fifths, *halves, *chosen_layer, *heads]
    whole = ablate(context, "claims", variants, _few(context, context.validation))
    half_losses = {variant.name: whole.loss(variant.name) for variant in halves}
    names = [variant.name for variant in fifths]
    change = whole.rho_change(*names, draws=ORDERS)
    of_fifths = [whole.rho(name) - whole.rho("none") for name in names]

    pairs = contest_pairs(context, context.validation)
    draws = context.choose(CURVE_DRAWS, FULL_DRAWS)
    shares = random_shares(shape, zeroed, draws, context.seed, CURVE)
    run = ablate(context, "shares", [*every_layer, *shares], pairs)
    of_layers = {variant.name: run.loss(variant.name) for variant in every_layer}
    fifth = mean_of([whole.loss(name) for name in names], draws=ORDERS)
    claims: dict[str, Estimate | str] = {
        "random": change,
        "layer": whole.rho_change(layer) if shape.layers > 1 else "one_layer",
        "halves": half_losses["low_half"] - half_losses["high_half"]
        if len(half_losses) == 2
        else "one_layer",
        "harmful": -whole.loss(str(harmful)),
    }
    if not whole.judged:
        claims |= {"halves": "few_queries", "harmful": "few_queries"}
    return Result(
        claims=dict.fromkeys(CLAIMS, "grades_nothing") if grades_nothing(context) else claims,
        measurements={
            "rho_without_fifth": change,
            "fifth_median": float(np.median(of_fifths)),
            "fifth_safe": float(np.mean(np.array(of_fifths) > MARGIN)),
            "fifth": fifth,
            **{"low_half": None, "high_half": None, **half_losses},
            "layer_points": whole.loss(layer),
            "harmful_bound": simultaneous_bound(-values, context.resamples, context.seed),
            "costliest": alone[costliest],
            "within_a_point": float(np.mean(np.abs(finite) < 1)) if finite.size else None,
            "importance": None
            if not finite.size
            else spearman(
                np.array([losses[head] for head in shape.all_heads]),
                np.array([importance[head] for head in shape.all_heads]),
            ),
        },
        heads=head_table(shape, _columns(singles, shape, alone, p, q, importance, context)),
        sets={"critical": critical},
        selected="critical",
        shown=_shown(whole, critical, context),
        stability={
            "critical": stability(
                by_mean(of_queries),
                critical,
                len(values),
                pool=shape.all_heads,
                seed=context.seed,
            )
        },
        figures=[
            _curve(run, shares, fifth, context),
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
            "number": round(len(shape.all_heads) / PARTS),
            "orders": ORDERS,
            "draws": len(names),
            "heads": len(shape.all_heads),
            "half": shape.layers // 2,
            "head": str(costliest),
            "chosen_layer": layer,
            "harmful_head": str(harmful),
            "alone": len(critical),
            "pairs": len(pairs),
            "whole": len(whole.pairs),
            "chosen": len(context.discovery),
        },
        settings={
            "classes": classes_settings(whole.pairs),
            "orders": ORDERS,
            "changes_of_rho": [known(value) for value in of_fifths],
        },
        pairs=whole.pairs,
    )


def _few(context: Context, pairs: Sequence[Pair]) -> list[Pair]:
    """All under --full, else two pairs a query, for ρ; of unlike labels for one logit."""
    few = contest_pairs(context, pairs)
    at_least = few_a_query(pairs, context.choose(PAIRS_A_QUERY, len(pairs)))
    return few if len(few) >= len(at_least) else at_least


def _halves(shape: Shape) -> list[Variant]:
    """All heads of the low and of the high half of the layers; empty for a model of one layer."""
    half = shape.layers // 2
    if not half:
        return []
    low = [head for head in shape.all_heads if head.layer < half]
    halves = {"low_half": low, "high_half": [h for h in shape.all_heads if h.layer >= half]}
    return [Variant(name, (zeroed(h),), "halves") for name, h in halves.items() if h]


def _critical(alone: dict[Head, Estimate], q: FloatArray) -> list[Head]:
    """The critical heads, the costliest first."""
    heads = [
        head
        for (head, loss), of_head in zip(alone.items(), q, strict=True)
        if loss.value >= LEAST_LOSS and of_head < SIGNIFICANT
    ]
    return sorted(heads, key=lambda head: -alone[head].value)


def _shown(run: Ablated, critical: Sequence[Head], context: Context) -> dict[Head, bool]:
    """Whether the loss of each critical head on validation is large enough and significant."""
    losses = {head: run.loss(str(head)) for head in critical}
    return {
        head: loss.value >= LEAST_LOSS
        and bool(sign_flip_p(loss.centred, seed=context.seed) < SIGNIFICANT)
        for head, loss in losses.items()
    }


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
    if run.labels.logits > 1:
        clean = log_softmax(run.logits("none"), axis=-1)
        ablated = (log_softmax(run.logits(str(head)), axis=-1) for head in alone)
        kl = [float((np.exp(clean) * (clean - log_p)).sum(-1).mean()) for log_p in ablated]
        columns["kl"] = shape.spread(kl)
    return columns


def _curve(run: Ablated, shares: Sequence[Variant], fifth: Estimate, context: Context) -> Curve:
    """Points lost against the share of heads ablated, mean over draws."""
    draws: dict[float, list[Estimate]] = {}
    for variant in shares:
        share = float(variant.name.partition("#")[0].partition(":")[2].rstrip("%"))
        draws.setdefault(share, []).append(run.loss(variant.name))
    means = {share: mean_of(of_share, draws=len(of_share)) for share, of_share in draws.items()}
    means[100 / PARTS] = fifth
    steps = sorted(means)
    points = [Point(x=0, y=0), *estimate_points(context, steps, [means[step] for step in steps])]
    return curve("effects", {"loss": points})
