"""Claims about several heads as one: the article's "one of the heads is right"."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.claims import beyond
from qt_bert.probes.common.naming import one_sided_p
from qt_bert.probes.word_ends.conclusions import worth
from qt_bert.probes.word_ends.study import Study
from qt_bert.probes.word_ends.union import Union
from qt_bert.probes.word_ends.words import percent, source
from qt_bert.results import Finding, Text

SHARE = Text("判断的比例", "share of decisions")


def p_over_queries(shares: FloatArray) -> float | None:
    """One-sided p of a mean over queries above zero; None where fewer than two queries speak."""
    return float(one_sided_p(shares)) if np.isfinite(shares).sum() > 1 else None


def of_union(study: Study, prefix: str, zh: str, en: str) -> Iterable[Finding]:
    """“One head is right”: what of it is more than luck, and the shares themselves."""
    union, k = study.union, study.k
    _, samples = union.samples(k, study.resamples, study.seed)
    yield beyond(
        f"{prefix}union_worth",
        Text(
            f"{zh}“有一个头判断正确就行”（前 {k} 个头）多于碰巧：(U − U₀)/(1 − U₀) > 0",
            f"“One head is right” (of the first {k}) is more than luck: (U − U₀) / (1 − U₀) > 0{en}",
        ),
        source(None),
        float(union.worth[k]),
        samples,
        p=p_over_queries(union.excess(k)),
        n_queries=len(union.size),
        unit=Text("碰巧之外的比例", "share of what luck leaves"),
        conclusions=worth(float(union.share[k]), float(union.chance[k])),
    )
    heads = len(study.graded.order)
    for name, one, number, words in (
        ("union", union, heads, Text("全部头", "all heads")),
        ("union_at_k", union, k, Text(f"前 {k} 个头", f"the first {k} heads")),
        (
            "union_article_rule",
            study.union_by_rule,
            heads,
            Text("全部头按文章的规则", "all heads by the article's rule"),
        ),
    ):
        yield _union_share(study, f"{prefix}{name}", one, number, words, zh, en)


def _union_share(
    study: Study, id: str, union: Union, k: int, words: Text, zh: str, en: str
) -> Finding:
    share, _ = union.samples(k, study.resamples, study.seed)
    luck = percent(union.chance[k])
    return beyond(
        id,
        Text(
            f"{zh}{words.zh}中有一个判断正确的比例（碰巧：{luck}）",
            f"Share that one of {words.en} gets right (by luck: {luck}){en}",
        ),
        source("96 %"),
        float(union.share[k]),
        share,
        p=None,
        n_queries=len(union.size),
        unit=SHARE,
        primary=False,
    )
