"""What did fine-tuning do, and how can the rest be kept? (`heads_of_query_title_bert`, 2.4.1; Merchant et al. 2020)

The model and its base on the same pairs. Attention: heads are named as matching on either checkpoint, on
discovery, and their weight on matched terms is compared on other queries. In a causal model only title terms
attend to query terms; without a special token between the texts, or one that is read, there is no weight on
[SEP], or [CLS]. Kovaleva et al. (2019) compare whole maps by their cosine. Weights: `tuning_weights` sets parts
back to the base (of the low third Rogers et al. 2020 expect little effect) and mixes both checkpoints,
`tuning_slices` reads which slices gained and lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

import numpy as np

from qt_bert.ablation.families import single
from qt_bert.ablation.masks import zeroed
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError
from qt_bert.figures import Bars, HeatMap, head_map
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Context, Result, estimate_bars, head_table
from qt_bert.probes.base_model import open_base, open_second, scorer_like
from qt_bert.probes.contests import ablate
from qt_bert.probes.matching_scores import discovery_scores, scores_on, stable_matching
from qt_bert.probes.naming import Named, means, name_heads, one_sided_p, stability_of_means
from qt_bert.probes.streams import few_in_quick, for_model
from qt_bert.probes.tuning_maps import SIMILARITIES, WEIGHTS, Comparison, compare
from qt_bert.probes.tuning_slices import of_slices
from qt_bert.probes.tuning_weights import Trial, of_mixtures, of_parts
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, over_queries

QUICK_DISCOVERY = 60
POINTS = 100.0
"""Points are hundredths of a token's attention."""
LEAST_CHANGE = 0.05
"""The least rise of the weight on matched terms of a strengthened head."""
LAST_LAYERS = 2
DIRECTIONS = {1: "rises", -1: "falls", 0: "unclear"}


def measure(context: Context) -> Result:
    """Compare both models' attention; set parts back and mix both models, unless the model was pruned.

    Raises ArgumentError without a base, CheckpointError or ArgumentError for a base of another model.
    """
    if context.request.base is None:
        raise ArgumentError("the model before fine-tuning is needed; give its folder with --base")
    base = open_base(context.request.base, context.model.checkpoint)
    results = [_attention(context, scorer_like(context, base))]
    if context.model.checkpoint.kept is None:
        trial = Trial.of(context, base)
        results += [of_parts(trial), of_mixtures(trial), of_slices(trial)]
    first = results[0]

    def merged(name: str) -> dict[str, Any]:
        return dict(chain.from_iterable(getattr(one, name).items() for one in results))

    return replace(
        first,
        measurements=merged("measurements"),
        figures=[figure for one in results for figure in one.figures],
        tables=[table for one in results for table in one.tables],
        facts=merged("facts"),
        settings=merged("settings"),
        nothing="pruned" if len(results) == 1 else None,
    )


def _attention(context: Context, base: Scorer) -> Result:
    """Both models' attention, and the claim on heads named on either."""
    path = context.request.second
    second = None if path is None else open_second(path, context.model.checkpoint)
    before, after = scores_on(context, "discovery", base), discovery_scores(context)
    shape = context.model.checkpoint.shape
    still_there = [head for head in before.named() if head not in shape.absent]
    named = {"matching_before": still_there, "matching_after": after.named()}
    either = sorted({*named["matching_before"], *named["matching_after"]})
    most = context.choose(QUICK_DISCOVERY, len(context.discovery))
    chosen_on = spread_over_queries(context.discovery, most, context.seed)
    discovery = _compare(context, base, chosen_on)
    pairs = few_in_quick(context, context.validation)
    comparison = _compare(context, base, pairs)
    second_seed = None if second is None else _compare(context, scorer_like(context, second), pairs)
    strong = strengthened(discovery)
    rise = comparison.change("matched")
    change = _of(rise, either)
    signs = [context.sign(_points(rise[:, head.layer, head.head])) for head in either]
    facts = {
        "named": len(either),
        "rose": signs.count(1),
        "fell": signs.count(-1),
        "direction": DIRECTIONS[0 if change is None else context.sign(change)],
        "strengthened": len(strong.heads()),
        "least": POINTS * LEAST_CHANGE,
        "pairs": len(pairs),
    }
    return Result(
        claims={"matched": "unnamed" if change is None else change},
        measurements={
            "matched_before": _of(comparison.weight("before", "matched"), either),
            "matched_after": _of(comparison.weight("after", "matched"), either),
            "weighted": _weighted(context, rise, either),
            "beyond_others": _beyond_others(comparison, either, shape),
            "itself": _of(comparison.change("self"), either),
            "separators": _of(comparison.change("sep"), either),
            "all_cls": _of(comparison.change("cls"), shape.all_heads),
            "all_separators": _of(comparison.change("sep"), shape.all_heads),
            "strengthened_again": _of(rise, strong.heads()),
            "last_layers": _last_layers(comparison, shape),
            **{
                name: _mean_cosine(of, shape)
                for name, of in (("cosine", comparison), ("cosine_second_seed", second_seed))
                if of is not None
            },
        },
        heads=head_table(shape, _columns(comparison, second_seed, strong, before.score)),
        sets={**named, "strengthened": strong.heads()},
        selected="matching_after",
        stability={
            **{
                name: stable_matching(
                    scores, named[name], within=shape.all_heads, seed=context.seed
                )
                for name, scores in (("matching_before", before), ("matching_after", after))
            },
            "strengthened": stability_of_means(
                discovery.change("matched"), rise, strong.heads(), shape.all_heads, context.seed
            ),
        },
        figures=_figures(context, comparison, either, strong),
        facts=facts,
        settings={
            "base": {"name": base.checkpoint.name, "sha256": base.checkpoint.sha256},
            "second": None if second is None else {"name": second.name, "sha256": second.sha256},
            "scored": asdict(before.sample),
            "pairs_with_a_matched_term": comparison.pairs_with_terms,
        },
        pairs=pairs,
    )


def _weighted(context: Context, rise: FloatArray, heads: Sequence[Head]) -> Estimate | None:
    """The heads' mean rise, weighted by the points that discovery loses without each, or None."""
    if not heads:
        return None
    pairs = for_model(context.discovery, QUICK_DISCOVERY, context)
    variants = [v for v in single(context.model.checkpoint.shape, zeroed) if v.heads[0] in heads]
    run = ablate(context, "alone", variants, pairs)
    cost = np.array([max(run.loss(str(head)).value, 0.0) for head in heads])
    if not cost.sum() > 0:
        return None
    changes = np.stack([rise[:, head.layer, head.head] for head in heads], axis=-1)
    return _points(changes @ (cost / cost.sum()))


def _compare(context: Context, base: Scorer, pairs: Sequence[Pair]) -> Comparison:
    with context.progress(len(pairs), "pairs") as shown:
        return compare(base.encoder, context.model, pairs, context.segmenter, shown=shown)


def strengthened(comparison: Comparison) -> Named:
    """The heads whose weight on matched terms rose."""
    rise = comparison.change("matched")
    sep, cls = (np.nan_to_num(comparison.weight("after", kind)) for kind in ("sep", "cls"))
    return name_heads(means(rise), one_sided_p(rise), means(1 - sep - cls), least=LEAST_CHANGE)


# Estimates over queries, in points of attention.


def _points(per_query: FloatArray) -> Estimate:
    """The mean over queries of shares [queries], in points."""
    return over_queries(POINTS * per_query, range(len(per_query)))


def of_heads(per_query: FloatArray, heads: Sequence[Head]) -> FloatArray:
    """The mean over `heads` of [queries, layers, heads]: [queries]; NaN without heads."""
    if not heads:
        return np.full(len(per_query), np.nan)
    return np.asarray(np.mean([per_query[:, head.layer, head.head] for head in heads], axis=0))


def _of(values: FloatArray, heads: Sequence[Head]) -> Estimate | None:
    """The mean over the heads of weights or changes [queries, layers, heads]; None without heads."""
    return _points(of_heads(values, heads)) if heads else None


def _beyond_others(comparison: Comparison, heads: Sequence[Head], shape: Shape) -> Estimate | None:
    """Their rise on matched terms less that of the other heads of their layers."""
    rise = comparison.change("matched")
    gaps = []
    for head in heads:
        others = [h for h in shape.all_heads if h.layer == head.layer and h not in heads]
        if others:
            gaps.append(rise[:, head.layer, head.head] - of_heads(rise, others))
    return _points(np.mean(gaps, axis=0)) if gaps else None


def _last_layers(comparison: Comparison, shape: Shape) -> Estimate | None:
    """Mean cosine of the last two layers less that of the others; None for two layers or fewer."""
    cosine = comparison.similarity_of("cosine")
    layers = [
        of_heads(cosine, [head for head in shape.all_heads if head.layer == layer])
        for layer in range(shape.layers)
        if any(head.layer == layer for head in shape.all_heads)
    ]
    if len(layers) <= LAST_LAYERS:
        return None
    gap = np.mean(layers[-LAST_LAYERS:], axis=0) - np.mean(layers[:-LAST_LAYERS], axis=0)
    return over_queries(gap, range(len(gap)))


def _mean_cosine(comparison: Comparison, shape: Shape) -> Estimate:
    """The mean cosine over all heads."""
    cosine = of_heads(comparison.similarity_of("cosine"), shape.all_heads)
    return over_queries(cosine, range(len(cosine)))


# Heads: their scores, how stable the sets are, and the figures.


def _columns(
    comparison: Comparison, second_seed: Comparison | None, named: Named, score: FloatArray
) -> Mapping[str, FloatArray]:
    columns = {"score_before": score}
    for weight in WEIGHTS:
        for when in ("before", "after"):
            columns[f"{weight}_{when}"] = means(comparison.weight(when, weight))
    columns |= {name: means(comparison.similarity_of(name)) for name in SIMILARITIES}
    if second_seed is not None:
        columns |= {
            f"{name}_second_seed": means(second_seed.similarity_of(name)) for name in SIMILARITIES
        }
    return columns | {"strengthened_q": named.q}


def _figures(
    context: Context, comparison: Comparison, matching: Sequence[Head], named: Named
) -> list[Bars | HeatMap]:
    rise = head_map(
        "change_matched",
        POINTS * means(comparison.change("matched")),
        marked=map(str, named.heads()),
        scale="diverging",
        digits=1,
    )
    if not matching:
        return [rise]
    weights = {
        when: [_points(of_heads(comparison.weight(when, name), matching)) for name in WEIGHTS]
        for when in ("before", "after")
    }
    return [estimate_bars(context, "weights_matching", WEIGHTS, weights, digits=1), rise]
