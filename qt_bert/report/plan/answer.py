"""The answer in two sentences, and its figures."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.report.blocks import Block, Card, Cards, Interval, Prose
from qt_bert.report.plan.words import (
    MEGABYTE,
    RHO,
    TIMES,
    change,
    change_in_words,
    meaning,
    ratio,
    what_stays,
)
from qt_bert.results import Text
from qt_bert.results.numbers import interval, number, signed
from qt_bert.results.plan import Plan
from qt_bert.results.plan_evidence import TESTED, Expected, PlanEvidence, PlanTest
from qt_bert.results.text import counted, joined


def answer(plan: Plan, evidence: PlanEvidence) -> tuple[Block, ...]:
    """What stays and what it saves; what that costs."""
    return (
        Prose(body=joined((_saves(plan, evidence), *_costs(evidence)))),
        Cards(cards=tuple(_cards(evidence))),
    )


def _saves(plan: Plan, evidence: PlanEvidence) -> Text:
    stays, asked = what_stays(plan), plan.budget.asked
    share = f"{100 * evidence.size.share:.0f}"
    zh = f"按预算 {asked}，保留{stays.zh}：参数为原来的 {share}%"
    en = f"Under {asked} the plan keeps {stays.en}: {share} % of the parameters"
    if evidence.speed is not None:
        latency = number(evidence.speed.latency.value, 2)
        rate = number(evidence.speed.throughput.value, 2)
        zh += f"，单条延迟为 {latency} 倍，批量吞吐为 {rate} 倍"
        en += f", {latency} times the latency for one pair, {rate} times the pairs a second in bulk"
        if plan.budget.kind_of == "latency" and evidence.speed.latency.value > plan.budget.value:
            zh += "（选定后再计时，略超预算）"
            en += " (over the budget when timed again after the choice)"
    return Text(f"{zh}。", f"{en}.")


def _costs(evidence: PlanEvidence) -> Iterator[Text]:
    validation = next((one for one in evidence.tests if one.role == "validation"), None)
    found = None if validation is None else validation.measured.get(TESTED)
    if validation is None or found is None:
        yield Text(
            "这些数据上没有定义 Spearman ρ，因此没有检验。",
            "Spearman's ρ is not defined on these pairs, so nothing was tested.",
        )
        return
    shown, verdict = change_in_words(found), validation.verdict
    awaited = _awaited(evidence.expected.get(TESTED))
    follows = Text("", "") if verdict is None else meaning(verdict)
    yield Text(
        f"不重新训练，{RHO.zh} 在验证集上变化 {shown}{awaited.zh}"
        + (f"：{follows.zh}。" if verdict else "。"),
        f"Without training, {RHO.en} changes by {shown} on validation{awaited.en}"
        + (f": {follows.en}." if verdict else "."),
    )


def _awaited(one: Expected | None) -> Text:
    """What was expected beforehand, in brackets."""
    if one is None:
        return Text("", "")
    value, ends = signed(one.value), interval(one.pi_low, one.pi_high)
    return Text(
        f"（事先预计 {value}，预测区间 {ends}）" if ends else f"（事先预计 {value}）",
        f" (expected: {value}, prediction interval {ends})" if ends else f" (expected: {value})",
    )


def _cards(evidence: PlanEvidence) -> Iterator[Card]:
    size, whole = evidence.size, evidence.teacher_size
    stored = [f"{one.stored / MEGABYTE:.1f} MB" for one in (size, whole)]
    yield Card(
        title=Text("参数", "Parameters"),
        value=Interval(value=100 * size.share, low=None, high=None, unit="%"),
        base=Text(f"float16 {stored[0]}，原 {stored[1]}", f"float16 {stored[0]} of {stored[1]}"),
        digits=0,
    )
    speed = evidence.speed
    if speed is not None:
        for title, one, timed in (
            (Text("单条延迟", "Latency, one pair"), speed.latency, speed.pairs),
            (Text("批量吞吐", "Throughput, bulk"), speed.throughput, speed.bulk_pairs),
        ):
            shown = ratio(one)
            if shown is not None:
                yield Card(
                    title=title,
                    value=Interval(value=shown.value, low=shown.low, high=shown.high, unit=TIMES),
                    base=_timed_on(timed),
                    digits=2,
                )
    for test in evidence.tests:
        yield from _test_card(test)


def _timed_on(pairs: int | None) -> Text:
    if pairs is None:
        return Text("与原模型交替计时", "in turns with the whole model")
    return Text(
        f"与原模型交替计时，{pairs} 对", f"in turns with the whole model, {counted(pairs, 'pair')}"
    )


def _test_card(test: PlanTest) -> Iterator[Card]:
    shown = change(test.measured.get(TESTED))
    if shown is None:
        return
    yield Card(
        title=Text(f"{RHO.zh} 的变化", f"Change of {RHO.en}"),
        value=shown,
        base=Text(
            f"{test.pairs.name}，{test.pairs.n_pairs or 0:,} 对",
            f"{test.pairs.name}, {counted(test.pairs.n_pairs or 0, 'pair')}",
        ),
    )
