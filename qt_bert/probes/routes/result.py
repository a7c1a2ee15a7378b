"""The study of routes as a probe's result."""

from __future__ import annotations

from typing import Any

from qt_bert.models.heads import names_of
from qt_bert.probes.base import Context
from qt_bert.probes.display import known
from qt_bert.probes.naming import Estimate
from qt_bert.probes.routes.asked import NOT_STABLE
from qt_bert.probes.routes.claims import findings
from qt_bert.probes.routes.figures import entries_of, figures
from qt_bert.probes.routes.passes import OUTCOMES, Outcome, Way
from qt_bert.probes.routes.shares import Shares
from qt_bert.probes.routes.study import Study
from qt_bert.probes.routes.words import grade_name, grade_sign
from qt_bert.probes.split import reference
from qt_bert.results.probe import HeadScores, ProbeResult
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text, counted, joined, signed


def result(study: Study, context: Context) -> ProbeResult:
    """Findings and figures; under --full the scores of every matching head too."""
    labels = context.model.checkpoint.settings.labels
    grade = grade_name(labels)
    return ProbeResult(
        probe="routes",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.asked.pairs),
        settings=_settings(study, context),
        summary=_summary(study, grade),
        findings=tuple(findings(study, grade)),
        heads=_heads(study),
        sets={},
        figures=figures(study, grade, grade_sign(labels)),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    """What each matching head changes, and its own share by entry; no scores in a quick run."""
    shares, senders = study.layer, study.asked.senders
    if shares is None:
        return ()
    return tuple(
        HeadScores(
            head=str(head),
            scores={name: known(one.value) for name, one in _scores(shares, place).items()},
            selected=senders.named,
        )
        for place, head in enumerate(senders.heads, 1)
    )


def _scores(shares: Shares, sender: int) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for outcome in OUTCOMES:
        found[f"{outcome}_change"] = shares.change(outcome, sender)
        for entry in entries_of(outcome):
            found[f"{outcome}_share_{entry}"] = shares.share(outcome, entry, sender)
    return found


def _settings(study: Study, context: Context) -> dict[str, Any]:
    asked, senders = study.asked, study.asked.senders
    return {
        "layer": asked.reader.layer,
        "reader": str(asked.reader),
        "receivers": list(names_of(asked.receivers)),
        "senders": {
            "heads": list(names_of(senders.heads)),
            "named": senders.named,
            "source": senders.source,
        },
        "layer_matched_draws": study.draws,
        "pairs": len(asked.pairs),
        "resolution": _resolution(study, context),
    }


def _resolution(study: Study, context: Context) -> dict[str, str]:
    zh, en = [], []
    surplus = _half_width(study.reader.beyond("focus", "qk")[0])
    if surplus is not None:
        zh.append(f"与同层其他头之差小于总变化的 {100 * surplus:.0f} % 看不出来。")
        en.append(f"A surplus under {100 * surplus:.0f} % of the whole change could not be seen.")
    change = _half_width(study.reader.change("focus"))
    if change is not None:
        zh.append(f"去掉整组时，平均每对小于 {change:.4f} 的关注度变化看不出来。")
        en.append(f"A change of focus under {change:.4f} a pair could not be seen.")
    if not context.full:
        least = f"{1 / (1 + study.draws):.3f}"
        zh.append(
            f"快速模式只测匹配头整组和一个阅读头，对照 {study.draws} 组（p 最小 {least}），"
            "对照只测查询和键一起这一个入口；逐个匹配头、该层其余各头、对照的其他入口和它们自己的变化、"
            "前馈也保持不变、以均值代替，用 --full。"
        )
        en.append(
            "A quick run takes the matching heads as a whole and one reader, with "
            f"{counted(study.draws, 'control set')} (least p {least}), and these by query and key "
            "together alone; each matching head, the other heads of the layer, the controls by the "
            "other entries and what they change themselves, feed-forward blocks held too and mean "
            "contexts come with --full."
        )
    return {"zh": "".join(zh), "en": " ".join(en)}


def _half_width(found: Estimate) -> float | None:
    ends = percentile_interval(found.samples)
    return None if ends is None else (ends[1] - ends[0]) / 2


def _summary(study: Study, grade: Text) -> Text:
    senders, reader = study.asked.senders, study.asked.reader
    heads, n, note = " ".join(names_of(senders.heads)), len(senders.heads), senders.note
    zh, en = ("", "") if note is None else (f"，{note.zh}", f", {note.en}")
    opening = Text(
        f"从低层 {n} 个匹配头（{heads}{zh}）到 {reader}：",
        f"From {counted(n, 'matching head')} below ({heads}{en}) to {reader}:",
    )
    shaky = [Text(f"{NOT_STABLE.zh}。", f"But {NOT_STABLE.en}.")] if study.asked.unstable else []
    return joined([opening, _of_row(study), _of_grade(study, grade), *shaky])


def _of_row(study: Study) -> Text:
    """How much of the change of focus arrives directly."""
    change = signed(study.reader.change("focus").value)
    if not study.reader.told("focus"):
        return Text(
            f"去掉它们，关注度每对变化 {change}，区间含 0，没有份额可言。",
            f"without them its focus changes by {change} a pair, which may be 0, so there is no share.",
        )
    share = _share(study, "focus", "qk")
    zh = f"去掉它们，关注度每对变化 {change}；其中 {share} 直接进入查询和键"
    en = (
        f"without them its focus changes by {change} a pair; {share} of that enters its query and "
        "key directly"
    )
    if study.draws:
        others = _percent(study.reader.controls("focus", "qk").value)
        zh += f"（同层其他头送来的，按同一变化计：{others}）"
        en += f" (others of their layers send, of the same change: {others})"
    return Text(f"{zh}，其余经由别的头。", f"{en}, the rest travels through other heads.")


def _of_grade(study: Study, grade: Text) -> Text:
    """The same of the grade, whose change may enter by the value too."""
    change = signed(study.reader.change("grade").value)
    if not study.reader.told("grade"):
        return Text(
            f"{grade.zh}每对变化 {change}，区间含 0。",
            f"The {grade.en} changes by {change} a pair, which may be 0.",
        )
    keys, value = _share(study, "grade", "qk"), _share(study, "grade", "v")
    reader = study.asked.reader
    return Text(
        f"{grade.zh}每对变化 {change}；直接经 {reader} 的查询和键到达 {keys}，经它的值 {value}。",
        f"The {grade.en} changes by {change} a pair; {keys} of that arrives directly by the query and "
        f"key of {reader}, {value} by its value.",
    )


def _share(study: Study, outcome: Outcome, way: Way) -> str:
    """`62% [48%, 75%]`."""
    found = study.reader.share(outcome, way)
    ends = percentile_interval(found.samples)
    interval = "" if ends is None else f" [{_percent(ends[0])}, {_percent(ends[1])}]"
    return f"{_percent(found.value)}{interval}"


def _percent(share: float) -> str:
    return f"{round(100 * share)}%"  # a whole number: no −0
