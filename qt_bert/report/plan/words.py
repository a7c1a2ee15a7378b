"""Numbers and names of a plan in words."""

from __future__ import annotations

from qt_bert.report.blocks import Badge, Interval
from qt_bert.results import Text
from qt_bert.results.numbers import interval, signed
from qt_bert.results.plan import Plan
from qt_bert.results.plan_evidence import MARGIN, Expected, Measured, PlanEvidence, Ratio, Verdict
from qt_bert.results.text import counted

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
