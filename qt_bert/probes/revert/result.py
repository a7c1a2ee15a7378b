"""The study of weights set back as a probe's result."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.display import known, sample_of
from qt_bert.probes.naming import Estimate, average, means
from qt_bert.probes.revert.attention import When
from qt_bert.probes.revert.beside import kept_share
from qt_bert.probes.revert.cells import QUANTITIES
from qt_bert.probes.revert.changes import METRICS, Changes
from qt_bert.probes.revert.claims import findings, over_all
from qt_bert.probes.revert.figures import figures, of_each
from qt_bert.probes.revert.study import Study
from qt_bert.probes.split import reference
from qt_bert.results.probe import HeadScores, ProbeResult
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text, joined, number, signed


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, scores of every head, and figures; no set of its own."""
    return ProbeResult(
        probe="revert",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.pairs),
        settings=_settings(study, context),
        summary=_summary(study, context),
        findings=tuple(findings(study, context)),
        heads=_heads(study),
        sets={},
        figures=figures(study, context),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    """What each head gives before and after; under --full also what ρ loses without its tuning."""
    columns: dict[str, FloatArray] = {
        f"{name}_{when}": means(study.attention.weight(when, name))
        for name in QUANTITIES
        for when in _WHEN
    }
    made = study.reversions
    if made.alone:
        columns["reverted"] = of_each(study, made.alone)
    if made.kept_alone:
        gain = of_each(study, made.kept_alone) - study.changes.value(made.heads)
        columns["kept_alone"] = gain
    asked = set(study.heads)
    return tuple(
        HeadScores(
            head=str(head),
            scores={name: known(values[head]) for name, values in columns.items()},
            selected=head in asked,
        )
        for head in study.shape.all_heads
    )


_WHEN: tuple[When, ...] = ("before", "after")


def _settings(study: Study, context: Context) -> dict[str, Any]:
    contest = study.reversions.contest
    seen = study.attention
    return {
        "base": {"name": study.base.name, "sha256": study.base.sha256},
        "asked": None if study.asked is None else study.asked.describe(),
        "layer_matched_draws": 0 if contest is None else len(contest.matched),
        "swept": {one.name: _described(one) for one in (study.changes, *study.held_out)},
        "looked_at": {
            "pairs": len(seen.pairs),
            "queries": len({pair.query for pair in seen.pairs}),
            "pairs_with_a_matched_term": int(
                np.isfinite(seen.of("after", "across")[:, 0, 0]).sum()
            ),
        },
        "resolution": _resolution(study, context),
    }


def _described(changes: Changes) -> dict[str, Any]:
    effects = changes.effects
    untouched = {metric: effects.base(metric) for metric in METRICS}
    return {"pairs": effects.n_pairs, "queries": effects.n_queries, "untouched": untouched}


def _resolution(study: Study, context: Context) -> dict[str, str]:
    """The smallest effect that could have been seen, and what the quick profile leaves out."""
    said = [one for one in (_smallest(study), _left_out(study, context)) if one is not None]
    return asdict(joined(said))


def _smallest(study: Study) -> Text | None:
    contest, changes = study.reversions.contest, study.changes
    if contest is None:
        return None
    loss, _ = changes.against(contest.target, contest.matched)
    ends = None if loss is None else percentile_interval(loss.samples)
    if ends is None:
        return None
    half, queries = (ends[1] - ends[0]) / 2, changes.effects.n_queries
    return Text(
        f"换回匹配头与换回同层其他头之差的区间半宽为 {half:.3f}（{queries} 个查询），更小的差别看不出来。",
        f"The half-width of the interval of the difference is {half:.3f} in ρ ({queries} queries); "
        "less than that could not be seen.",
    )


def _left_out(study: Study, context: Context) -> Text | None:
    if context.full:
        return None
    contest, pairs = study.reversions.contest, len(study.pairs)
    draws = 0 if contest is None else len(contest.matched)
    least = f"{1 / (1 + draws):.3f}"
    return Text(
        f"快速模式只在 {pairs} 对上换回整组匹配头，对照 {draws} 组，p 最小只能到 {least}；"
        "逐个换回、只留一个头、逐层换回用 --full。",
        f"The quick profile sets the matching heads back as a set, on {pairs} pairs, beside {draws} "
        f"draws, with which p cannot be less than {least}; each head alone, each head kept alone and "
        "each layer come with --full.",
    )


def _summary(study: Study, context: Context) -> Text:
    return joined([_summary_of_set(study), _summary_of_ends(study), _seen(study, context)])


def _summary_of_set(study: Study) -> Text:
    contest, changes = study.reversions.contest, study.changes
    if contest is None or study.asked is None:
        return Text(
            "没有可匹配的字，选不出匹配头，只测了全部换回。",
            "The pairs have nothing to match, so there are no matching heads to set back.",
        )
    who, rests = study.asked.said, sample_of(study.pairs)
    what = changes.measure("spearman").title
    change, others = changes.of(contest.target), changes.mean(contest.matched)
    return Text(
        f"把 {who.zh}换回微调前的权重（{rests.zh}），{what.zh}变化 {_signed(change)}；"
        f"换回同层其他头平均 {_signed(others)}。",
        f"With {who.en} set back to before tuning ({rests.en}), {what.en} changes by {_signed(change)}; "
        f"with as many others of their layers, by {_signed(others)} on average.",
    )


def _summary_of_ends(study: Study) -> Text:
    made, changes = study.reversions, study.changes
    heads, everything = changes.of(made.heads), changes.of(made.everything)
    share = kept_share(study)
    zh, en = "", ""
    if share is not None:
        zh = f"，其中只留匹配头可保住 {share.value:.0f}%"
        en = f", of which the matching heads alone keep {share.value:.0f} %"
    return Text(
        f"全部头换回：{_signed(heads)}{zh}；连嵌入层和各层其余部分一起换回：{_signed(everything)}。",
        f"With all heads set back: {_signed(heads)}{en}; with all the rest of embeddings and layers, too: "
        f"{_signed(everything)}.",
    )


def _seen(study: Study, context: Context) -> Text:
    """Attention before and after, over all heads, in percent."""

    def percent(when: When, name: str) -> str:
        found = average(over_all(study.attention.weight(when, name)), 0, context.seed)
        return number(known(found.value), 1)

    across, same = (
        " → ".join(f"{percent(when, name)} %" for when in _WHEN) for name in ("across", "same")
    )
    return Text(
        f"全部头平均，微调前后给另一文本中相同的词（只算两段文本）：{across}；给相同的词（含自身）：{same}。",
        "Mean of all heads before and after tuning, to the same term in the other text (texts alone): "
        f"{across}; to the same word, itself included: {same}.",
    )


def _signed(found: Estimate | None) -> str:
    return signed(None if found is None else found.value)
