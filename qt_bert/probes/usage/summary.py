"""The study of encoded against used in a few sentences."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.probes.usage.claims import margin
from qt_bert.probes.usage.reading import Encoded
from qt_bert.probes.usage.study import Study
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text, joined


def summary(study: Study, *, full: bool) -> Text:
    """What is used beyond controls and what is not seen to be, what failed, what was left out."""
    parts = [_used(study), *_failed(study), *_unmatched(study), *([] if full else [_quick(study)])]
    return joined(parts)


def _used(study: Study) -> Text:
    moved = [one for one in study.tested if _is_used(study, one.name)]
    others = [one for one in study.tested if one not in moved]
    parts = [
        Text(
            f"用 LEACE 从各层向量里抹去 {len(study.tested)} 种性质，看打分变化多少（各层平均）。",
            f"LEACE erased {len(study.tested)} properties from the vectors; how far do the grades move "
            "(mean over layers)?",
        )
    ]
    if moved:
        names = _titles(moved)
        parts.append(
            Text(
                f"变化超出两种对照的：{names.zh}。",
                f"Beyond both controls for {names.en}.",
            )
        )
    if others:
        names = _titles(others)
        parts.append(
            Text(
                f"看不出超出对照的：{names.zh}。",
                f"Not visibly beyond controls for {names.en}.",
            )
        )
    return joined(parts)


def _is_used(study: Study, name: str) -> bool:
    found = study.mean_used(name)
    ends = None if found is None else percentile_interval(found.samples)
    return ends is not None and ends[0] > margin(study)


def _titles(listed: Sequence[Encoded]) -> Text:
    titles = [one.task.about.title for one in listed]
    return Text("、".join(one.zh for one in titles), ", ".join(one.en for one in titles))


def _failed(study: Study) -> list[Text]:
    """Where a probe fitted anew still reads something."""
    failed = [
        (one.task.about.title, place)
        for one in study.encoded
        for place in study.places
        if not study.holds[one.name, place]
    ]
    if not failed:
        return []
    zh = "、".join(f"{title.zh} r{place}" for title, place in failed)
    en = ", ".join(f"{title.en} at r{place}" for title, place in failed)
    return [
        Text(
            f"以下各处没有抹干净，重新训练的探针仍能读出：{zh}。",
            f"Erasure is incomplete, so that a probe fitted anew still reads something: {en}.",
        )
    ]


def _unmatched(study: Study) -> list[Text]:
    found = [
        (one.task.about.title, made.place)
        for one in study.encoded
        for made in one.erasers
        if len(made.random) < study.draws.of_eraser(one.name)
    ]
    if not found:
        return []
    zh = "、".join(f"{title.zh} r{place}" for title, place in found)
    en = ", ".join(f"{title.en} at r{place}" for title, place in found)
    return [
        Text(
            f"以下各处找不够方差相差 10 % 以内的随机子空间：{zh}。",
            f"Not all random subspaces within 10 % of the variance could be drawn: {en}.",
        )
    ]


def _quick(study: Study) -> Text:
    return Text(
        f"快速档只看 {len(study.tested)} 种性质、每三层一层、每种对照 {study.draws.eraser} 次，不下结论。",
        f"The quick profile looks at {len(study.tested)} properties in every third layer, with "
        f"{study.draws.eraser} draws of each control, and gives no verdict.",
    )
