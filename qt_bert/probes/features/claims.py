"""What is claimed of the attention to kinds of tokens, as findings; all on validation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qt_bert.models.heads import Head, names_of
from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.features import words
from qt_bert.probes.features.added import added
from qt_bert.probes.features.kinds import KINDS, OF_ARCS, TUNED
from qt_bert.probes.features.looking import Looking, When
from qt_bert.probes.features.measures import (
    HALF,
    empty_share,
    has_heads,
    known_mean,
    last_cls,
    over_heads,
    thirds,
)
from qt_bert.probes.features.stated import beside, of_base, stated
from qt_bert.probes.features.study import Part, Study, excess
from qt_bert.results.probe import Finding
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

RIVAL_SHARE = 0.1
"""A kind rivals [SEP] only if so many of the queries have it."""

_MOST_NAMED = 6
"""A claim names so many heads at most; the others stand among the sets."""


def findings(study: Study, context: Context) -> list[Finding]:
    """The claims about the model, the same of its base beside them, then what concerns some heads."""
    found = list(_of_model(study, context, "after"))
    if study.base is not None:
        for name, part in study.parts.items():
            found += added(name, part, study, context)
        found += map(of_base, _of_model(study, context, "before"))
    for name, part in study.parts.items():
        found += _named(name, part, context)
    return found


def _of_model(study: Study, context: Context, when: When) -> Iterator[Finding]:
    yield from _trends(study.pairs.validation, context, when)
    yield _over_half(study, context, when)
    if has_heads(study.shape, -1):
        yield _last_layer(study, context, when)


def _trends(seen: Looking, context: Context, when: When) -> Iterator[Finding]:
    """[CLS] less and [SEP] more from the first to the last third of the layers."""
    ends = thirds(seen.after.shape[1])
    if ends is None:
        return
    gaps = {}
    for kind in ("cls", "sep"):
        early, late = (over_heads(seen.of(kind, when)[:, layers]) for layers in ends)
        gaps[kind] = late - early
    if not np.isfinite(gaps["cls"]).any():  # all heads of a third were pruned
        return
    yield stated(
        "cls_early",
        Text(
            "前三分之一的层比后三分之一更多地看 [CLS]",
            "The first third of the layers looks at [CLS] more than the last third",
        ),
        words.TREND,
        -gaps["cls"],
        context,
        conclusions=words.CLS_EARLY,
    )
    yield stated(
        "sep_late",
        Text(
            "后三分之一的层比前三分之一更多地看 [SEP]",
            "The last third of the layers looks at [SEP] more than the first third",
        ),
        words.TREND,
        gaps["sep"],
        context,
        conclusions=words.SEP_LATE,
    )


def _over_half(study: Study, context: Context, when: When) -> Finding:
    """How many heads give most of their attention to [CLS], [SEP] and punctuation."""
    seen = study.pairs.validation
    value, samples = empty_share(seen, study.shape, context.resamples, context.seed, when)
    return beyond(
        "heads_over_half",
        Text(
            "过半数的头把一半以上的注意力给了 [CLS]、[SEP] 和标点",
            "More than half of the heads give over half of their attention to [CLS], [SEP] and "
            "punctuation",
        ),
        words.MOSTLY,
        100 * value,
        100 * samples,
        p=_p_above_half(samples),
        n_queries=len(set(seen.queries)),
        margin=100 * HALF,
        unit=words.OF_HEADS,
        conclusions=words.OVER_HALF,
    )


def _p_above_half(samples: FloatArray) -> float | None:
    """One-sided p of more than half of the heads, by the resamples; None without any."""
    if not samples.size:
        return None
    return float((1 + (samples <= HALF).sum()) / (1 + samples.size))


def rival(chosen_on: Looking, also_in: Looking, when: When = "after") -> str:
    """The kind that [CLS] of the last layer looks at most besides [SEP], on the texts `chosen_on`.

    Of the kinds that are not rare: that RIVAL_SHARE of the queries have there, and some `also_in`.
    """
    others = [
        kind
        for kind in KINDS
        if kind not in ("sep", TUNED)
        and np.isfinite(chosen_on.rate(kind)).mean() >= RIVAL_SHARE
        and also_in.has(kind)
    ]
    return max(others, key=lambda kind: known_mean(last_cls(chosen_on, kind, when)))


def _last_layer(study: Study, context: Context, when: When) -> Finding:
    """The most that [CLS] gives to a separator, less the most it gives to a token of another kind."""
    seen = study.pairs.validation
    other = rival(study.pairs.discovery, seen, when)
    name = words.NAMES[other]
    return stated(
        "cls_looks_at_sep",
        Text(
            "最后一层的 [CLS] 看得最多的是 [SEP]，多于它看得最多的"
            f"{name.zh}词元（发现集上除 [SEP] 外最受注意的一类）",
            "[CLS] of the last layer looks most at [SEP]: more than at the token it looks at most of "
            f"the kind that leads the others on discovery ({name.en})",
        ),
        words.LAST_LAYER,
        last_cls(seen, "sep", when) - last_cls(seen, other, when),
        context,
        conclusions=words.SEP_FIRST,
    )


def _named(name: str, part: Part, context: Context) -> Iterator[Finding]:
    """Heads named on discovery for a kind, on validation: what they give above the base rate.

    Of a treebank only those for what pairs cannot tell; the others stand among the sets.
    """
    where = words.ON[name]
    for kind, one in part.named.items():
        heads = one.heads()
        told = name == "pairs" or kind in OF_ARCS
        if not (heads and told and part.validation.has(kind)):
            continue
        above = excess(part.validation, kind)
        over = np.mean([above[:, head.layer, head.head] for head in heads], axis=0)
        said, listed = words.NAMES[kind], _listed(heads)
        claim = Text(
            f"{where.zh}发现集上选出的看{said.zh}的头（{listed.zh}），给{said.zh}的注意力超过其词元占比",
            f"{where.en}heads named on discovery for {said.en} ({listed.en}) give them more than their "
            "share of the tokens",
        )
        found = stated(f"named_{kind}_{name}", claim, words.NO_FIGURE, over, context)
        yield replace(beside(found), sets=(f"{kind}_{name}",))


def _listed(heads: list[Head]) -> Text:
    """`3: L0H1, L2H3, L4H5`, best first."""
    names, more = names_of(heads[:_MOST_NAMED]), len(heads) > _MOST_NAMED
    zh, en = "、".join(names) + (" 等" if more else ""), ", ".join(names) + (", …" if more else "")
    return Text(f"{len(heads)} 个：{zh}", f"{len(heads)}: {en}")
