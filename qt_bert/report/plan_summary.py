"""The answer of a plan in two sentences, its numbers and names in words."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.report.blocks import Badge, Block, Card, Cards, Interval, Prose
from qt_bert.report.words import say
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


RHO = say("spearman_s")
TIMES = say("times")
MEGABYTE = 1_000_000

METRICS: dict[str, Text] = {
    "spearman": RHO,
    "qwk": say("qwk_weighted"),
    "accuracy": say("accuracy_metric"),
    "pairwise_accuracy": say("pairwise_metric"),
    "ndcg_at_3": say("ndcg_at_3"),
    "nll": say("mean_log_p_label"),
}

VERDICTS: dict[Verdict, Badge] = {
    "non-inferior": Badge(say("no_worse"), "good"),
    "undecided": Badge(say("undecided"), "open"),
    "inferior": Badge(say("worse"), "bad"),
}

_MEANINGS: dict[Verdict, Text] = {
    "non-inferior": say("loses_no_more_than", MARGIN=MARGIN),
    "undecided": say("these_data_cannot_tell", MARGIN=MARGIN),
    "inferior": say("loses_more_than_fixed", MARGIN=MARGIN),
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
        return say("this_plan_ahead", shown=shown)
    if one.ci_high is not None and one.ci_high < 0:
        return say("this_plan_behind", shown=shown)
    return say("this_plan_less_rule", shown=shown)


def measured_on(evidence: PlanEvidence) -> Text:
    """The pairs on which everything but the plan itself was measured."""
    sampled, whole = evidence.sampled, evidence.validation
    if sampled is None or sampled.n_pairs is None or sampled.n_pairs == whole.n_pairs:
        return say("validation")
    count, queries = sampled.n_pairs, sampled.n_queries or 0
    return say(
        "part_of_validation",
        count=count,
        queries=queries,
        count_pair=counted(count, "pair"),
        query_queries=counted(queries, "query", "queries"),
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
    return say("sentence", zh=zh, en=en)


def _costs(evidence: PlanEvidence) -> Iterator[Text]:
    validation = next((one for one in evidence.tests if one.role == "validation"), None)
    found = None if validation is None else validation.measured.get(TESTED)
    if validation is None or found is None:
        yield say("spearman_s_not_defined")
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
        title=say("parameters_card"),
        value=Interval(value=100 * size.share, low=None, high=None, unit="%"),
        base=say("float16", stored=stored[0], stored_2=stored[1]),
        digits=0,
    )
    speed = evidence.speed
    if speed is not None:
        for title, one, timed in (
            (say("latency_one_pair"), speed.latency, speed.pairs),
            (say("throughput_bulk"), speed.throughput, speed.bulk_pairs),
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
        return say("timed_in_turns")
    return say("turns_with_whole_model", pairs=pairs, pairs_pair=counted(pairs, "pair"))


def _test_card(test: PlanTest) -> Iterator[Card]:
    shown = change(test.measured.get(TESTED))
    if shown is None:
        return
    yield Card(
        title=say("change_of_rho", RHO=RHO),
        value=shown,
        base=say(
            "file_and_pairs",
            name=test.pairs.name,
            n_pairs_or=test.pairs.n_pairs or 0,
            or_pair=counted(test.pairs.n_pairs or 0, "pair"),
        ),
    )
