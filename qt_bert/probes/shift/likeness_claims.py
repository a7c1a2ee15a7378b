"""Where fine-tuning changes the maps most, and whether it does so beyond another seed: claims."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.naming import average, means, one_sided_p
from qt_bert.probes.shift.study import Study
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import CONFIDENCE, bootstrap_weights
from qt_bert.text import Text

LAST_LAYERS = 2
_COSINE = Text("余弦", "cosine")
_DARK_SECRETS = Source(
    article="dark_secrets_of_bert", section="What happens in fine-tuning?", value="< 0"
)


def last_layers(study: Study, context: Context) -> Iterator[Finding]:
    """Kovaleva et al. 2019: for most tasks the last two layers change most.

    Primary: their mean cosine lies below that of every single other layer, so below the lowest of
    these (p: the largest of the tests against each). Beside it: below the mean of the others.
    """
    numbers, layers = layer_means(study)
    if len(numbers) <= LAST_LAYERS:
        return
    last, others = layers[:, -LAST_LAYERS:].mean(axis=1), layers[:, :-LAST_LAYERS]
    gap = last[:, None] - others
    yield beyond(
        "last_layers_most",
        Text(
            "最后两层的注意力图变化最大：平均余弦低于其余每一层",
            "The maps of the last two layers change most: their mean cosine is below that of every "
            "other layer",
        ),
        _DARK_SECRETS,
        float(means(gap).max()),
        _ends_of_largest(gap, context),
        p=float(one_sided_p(-gap).max()),
        n_queries=len(gap),
        side="below",
        unit=_COSINE,
        conclusions=_conclusions(numbers, means(layers)),
    )
    yield _lower_cosine(
        "last_layers_cosine",
        Text(
            "最后两层的注意力图变化较大：平均余弦低于其余各层的平均",
            "The maps of the last two layers change more: their mean cosine is below the mean of the "
            "other layers",
        ),
        _DARK_SECRETS,
        last - others.mean(axis=1),
        context,
    )


def layer_means(study: Study) -> tuple[list[int], FloatArray]:
    """The layers that have heads, and the mean cosine of these heads [queries, layers]."""
    there = {
        layer: [head.head for head in study.shape.all_heads if head.layer == layer]
        for layer in range(study.shape.layers)
    }
    cosine = study.validation.alike("cosine")
    columns = [cosine[:, layer, heads].mean(axis=1) for layer, heads in there.items() if heads]
    return [layer for layer, heads in there.items() if heads], np.stack(columns, axis=1)


def _ends_of_largest(gap: FloatArray, context: Context) -> tuple[float, float] | None:
    """The 95 % interval of the largest mean of `gap` [queries, layers].

    The largest of resampled means would lie too high. It is no less than any layer's mean, so that
    its lower end is the highest of theirs (Bonferroni, for any of them may be it), and it is one of
    these means, so that its upper end is the highest of their own.
    """
    if len(gap) < 2 or not context.resamples:
        return None
    drawn = bootstrap_weights(len(gap), context.resamples, context.seed, width=gap.size)
    samples = np.concatenate([weights @ gap / len(gap) for weights in drawn])
    tail = (1 - CONFIDENCE) / 2
    low = np.quantile(samples, tail / gap.shape[1], axis=0).max()
    high = np.quantile(samples, 1 - tail, axis=0).max()
    return float(low), float(high)


def _conclusions(numbers: list[int], cosines: FloatArray) -> dict[Verdict, Text]:
    lowest = [f"L{numbers[place]}" for place in np.argsort(cosines)[:LAST_LAYERS]]
    named = Text(
        f"变化最大的两层是 {'、'.join(lowest)}。",
        f"The two that change most are {', '.join(lowest)}.",
    )
    return {
        "reproduced": Text(
            f"微调主要改动最后两层看什么。{named.zh}",
            f"Fine-tuning moves above all what the last two layers look at. {named.en}",
        ),
        "not reproduced": Text(
            f"至少有一层比最后两层变化更大。{named.zh}",
            f"At least one layer changes more than the last two do. {named.en}",
        ),
        "inconclusive": Text(
            f"最后两层与变化最接近它们的一层分不开。{named.zh}",
            f"The last two cannot be told from the layer next to them in change. {named.en}",
        ),
    }


def beyond_second_seed(study: Study, context: Context) -> Iterator[Finding]:
    """Whether fine-tuning moves the maps further than another seed of it does, query by query."""
    if study.beside is None:
        return
    cosines = [one.alike("cosine").mean(axis=(1, 2)) for one in (study.validation, study.beside)]
    yield _lower_cosine(
        "cosine_below_second_seed",
        Text(
            "全部头平均，微调前后注意力图的余弦，低于同一基座换一个种子微调的两个模型之间的余弦",
            "Over all heads, the maps before and after fine-tuning have a lower cosine than those of "
            "two models tuned from the same base with different seeds",
        ),
        Source(article="heads_of_query_title_bert", section="2.4.1"),
        cosines[0] - cosines[1],
        context,
    )


def _lower_cosine(
    id: str, claim: Text, source: Source, gap: FloatArray, context: Context
) -> Finding:
    """That one cosine lies below another, by their difference `gap` in each query."""
    found = average(gap, context.resamples, context.seed)
    return beyond(
        id,
        claim,
        source,
        found.value,
        found.samples,
        p=found.p_below,
        n_queries=found.n_queries,
        side="below",
        unit=_COSINE,
        primary=False,
    )
