"""Which heads go, what they do, and what is at risk."""

from __future__ import annotations

from qt_bert.report.blocks import Block, Cell, Column, Prose, Table
from qt_bert.report.plan.words import change, measured_on, metric_name, which_is_ahead
from qt_bert.results import Text
from qt_bert.results.head_sets import set_words
from qt_bert.results.plan import Plan
from qt_bert.results.plan_evidence import AtRisk, PlanEvidence
from qt_bert.results.stability import label_of
from qt_bert.results.text import counted

_SOURCES = {
    "run": Text("功能取自同一次运行的探针。", "The functions are those of this run's probes."),
    "heads.json": Text(
        "功能取自模型旁的 heads.json。", "The functions are those of heads.json beside the model."
    ),
}
_NOT_STUDIED = Text(
    "这个模型的头没有研究过，因此不知道去掉的头有什么功能；先运行 `qt-bert report`，再用 --run 指向它的文件夹。",
    "This model's heads were not studied, so nothing is known of what those that go do; run `qt-bert "
    "report` first, and give its folder with --run.",
)


def at_risk(evidence: PlanEvidence) -> tuple[Block, ...]:
    """The functions whose heads are lost."""
    if evidence.functions == "none":
        return (Prose(title=Text("有风险的功能", "What is at risk"), body=_NOT_STUDIED),)
    if not evidence.at_risk:
        return ()
    source, where = _SOURCES[evidence.functions], measured_on(evidence)
    return (
        Table(
            name="plan_at_risk",
            title=Text("有风险的功能", "What is at risk"),
            columns=(
                Column("set", Text("哪些头", "heads")),
                Column("does", Text("做什么", "what they do")),
                Column("lost", Text("去掉", "lost")),
                Column("of", Text("共有", "of")),
                Column("change", Text("单去掉这些，ρ 的变化", "ρ without these alone")),
                Column("which", Text("去掉的头", "which go"), whole=True),
            ),
            rows=tuple(map(_risk_row, evidence.at_risk)),
            note=Text(
                f"{source.zh}“ρ 的变化”是只去掉这一组里被去掉的头时，在{where.zh}上的实测值。",
                f"{source.en} ρ's change is measured on {where.en} with only the lost heads of the "
                "set left out.",
            ),
        ),
    )


def _risk_row(one: AtRisk) -> tuple[Cell, ...]:
    return (
        label_of(one.name, unstable=one.unstable),
        set_words(one.name).does,
        len(one.lost),
        len(one.heads),
        change(one.measured),
        " ".join(one.lost) or None,
    )


def rule_of_thumb(plan: Plan, evidence: PlanEvidence) -> tuple[Block, ...]:
    """What the article's rule would have kept, and how it measures up."""
    rule = evidence.rule
    if rule is None:
        return ()
    kept = {one.layer: len(one.heads) for one in plan.kept}
    ours = tuple(kept.get(layer, 0) for layer in range(plan.teacher.layers))
    rows: tuple[tuple[Cell, ...], ...] = (
        (Text("本计划", "This plan"), change(rule.chosen), *ours),
        (
            Text("保留低层（文章）", "Low layers kept (the article)"),
            change(rule.measured),
            *rule.kept,
        ),
    )
    ahead, where = which_is_ahead(rule.ahead), measured_on(evidence)
    return (
        Table(
            name="plan_rule",
            title=Text("文章的经验法则会怎样选", "What the article's rule of thumb would keep"),
            columns=(
                Column("way", Text("怎样选", "way")),
                Column("change", Text("ρ 的变化 [95% 区间]", "change of ρ [95 % interval]")),
                *(Column(f"L{layer}", f"L{layer}") for layer in range(len(ours))),
            ),
            rows=rows,
            note=Text(
                "文章（2.1）：蒸馏时多保留低层的头。这里取它最强的读法：从最高层去起，同一层内随机。数字是每层保留的"
                f"头数；在同样大小下，在{where.zh}上实测，不重新训练。{ahead.zh}。",
                "The article (2.1): when distilling, keep more of the low layers' heads. It is taken at "
                "its strongest: the highest layers go first, at random within one. The numbers are "
                f"heads kept in each layer; measured on {where.en} at the same size, without training. "
                f"{ahead.en}.",
            ),
        ),
    )


def harm(evidence: PlanEvidence) -> tuple[Block, ...]:
    """Heads without which the model does better."""
    found = evidence.harm
    if found is None:
        return ()
    queries = evidence.discovery.n_queries or 0
    title = Text("有害的头", "Heads that harm")
    if not found.heads:
        return (
            Prose(
                title=title,
                body=Text(
                    f"在发现集的 {queries:,} 个查询上，没有查出单独去掉后模型显著变好的头（对全部头 q < 0.05）。"
                    "查询越少，越小的害处越查不出来。",
                    f"On the {counted(queries, 'query', 'queries')} of discovery no single head was found "
                    "without which the model does significantly better (q < 0.05 over all heads). The "
                    "fewer the queries, the larger a harm must be to be seen.",
                ),
            ),
        )
    confirmed = [one.head for one in found.heads if one.confirmed]
    shown = " ".join(confirmed) or "—"
    count, metric = len(found.heads), metric_name(found.metric)
    return (
        Table(
            name="plan_harm",
            title=title,
            columns=(
                Column("head", Text("头", "head")),
                Column("discovery", Text("发现集上变好", "gain on discovery"), digits=4),
                Column("validation", Text("验证集上变好", "gain on validation"), digits=4),
                Column("confirmed", Text("证实", "confirmed")),
            ),
            rows=tuple(
                (
                    one.head,
                    one.discovery,
                    one.validation,
                    Text("是", "yes") if one.confirmed else Text("否", "no"),
                )
                for one in found.heads
            ),
            note=Text(
                f"按{metric.zh}，在发现集上有 {count} 个候选（对全部头 q < 0.05），验证集上证实：{shown}。",
                f"By {metric.en}: {counted(count, 'candidate')} on discovery (q < 0.05 over all "
                f"heads); confirmed on validation: {shown}.",
            ),
            folded=count > 12,
        ),
    )
