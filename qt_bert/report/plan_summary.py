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
from qt_bert.text import Text, counted, interval, joined, listed, number, signed

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
    stays = []
    if len(plan.kept) < teacher.layers:
        stays.append(say("layers_stay", kept=len(plan.kept), layers=teacher.layers))
    if heads < there:
        of_those = len(plan.kept) < teacher.layers
        name = "heads_of_those_stay" if of_those else "heads_of_all_stay"
        stays.append(say(name, kept=heads, heads=there))
    units = {one.units for one in plan.kept} - {None, teacher.units}
    if units:
        shown = "/".join(f"{one:,}" for one in sorted(filter(None, units)))
        stays.append(say("units_stay", kept=shown, units=teacher.units))
    return listed(stays)


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
    share = f"{100 * evidence.size.share:.0f}"
    said = [say("plan_keeps", asked=plan.budget.asked, stays=what_stays(plan), share=share)]
    if evidence.speed is not None:
        latency = number(evidence.speed.latency.value, 2)
        rate = number(evidence.speed.throughput.value, 2)
        said.append(say("plan_speed", latency=latency, rate=rate))
        if plan.budget.kind_of == "latency" and evidence.speed.latency.value > plan.budget.value:
            said.append(say("plan_over_budget"))
    return say("sentence", said=listed(said, "", ""))


def _costs(evidence: PlanEvidence) -> Iterator[Text]:
    validation = next((one for one in evidence.tests if one.role == "validation"), None)
    found = None if validation is None else validation.measured.get(TESTED)
    if validation is None or found is None:
        yield say("spearman_s_not_defined")
        return
    shown, verdict = change_in_words(found), validation.verdict
    awaited = _awaited(evidence.expected.get(TESTED))
    cost = say("plan_costs", rho=RHO, shown=shown, awaited=awaited)
    if verdict is not None:
        cost = say("plan_costs_judged", cost=cost, follows=meaning(verdict))
    yield say("sentence", said=cost)


def _awaited(one: Expected | None) -> Text:
    """What was expected beforehand, in brackets."""
    if one is None:
        return Text("", "")
    value, ends = signed(one.value), interval(one.pi_low, one.pi_high)
    name = "expected_within" if ends else "expected_at"
    return say(name, value=value, ends=ends)


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
