"""The section of a plan, from its file."""

from __future__ import annotations

from qt_bert.report.blocks import Block, FigureBlock, Prose
from qt_bert.report.plan.answer import answer
from qt_bert.report.plan.grid import grid, rivals
from qt_bert.report.plan.heads import at_risk, harm, rule_of_thumb
from qt_bert.report.plan.layers import layer_effects, layer_map
from qt_bert.report.plan.offline import offline
from qt_bert.report.plan.tests import tests
from qt_bert.results import Curve, Text
from qt_bert.results.plan import Plan
from qt_bert.results.plan_evidence import PlanEvidence
from qt_bert.results.probe import PairsRef


def plan_blocks(plan: Plan) -> tuple[Block, ...]:
    """The answer, its tests, the grid with its curves, heads, risks, layers, titles, what all rests on."""
    evidence = plan.evidence
    if evidence is None:
        return layer_map(plan)
    curves = [one for one in evidence.figures if isinstance(one, Curve)]
    maps = [one for one in evidence.figures if not isinstance(one, Curve)]
    return (
        *answer(plan, evidence),
        *tests(evidence),
        *grid(evidence),
        *(FigureBlock(figure=figure) for figure in curves),
        *rivals(evidence),
        *(FigureBlock(figure=figure) for figure in maps),
        *at_risk(evidence),
        *rule_of_thumb(plan, evidence),
        *layer_map(plan),
        *layer_effects(evidence.layers),
        *offline(plan.offline),
        *harm(evidence),
        _sample(plan, evidence),
    )


def _sample(plan: Plan, evidence: PlanEvidence) -> Block:
    quick = evidence.profile == "quick"
    stands = Text(
        "零" if plan.replacement == "zero" else "平均上下文",
        "nothing" if plan.replacement == "zero" else "its mean context",
    )
    zh = f"在 {_of(evidence.discovery, 'zh')}上选，在 {_of(evidence.validation, 'zh')}上检验；"
    zh += f"去掉的头换成{stands.zh}。"
    en = f"Chosen on {_of(evidence.discovery, 'en')}, tested on {_of(evidence.validation, 'en')}; "
    en += f"{stands.en} stands in for a head that goes."
    if evidence.cost is not None:
        zh += f"选头用了 {evidence.cost:.1f} 次“逐个去掉每个头”的工作量。"
        en += f" Choosing the heads took {evidence.cost:.1f} times leaving out every single head."
    if quick:
        zh += "这是快速档：选头和选层只用了一部分样本，区间较宽；--full 用全部数据。"
        en += (
            " This is the quick profile: heads and layers were chosen on a sample, and intervals are "
            "wide; --full takes all pairs."
        )
    return Prose(title=Text("样本", "Sample"), body=Text(zh, en))


def _of(pairs: PairsRef, language: str) -> str:
    count, queries = pairs.n_pairs or 0, pairs.n_queries or 0
    if language == "zh":
        return f"{pairs.name} 的 {count:,} 对（{queries:,} 个查询）"
    return f"{count:,} pairs of {pairs.name} ({queries:,} queries)"
