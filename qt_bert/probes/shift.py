"""What does fine-tuning change? (`heads_of_query_title_bert`, 2.4.1; `dark_secrets_of_bert`)

The model and its base on the same pairs. In the article fine-tuning turns one matching head towards matched
terms, away from [SEP] and the token itself. Here heads are named as matching on the *base*, so that selection
cannot cause a rise, and compared on other queries. In a causal model only title terms attend to query terms;
without a special token between the texts, or one that is read, there is no weight on [SEP], or [CLS].
Kovaleva et al. (2019) compare whole maps by their cosine: the last two layers change most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError
from qt_bert.figures import Bars, HeatMap, head_map
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Context, Result, estimate_bars, head_table
from qt_bert.probes.base_model import open_base, open_second, scorer_like
from qt_bert.probes.matching_scores import scores_by, stable_matching
from qt_bert.probes.naming import Named, means, name_heads, one_sided_p, stability_of_means
from qt_bert.probes.shift_maps import SIMILARITIES, WEIGHTS, Comparison, compare
from qt_bert.probes.streams import PAIRS_A_QUERY, few_a_query
from qt_bert.results.probe import Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, over_queries

QUICK_DISCOVERY = 60
POINTS = 100.0
"""Points are hundredths of a token's attention."""
LEAST_CHANGE = 0.05
"""The least rise of the weight on matched terms of a strengthened head."""
LAST_LAYERS = 2


def measure(context: Context) -> Result:
    """Compare both models' attention; judge the rise on matched terms in the heads named on the base.

    Raises ArgumentError without a base, CheckpointError for a base of another model.
    """
    if context.request.base is None:
        raise ArgumentError("the model before fine-tuning is needed; give its folder with --base")
    checkpoint = context.model.checkpoint
    base = scorer_like(context, open_base(context.request.base, checkpoint))
    second = (
        None if context.request.second is None else open_second(context.request.second, checkpoint)
    )
    scores = scores_by(base, context)
    matching = scores.named()
    most = context.choose(QUICK_DISCOVERY, len(context.discovery))
    discovery = _compare(context, base, spread_over_queries(context.discovery, most, context.seed))
    pairs = few_a_query(context.validation, context.choose(PAIRS_A_QUERY, len(context.validation)))
    comparison = _compare(context, base, pairs)
    second_seed = None if second is None else _compare(context, scorer_like(context, second), pairs)
    shape = checkpoint.shape
    named = strengthened(discovery)
    rise = _of(comparison.change("matched"), matching)
    cosine = means(comparison.similarity_of("cosine"))
    most_changed = min(shape.all_heads, key=lambda head: float(cosine[head]))
    facts = {
        "named": len(matching),
        "rose": sum(bool(means(comparison.change("matched"))[head] > 0) for head in matching),
        "strengthened": len(named.heads()),
        "head": str(most_changed),
        "head_cosine": float(cosine[most_changed]),
        "least": POINTS * LEAST_CHANGE,
        "pairs": len(pairs),
    }
    return Result(
        claims={"matched": "unnamed" if rise is None else rise},
        measurements={
            "matched_before": _of(comparison.weight("before", "matched"), matching),
            "matched_after": _of(comparison.weight("after", "matched"), matching),
            "beyond_others": _beyond_others(comparison, matching, shape),
            "itself": _of(comparison.change("self"), matching),
            "separators": _of(comparison.change("sep"), matching),
            "all_cls": _of(comparison.change("cls"), shape.all_heads),
            "all_separators": _of(comparison.change("sep"), shape.all_heads),
            "strengthened_again": _of(comparison.change("matched"), named.heads()),
            "last_layers": _last_layers(comparison, shape),
            "cosine": _mean_cosine(comparison),
            **({} if second_seed is None else {"cosine_second_seed": _mean_cosine(second_seed)}),
        },
        heads=head_table(shape, _columns(comparison, second_seed, named, scores.score)),
        sets={"matching_before": matching, "strengthened": named.heads()},
        selected="matching_before",
        stability={
            "matching_before": stable_matching(scores, matching, seed=context.seed),
            "strengthened": _stability(context, discovery, comparison, named, shape),
        },
        figures=_figures(context, comparison, matching, named),
        facts=facts,
        settings={
            "base": {"name": base.checkpoint.name, "sha256": base.checkpoint.sha256},
            "second": None if second is None else {"name": second.name, "sha256": second.sha256},
            "scored": asdict(scores.sample),
            "pairs_with_a_matched_term": comparison.pairs_with_terms,
        },
        pairs=pairs,
    )


def _compare(context: Context, base: Scorer, pairs: Sequence[Pair]) -> Comparison:
    with context.progress(len(pairs), "pairs") as shown:
        return compare(base.encoder, context.model, pairs, context.segmenter, shown=shown)


def strengthened(comparison: Comparison) -> Named:
    """The heads whose weight on matched terms rose."""
    rise = comparison.change("matched")
    sep, cls = (np.nan_to_num(comparison.weight("after", kind)) for kind in ("sep", "cls"))
    to_texts = 1 - sep - cls
    return name_heads(means(rise), one_sided_p(rise), means(to_texts), least=LEAST_CHANGE)


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


def _mean_cosine(comparison: Comparison) -> Estimate:
    """The mean cosine over all heads."""
    cosine = comparison.similarity_of("cosine").mean(axis=(1, 2))
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


def _stability(
    context: Context, discovery: Comparison, comparison: Comparison, named: Named, shape: Shape
) -> Stability | None:
    rise, again = (each.change("matched") for each in (discovery, comparison))
    return stability_of_means(rise, again, named.heads(), shape.all_heads, context.seed)


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
