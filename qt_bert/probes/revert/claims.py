"""What is claimed of tuning taken back, and of attention before and after it; fixed before any run.

`revert_set`. Estimand: the change of Spearman's ρ between expected grade and label (of one logit:
between its score and its untouched score) on validation when the matching heads get back their
weights from before tuning, less the mean of that change over random sets of as many heads in each
of the same layers, outside the set. Side: below. Margin: 0, for the control has taken off already
what any heads of these layers lose, and no source gives a size. p: the set's rank among the controls.

`revert_across`. Estimand: `across` (`cells.QUANTITIES`) after tuning less before, over all heads of all
layers: a mean over the rows of a pair, then over heads, over the pairs of a query, over the queries
of validation with a common term. Side: above. Margin: 0; the article gives a direction alone. Shares
of the two texts' tokens, because tuning moves attention to and from [CLS] and [SEP] too, which
would otherwise pass for matching; the weights as they are stand beside it.

`revert_same`. Estimand: `same`, in the same way, over all words. Side: below. Margin: 0, for the same
reason. Weights as they are, as in the source. p of both: a one-sided t-test over queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.naming import Average, average
from qt_bert.probes.revert.beside import beside
from qt_bert.probes.revert.study import Study
from qt_bert.probes.revert.words import (
    ACROSS_CONCLUSIONS,
    FALLS,
    RISES,
    SAME_CONCLUSIONS,
    SET_CONCLUSIONS,
    STRENGTHENED,
)
from qt_bert.probes.shift.words import CHANGE, PERCENT
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text


def findings(study: Study, context: Context) -> list[Finding]:
    """The three claims, then what stands beside them; that of the set is missing without a set."""
    return [*_of_set(study), *_of_attention(study, context), *beside(study, context)]


def over_all(per_query: FloatArray) -> FloatArray:
    """The mean over all heads of [queries, layers, heads], in points of attention [queries]."""
    return np.asarray(per_query.mean(axis=(1, 2)) / PERCENT)


def _of_set(study: Study) -> Iterator[Finding]:
    contest, changes = study.reversions.contest, study.changes
    if contest is None or study.asked is None:
        return
    loss, p = changes.against(contest.target, contest.matched)
    who, (what, unit, _) = study.asked.said, changes.measure("spearman")
    yield beyond(
        "revert_set",
        Text(
            f"把 {who.zh}换回微调前的权重，{what.zh}比换回同样几层里同样多的其他头下降更多",
            f"With {who.en} set back to before tuning, {what.en} falls further than with as many "
            "other heads of the same layers set back",
        ),
        STRENGTHENED,
        None if loss is None else loss.value,
        None if loss is None else loss.samples,
        p=p,
        n_queries=changes.effects.n_queries,
        side="below",
        unit=unit,
        conclusions=SET_CONCLUSIONS,
    )


def _of_attention(study: Study, context: Context) -> Iterator[Finding]:
    rise, fall = (
        average(over_all(study.attention.change(name)), context.resamples, context.seed)
        for name in ("across", "same")
    )
    yield _attention(
        "revert_across",
        Text(
            "微调后，词给另一文本中相同的词的注意力增加（只算两段文本的词，不含 [CLS]、[SEP] 和自身；"
            "全部头平均）",
            "After tuning, terms give more attention to the same term in the other text (of what they "
            "give the two texts, without [CLS], [SEP] and themselves; mean of all heads)",
        ),
        RISES,
        rise,
        rise.p_above,
        "above",
        ACROSS_CONCLUSIONS,
    )
    yield _attention(
        "revert_same",
        Text(
            "微调后，词给相同的词（含自身）的注意力减少（全部头平均）",
            "After tuning, words give less attention to the same word, themselves included (mean of all "
            "heads)",
        ),
        FALLS,
        fall,
        fall.p_below,
        "below",
        SAME_CONCLUSIONS,
    )


def _attention(
    id: str,
    claim: Text,
    source: Source,
    found: Average,
    p: float,
    side: Literal["above", "below"],
    conclusions: Mapping[Verdict, Text],
) -> Finding:
    return beyond(
        id,
        claim,
        source,
        found.value,
        found.samples,
        p=p if found.n_queries > 1 else None,
        n_queries=found.n_queries,
        side=side,
        unit=CHANGE,
        conclusions=conclusions,
    )
