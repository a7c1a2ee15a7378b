"""The study of readers as a probe's result."""

from __future__ import annotations

from typing import Any

from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.common.averages import average, means
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.readers.choosing import LEAST_FOCUS
from qt_bert.probes.readers.claims import against, findings
from qt_bert.probes.readers.cls_row import FOCUS, QUANTITIES
from qt_bert.probes.readers.figures import figures
from qt_bert.probes.readers.study import Study
from qt_bert.probes.readers.wires import edges
from qt_bert.probes.split import reference
from qt_bert.results import HeadScores, ProbeResult, Text


def result(study: Study, context: ProbeContext) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    reader = study.chosen.head
    return ProbeResult(
        probe="focus",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.validation.pairs),
        settings=_settings(study, context),
        summary=_summary(study, context),
        findings=tuple(findings(study, context)),
        heads=_heads(study),
        sets={
            "reader": () if reader is None else (str(reader),),
            "focused": tuple(map(str, study.readers.focused)),
            "averted": tuple(map(str, study.readers.averted)),
            "matching_below": tuple(map(str, study.matching)),
        },
        figures=figures(study, context),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    plain, readers = means(study.plain), study.readers
    named = {*readers.focused, *readers.averted}
    outcome = study.outcomes.get("zero")
    changes = None if outcome is None else means(outcome.rows[:, 1] - outcome.rows[:, 0])
    found = []
    for head in study.shape.all_heads:
        scores: dict[str, float] = dict(zip(QUANTITIES, plain[head], strict=True))
        scores |= {
            "discovery_focus": readers.focus[head],
            "p": readers.p[head],
            "q": readers.q[head],
        }
        if head.layer == study.layer:
            scores["discovery_cost"] = study.chosen.costs[head.head]
            if changes is not None:
                scores["focus_change"] = changes[head.head, FOCUS]
        found.append(
            HeadScores(
                head=str(head),
                scores={name: _known(value) for name, value in scores.items()},
                selected=head in named,
            )
        )
    return tuple(found)


def _settings(study: Study, context: ProbeContext) -> dict[str, Any]:
    chosen, outcome, back = study.chosen, study.outcomes.get("zero"), study.readers.back
    reader: dict[str, Any] | None = None
    if chosen.head is not None:
        cost = _known(chosen.costs[chosen.head.head])
        reader = {"head": str(chosen.head), "metric": chosen.metric, "cost": cost}
        reader["interval"] = chosen.interval
    return {
        "layer": study.layer,
        "least_focus": LEAST_FOCUS,
        "reader": reader,
        "partly_matched": {
            "discovery": study.discovery.describe(),
            "validation": study.validation.describe(),
        },
        "contested_pairs": len(study.contested),
        "layer_matched_draws": 0 if outcome is None else len(outcome.contest.matched),
        "lower_heads_left_out_alone": _spelled(study, context),
        "comes_back": {name: None if one is None else vars(one) for name, one in back.items()},
        "resolution": _resolution(study, context),
    }


def _spelled(study: Study, context: ProbeContext) -> dict[str, Any]:
    chosen_by = "all" if context.full else "matching heads, and the largest gradient importance"
    return {"heads": len(study.wiring.sources), "chosen_by": chosen_by}


def _resolution(study: Study, context: ProbeContext) -> dict[str, str] | None:
    reader, outcome = study.chosen.head, study.outcomes.get("zero")
    if reader is None or outcome is None:
        return None
    ends = percentile_interval(against(outcome, reader.head, context).difference.samples)
    if ends is None:
        return None
    half, pairs = (ends[1] - ends[0]) / 2, len(study.contested)
    return {
        "zh": f"去掉低层头的比较用了其中 {pairs} 对；关注度的变化小于 {half:.3f} 看不出来。",
        "en": f"Lower heads were left out on {pairs} of them; a change of focus under {half:.3f} "
        "could not be seen.",
    }


def _summary(study: Study, context: ProbeContext) -> Text:
    reader = study.chosen.head
    if reader is None:
        return Text(
            "这些样本的标签不足以判断该层哪个头最要紧。",
            "The labels of this sample do not tell which head of the layer matters most.",
        )
    per_query = study.plain[:, reader.layer, reader.head, FOCUS]
    focus = average(per_query, context.resamples, context.seed).value
    zh = f"第 {study.layer} 层最要紧的头是 {reader}，它的 [CLS] 对共有词的关注度为 {_signed(focus)}"
    en = (
        f"Of layer {study.layer}, {reader} matters most; its [CLS] has a focus of {_signed(focus)} on "
        "shared terms"
    )
    change, readers = _change(study, context), study.readers
    favour, avoid = (
        sum(head.layer == study.layer for head in heads)
        for heads in (readers.focused, readers.averted)
    )
    return Text(
        f"{zh}{change.zh}。负值表示避开共有的词；该层有 {favour} 个头偏向它们，{avoid} 个头避开它们。",
        f"{en}{change.en}. Below 0 it avoids them; of that layer {favour} heads favour shared terms "
        f"and {avoid} avoid them.",
    )


def _change(study: Study, context: ProbeContext) -> Text:
    reader, outcome = study.chosen.head, study.outcomes.get("zero")
    if reader is None or outcome is None:
        return Text("", "")
    found, n = against(outcome, reader.head, context), len(study.matching)
    others = found.change.value - found.difference.value
    zh = f"；去掉低层 {n} 个匹配头后变化 {_signed(found.change.value)}"
    en = f"; without the {n} matching heads below it changes by {_signed(found.change.value)}"
    if outcome.contest.matched:
        zh += f"（去掉同层其他头：{_signed(others)}）"
        en += f" (without others of their layers: {_signed(others)})"
    for wire in edges(study.wiring, study.layer)[:1]:
        between = f"{wire.source} → {wire.target} ({_signed(wire.weight)})"
        zh += f"；最强的接线是 {between}"
        en += f"; the strongest wire is {between}"
    return Text(zh, en)


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}"  # no −0.00


def _known(value: float) -> float | None:
    return float(value) if value == value else None
