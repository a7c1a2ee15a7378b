"""Figures that stand beside the claims, as findings without a verdict."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.naming import Estimate, average, beside_claims
from qt_bert.probes.revert.changes import Changes
from qt_bert.probes.revert.study import Study
from qt_bert.probes.revert.words import FALLS, NO_SOURCE, QUANTITY_NAMES, RISES, STRENGTHENED
from qt_bert.probes.shift.words import CHANGE, PERCENT
from qt_bert.results.probe import Finding, Source
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

LEAST_LOSS = 0.02
"""ρ that setting all heads back must cost before a share of it is told."""


def beside(study: Study, context: Context) -> list[Finding]:
    """Changes without controls, accuracy, the heads kept alone, other files, further attention."""
    return [
        *_changes(study),
        *_kept(study),
        *_held_out(study),
        *_attention(study, context),
    ]


def kept_share(study: Study) -> Estimate | None:
    """What the asked heads alone keep of what all heads' tuning is worth, in percent.

    (kept − all back) / (0 − all back), in ρ; None where setting all heads back costs next to nothing.
    """
    kept, changes = study.reversions.kept, study.changes
    none_left = changes.of(study.reversions.heads)
    if kept is None or none_left is None or not none_left.value <= -LEAST_LOSS:
        return None
    left = changes.of(kept)
    return None if left is None else left.less(none_left).over(none_left.times(-1)).times(100)


def _changes(study: Study) -> Iterator[Finding]:
    changes, made = study.changes, study.reversions
    what = changes.measure("spearman").title
    if made.contest is not None and study.asked is not None:
        who = study.asked.said
        claim = Text(
            f"把 {who.zh}换回微调前的权重，{what.zh}的变化（不减对照）",
            f"The change of {what.en} with {who.en} set back, no control taken off",
        )
        found = changes.of(made.contest.target)
        yield from _beside("revert_set_change", claim, STRENGTHENED, found, changes)
        yield from _accuracy(study, who)
    for id, variant, zh, en in (
        ("revert_heads", made.heads, "把全部头", "all heads"),
        ("revert_everything", made.everything, "把嵌入层和全部层", "embeddings and all layers"),
    ):
        claim = Text(
            f"{zh}换回微调前的权重，{what.zh}的变化", f"The change of {what.en} with {en} set back"
        )
        yield from _beside(id, claim, NO_SOURCE, changes.of(variant), changes)


def _accuracy(study: Study, who: Text) -> Iterator[Finding]:
    contest, changes = study.reversions.contest, study.changes
    assert contest is not None
    claim = Text(
        f"把 {who.zh}换回微调前的权重，准确率的变化减去同层其他头的",
        f"The change of accuracy with {who.en} set back, less that of other heads of their layers",
    )
    found, _ = changes.against(contest.target, contest.matched, "accuracy")
    yield from _beside("revert_set_accuracy", claim, STRENGTHENED, found, changes, "accuracy")


def _kept(study: Study) -> Iterator[Finding]:
    share = kept_share(study)
    if share is None or study.asked is None:
        return
    who = study.asked.said
    yield beside_claims(
        "revert_kept",
        Text(
            f"其他头全部换回微调前、只留 {who.zh}，保住全部头的微调所值的 ρ 的比例",
            f"Of the ρ that the tuning of all heads is worth, the share that is left with every other "
            f"head set back and {who.en} alone kept",
        ),
        NO_SOURCE,
        share,
        "%",
        study.changes.effects.n_queries,
    )


def _held_out(study: Study) -> Iterator[Finding]:
    made = study.reversions
    for number, changes in enumerate(study.held_out, 1):
        what = changes.measure("spearman").title
        if made.contest is not None and study.asked is not None:
            who = study.asked.said
            claim = Text(
                f"把 {who.zh}换回微调前的权重，{what.zh}的变化减去同层其他头的（{changes.name}）",
                f"The change of {what.en} with {who.en} set back, less that of other heads of their "
                f"layers ({changes.name})",
            )
            found, _ = changes.against(made.contest.target, made.contest.matched)
            yield from _beside(f"revert_set_held_out_{number}", claim, STRENGTHENED, found, changes)
        claim = Text(
            f"把嵌入层和全部层换回微调前的权重，{what.zh}的变化（{changes.name}）",
            f"The change of {what.en} with embeddings and all layers set back ({changes.name})",
        )
        found = changes.of(made.everything)
        yield from _beside(f"revert_everything_held_out_{number}", claim, NO_SOURCE, found, changes)


def _attention(study: Study, context: Context) -> Iterator[Finding]:
    """The weights as they are, the parts of the same word, and the asked heads alone."""
    sources = {"across_plain": RISES, "itself": FALLS, "near": FALLS, "far": FALLS}
    for name, source in sources.items():
        title = QUANTITY_NAMES[name]
        claim = Text(
            f"微调前后注意力的变化，给{title.zh}（全部头平均）",
            f"The change of attention with tuning: {title.en} (mean of all heads)",
        )
        change = study.attention.change(name).mean(axis=(1, 2))
        yield _of_attention(f"revert_{name}", claim, source, change, context)
    if study.asked is not None:
        who = study.asked.said
        claim = Text(
            f"{who.zh}给另一文本中相同的词的注意力，微调前后的变化（头是在微调后的模型上选的，偏高）",
            f"The change with tuning of what {who.en} give the same term in the other text (chosen "
            "after tuning, and so too high)",
        )
        change = study.attention.change("across")
        own = np.mean([change[:, head.layer, head.head] for head in study.heads], axis=0)
        yield _of_attention("revert_across_set", claim, RISES, own, context)


def _of_attention(
    id: str, claim: Text, source: Source, change: FloatArray, context: Context
) -> Finding:
    found = average(change / PERCENT, context.resamples, context.seed)
    estimate = Estimate(found.value, found.samples)
    return beside_claims(id, claim, source, estimate, CHANGE, found.n_queries)


def _beside(
    id: str,
    claim: Text,
    source: Source,
    found: Estimate | None,
    changes: Changes,
    metric: str = "spearman",
) -> Iterator[Finding]:
    """One finding, or none where these labels or controls define no such number."""
    if found is not None:
        unit = changes.measure(metric).unit
        yield beside_claims(id, claim, source, found, unit, changes.effects.n_queries)
