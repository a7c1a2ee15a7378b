"""The answer of a plan in two sentences, its numbers and names in words."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.report.blocks import Badge, Block, Card, Cards, Interval, Prose
from qt_bert.results.plan import (
    MARGIN,
    TESTED,
    Expected,
    Measured,
    Plan,
    PlanEvidence,
    PlanTest,
    Ratio,
    Verdict,
)
from qt_bert.text import Text, counted, interval, joined, number, signed

# Numbers and names of a plan in words.


RHO = Text("Spearman ρ", "Spearman's ρ")
TIMES = Text("倍", "×")
MEGABYTE = 1_000_000

METRICS: dict[str, Text] = {
    "spearman": RHO,
    "qwk": Text("QWK（二次加权 κ）", "QWK (weighted κ)"),
    "accuracy": Text("准确率", "accuracy"),
    "pairwise_accuracy": Text("成对准确率", "pairwise accuracy"),
    "ndcg_at_3": Text("NDCG@3", "NDCG@3"),
    "nll": Text("标签的平均负对数概率", "the mean −log p of the label"),
}

VERDICTS: dict[Verdict, Badge] = {
    "non-inferior": Badge(Text("不差于原模型", "no worse"), "good"),
    "undecided": Badge(Text("未能确定", "undecided"), "open"),
    "inferior": Badge(Text("变差", "worse"), "bad"),
}

_MEANINGS: dict[Verdict, Text] = {
    "non-inferior": Text(
        f"下降不超过事先定下的界限 {MARGIN}",
        f"it loses no more than the {MARGIN} fixed beforehand",
    ),
    "undecided": Text(
        f"这份数据不足以确定下降是否超过界限 {MARGIN}",
        f"these data cannot tell whether it loses more than the {MARGIN} fixed beforehand",
    ),
    "inferior": Text(
        f"下降超过事先定下的界限 {MARGIN}；要用它，先蒸馏",
        f"it loses more than the {MARGIN} fixed beforehand; distil it before use",
    ),
}


def meaning(verdict: Verdict) -> Text:
    """What a verdict means for whoever would use the smaller model."""
    return _MEANINGS[verdict]


def metric_name(name: str) -> Text:
    """A metric's display name."""
    return METRICS.get(name, Text(name, name))


def change(one: Measured | None) -> Interval | None:
    """A measured change with its interval."""
    if one is None:
        return None
    return Interval(value=one.change, low=one.ci_low, high=one.ci_high)


def expected(one: Expected | None) -> Interval | None:
    """An expected change with the interval that a new sample will lie in."""
    return None if one is None else Interval(value=one.value, low=one.pi_low, high=one.pi_high)


def ratio(one: Ratio | None) -> Interval | None:
    """A ratio to the teacher, in two digits."""
    if one is None:
        return None
    return Interval(value=one.value, low=one.low, high=one.high, digits=2)


def change_in_words(one: Measured) -> str:
    """`−0.012 [−0.020, −0.004]`."""
    return f"{signed(one.change)} {interval(one.ci_low, one.ci_high)}".rstrip()


def which_is_ahead(one: Measured) -> Text:
    """How far the plan is from another way, and whether that tells which is better."""
    shown = change_in_words(one)
    if one.ci_low is not None and one.ci_low > 0:
        return Text(f"本计划更好，相差 {shown}", f"This plan is ahead by {shown}")
    if one.ci_high is not None and one.ci_high < 0:
        return Text(f"本计划更差，相差 {shown}", f"This plan is behind: {shown}")
    return Text(
        f"本计划减去它为 {shown}，区间含 0，分不出哪个更好",
        f"This plan less the rule is {shown}: these pairs do not tell which is better",
    )


def measured_on(evidence: PlanEvidence) -> Text:
    """The pairs on which everything but the plan itself was measured."""
    sampled, whole = evidence.sampled, evidence.validation
    if sampled is None or sampled.n_pairs is None or sampled.n_pairs == whole.n_pairs:
        return Text("验证集", "validation")
    count, queries = sampled.n_pairs, sampled.n_queries or 0
    return Text(
        f"验证集中的 {count:,} 对（{queries:,} 个查询）",
        f"{counted(count, 'pair')} of validation ({counted(queries, 'query', 'queries')})",
    )


def what_stays(plan: Plan) -> Text:
    """The layers, heads and units that a plan keeps."""
    teacher = plan.teacher
    heads = sum(len(one.heads) for one in plan.kept)
    there = len(plan.kept) * teacher.heads
    zh, en = [], []
    if len(plan.kept) < teacher.layers:
        zh.append(f" {teacher.layers} 层中的 {len(plan.kept)} 层")
        en.append(f"{len(plan.kept)} of {teacher.layers} layers")
    if heads < there:
        of_those = len(plan.kept) < teacher.layers
        zh.append(f"{'其中' if of_those else ''} {there} 个头中的 {heads} 个")
        en.append(f"{heads} of {'their ' if of_those else ''}{there} heads")
    units = {one.units for one in plan.kept} - {None, teacher.units}
    if units:
        shown = "/".join(f"{one:,}" for one in sorted(filter(None, units)))
        zh.append(f"每层前馈 {teacher.units:,} 个单元中的 {shown} 个")
        en.append(f"{shown} of {teacher.units:,} feed-forward units a layer")
    return Text("、".join(zh), ", ".join(en))


# The answer in two sentences, and its figures.


def answer(plan: Plan, evidence: PlanEvidence) -> tuple[Block, ...]:
    """What stays and what it saves; what that costs."""
    return (
        Prose(body=joined((_saves(plan, evidence), *_costs(evidence)))),
        Cards(cards=tuple(_cards(evidence))),
    )


def in_one_sentence(plan: Plan) -> Iterator[Text]:
    """What the plan recommends, and its price; nothing where it was made by hand."""
    if plan.evidence is not None:
        yield joined((_saves(plan, plan.evidence), *_costs(plan.evidence)))


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
