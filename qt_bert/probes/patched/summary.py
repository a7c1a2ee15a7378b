"""The study of patches in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.common.base import sample
from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.patched.claims import gap_unit, restored
from qt_bert.probes.patched.scatter import only_one
from qt_bert.probes.patched.study import Study
from qt_bert.probes.patched.words import QUICK, SCORE
from qt_bert.results import Text
from qt_bert.results.text import counted, joined


def summary(study: Study, context: ProbeContext) -> Text:
    """The gap, what the set restores, the best single head, what discovery names."""
    return joined([*_sentences(study, context)])


def _sentences(study: Study, context: ProbeContext) -> Iterator[Text]:
    yield _gap(study, context)
    if study.seen.gap.known:
        yield _set(study)
        if study.each.gap.known:
            yield _best_head(study)
        yield _named(study)
    if not context.full:
        yield QUICK


def _gap(study: Study, context: ProbeContext) -> Text:
    gap, made = study.seen.gap, study.seen.made
    base, unit = sample(len(made.twins), len(set(made.queries))), gap_unit(context)
    size, n = f"{_signed(-gap.mean.value)}{_ends(gap.mean)}", gap.negative
    small, counted_in = Text("", ""), ""
    if unit != SCORE:
        small = Text(f"{gap.small} 对降幅不到 0.05 {unit.zh}，", f"under 0.05 in {gap.small}, ")
        counted_in = f" {unit.en}"
    zh = (
        f"把标题里与查询共有的一个词换掉，分数平均变化 {size} {unit.zh}"
        f"（{base.zh}；{small.zh}{n} 对反而上升）。"
    )
    en = (
        f"Replacing one term that the title shares with the query changes the score by {size}"
        f"{counted_in} on average ({base.en}; the fall is {small.en}below 0 in {n})."
    )
    if not gap.known:
        zh += "这一变化与 0 分不开，所以不计算补回的份额。"
        en += " That cannot be told from 0, so no shares are given."
    return Text(zh, en)


def _set(study: Study) -> Text:
    found, what = restored(study), study.asked.said
    share = _percent(found.target)
    if found.matched is None:
        return Text(
            f"换回 {what.zh}的输出，补回缺口的 {share}；同层没有足够的其他头可比。",
            f"Putting back the output of {what.en} restores {share} of the gap; their layers have "
            "too few other heads to compare with.",
        )
    mean = _percent(found.matched)
    return Text(
        f"换回 {what.zh}的输出，补回缺口的 {share}，换回同层其他头平均补回 {mean}。",
        f"Putting back the output of {what.en} restores {share} of the gap; others of their layers "
        f"restore {mean} on average.",
    )


def _best_head(study: Study) -> Text:
    """Of all heads the one that restores most, where any does: the largest of many, and so too high."""
    shares = study.each.restoring(study.plan.singles)
    best, n = int(np.argmax(shares.values)), len(study.each.made.twins)
    head, share = study.plan.singles[best].heads[0], f"{_whole(shares.values[best])} %"
    if not shares.values[best] > 0:
        return Text("没有一个头能单独补回什么。", "No head restores anything alone.")
    return Text(
        f"单个头里补回最多的是 {head}（{n} 对上 {share}，{len(shares.values)} 个头里最大的，因此偏高）。",
        f"The single head that restores most is {head} ({share} on {counted(n, 'pair')}, the largest of "
        f"{len(shares.values)} and so too high).",
    )


def _named(study: Study) -> Text:
    choice = study.choice
    if choice is None:
        return Text("", "")
    patched, absent = only_one(choice)
    both = len(choice.restoring.heads) - len(patched)
    return Text(
        f"发现集上，补丁和去掉都选出的头有 {both} 个，只由补丁选出 {len(patched)} 个，只由去掉选出 {len(absent)} 个。",
        f"On discovery, named both by patching and by leaving out: {both}; by patching alone: "
        f"{len(patched)}; by leaving out alone: {len(absent)}.",
    )


def _percent(found: Estimate) -> str:
    ends = percentile_interval(found.samples)
    between = "" if ends is None else f" [{_whole(ends[0])}, {_whole(ends[1])}]"
    return f"{_whole(found.value)} %{between}"


def _whole(share: float) -> str:
    return str(round(100 * share))


def _ends(found: Estimate) -> str:
    """Its interval with the other sign, for the score's change."""
    ends = percentile_interval(found.samples)
    return "" if ends is None else f" [{_signed(-ends[1])}, {_signed(-ends[0])}]"


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}"  # no −0.00
