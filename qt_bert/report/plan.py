"""The plan of a smaller model, for whoever decides about it: the section, and `plan.html`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from qt_bert.figures import Curve
from qt_bert.files import atomic_write
from qt_bert.report.blocks import (
    Badge,
    Block,
    Cell,
    Column,
    Drawn,
    FigureBlock,
    Prose,
    Section,
    Table,
)
from qt_bert.report.page import page
from qt_bert.report.plan_offline import offline
from qt_bert.report.plan_summary import (
    MEGABYTE,
    VERDICTS,
    answer,
    change,
    expected,
    measured_on,
    metric_name,
    ratio,
    which_is_ahead,
)
from qt_bert.results.head_sets import set_words
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import (
    MARGIN,
    TESTED,
    AtRisk,
    GridRow,
    LayerEffect,
    Plan,
    PlanEvidence,
    PlanTest,
)
from qt_bert.results.probe import PairsRef, label_of
from qt_bert.run.alone import PAGE
from qt_bert.run.folder import RunFolder
from qt_bert.text import Text, counted, joined, number

# The grid of budgets: what each is expected to cost, what was measured, and what it saves.


_INSIDE = Badge(Text("在区间内", "inside"), "good")
_OUTSIDE = Badge(Text("在区间外", "outside"), "bad")


def grid(evidence: PlanEvidence) -> tuple[Block, ...]:
    """A row a budget, and how many came out as predicted."""
    if not evidence.grid:
        return ()
    where = measured_on(evidence)
    return (
        Table(
            name="plan_grid",
            title=Text("各种预算：质量、速度与大小", "Budgets: quality, speed, size"),
            columns=(
                Column("of", Text("保留", "kept")),
                Column("kept", Text("留下", "kept")),
                Column("expected", Text("预计 ρ 变化 [预测区间]", "ρ expected [prediction]")),
                Column("measured", Text("实测 ρ 变化 [95% 区间]", "ρ measured [95 % interval]")),
                Column("inside", Text("预计与实测", "as predicted?")),
                Column("latency", Text("单条延迟（倍）", "latency (×)")),
                Column("throughput", Text("批量吞吐（倍）", "throughput (×)")),
                Column("parameters", Text("参数", "parameters")),
                Column(
                    "megabytes",
                    Text("内存与磁盘（MB，float16）", "memory, disk (MB, float16)"),
                    digits=1,
                ),
            ),
            rows=tuple(map(_row, evidence.grid)),
            note=Text(
                f"都是不重新训练的结果；实测取自{where.zh}。“预计”在发现集上得出：在一半查询上选，在另一半上看，"
                "两次合并，因此不含挑中运气的成分。预测区间（95%）是新的一批查询上会量到的范围，含三份误差：估计"
                "自身的、新样本的、以及换一批查询会选出另一个计划的。延迟与吞吐是与原模型在同一次运行中交替计时"
                "之比，方括号内为 95% 区间。",
                f"All without training; measured on {where.en}. “Expected” is from discovery: chosen on one half of the queries, "
                "read on the other, both readings together, so that no luck of the draw is in it; a "
                "change on new queries should lie in the prediction interval 95 times in 100, which holds "
                "three errors: the estimate's own, the new sample's, and that other queries would have "
                "chosen another plan. Latency and throughput are "
                "ratios to the whole model, timed in turns in one run, with 95 % intervals.",
            ),
            grouped=True,
        ),
        *_how_many(evidence.grid),
    )


def _row(row: GridRow) -> tuple[Cell, ...]:
    inside = row.inside()
    speed = row.speed
    return (
        Text("部分头", "Some of the heads")
        if row.of == "heads"
        else Text("部分层", "Some of the layers"),
        f"{row.kept} ({100 * row.share:.0f} %)",
        expected(row.expected.get(TESTED)),
        change(row.measured.get(TESTED)),
        None if inside is None else _INSIDE if inside else _OUTSIDE,
        None if speed is None else ratio(speed.latency),
        None if speed is None else ratio(speed.throughput),
        row.size.parameters,
        row.size.stored / MEGABYTE,
    )


def _how_many(rows: Sequence[GridRow]) -> tuple[Block, ...]:
    known = [row for row in rows if row.inside() is not None]
    if not known:
        return ()
    outside = [row for row in known if not row.inside()]
    inside = len(known) - len(outside)
    zh = f"{len(known)} 个预算中有 {inside} 个的实测值落在预测区间内"
    en = f"{inside} of {counted(len(known), 'budget')} came out inside the prediction interval"
    if outside:
        names = [(_stays(row.of, row.kept), row) for row in outside]
        zh += "；在外面的：" + "、".join(one.zh for one, _ in names)
        en += "; outside: " + ", ".join(one.en for one, _ in names)
    return (Prose(body=Text(f"{zh}。", f"{en}.")),)


def rivals(evidence: PlanEvidence) -> tuple[Block, ...]:
    """How other ways to choose measure up, to open."""
    if not evidence.rivals:
        return ()
    where = measured_on(evidence)
    return (
        Table(
            name="plan_rivals",
            title=Text("同样的预算，换一种选法", "The same budgets, chosen in other ways"),
            columns=(
                Column("budget", Text("预算", "budget")),
                Column("way", Text("怎样选", "way")),
                Column("change", Text("ρ 的变化 [95% 区间]", "change of ρ [95 % interval]")),
                Column(
                    "ahead", Text("本计划高出 [95% 区间]", "this plan ahead by [95 % interval]")
                ),
            ),
            rows=tuple(
                (_stays(one.of, one.kept), one.name, change(one.measured), change(one.ahead))
                for one in sorted(evidence.rivals, key=lambda one: (one.of, -one.kept))
            ),
            note=Text(
                f"在{where.zh}上实测，不重新训练；与本计划的差按查询配对。",
                f"Measured on {where.en}, without training; differences are paired over queries.",
            ),
            grouped=True,
            folded=True,
        ),
    )


def _stays(of: str, kept: int) -> Text:
    if of == "heads":
        return Text(f"保留 {kept} 个头", f"{counted(kept, 'head')} kept")
    return Text(f"保留 {kept} 层", f"{counted(kept, 'layer')} kept")


# Which heads go, what they do, and what is at risk.


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
            folded=True,
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
            folded=True,
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


# Which layers stay, what each is worth, and which a student's layers imitate.


def layer_map(plan: Plan) -> tuple[Block, ...]:
    """A row a layer of the smaller model."""
    kept = {one.layer: one for one in plan.kept}
    return (
        Table(
            name="plan_layer_map",
            title=Text("层的对应：学生与老师", "Layer map: student and teacher"),
            columns=(
                Column("student", Text("小模型的层", "layer of the student")),
                Column("starts", Text("取自老师的层", "starts as teacher's")),
                Column("imitates", Text("蒸馏时模仿其输出", "imitates the output of")),
                Column("heads", Text("头数", "heads")),
                Column("which", Text("留下的头", "heads that stay"), whole=True),
                Column("units", Text("前馈单元", "feed-forward units")),
            ),
            rows=tuple(
                (
                    f"L{one.student}",
                    f"L{one.starts_as}",
                    f"L{one.imitates}",
                    len(kept[one.starts_as].heads),
                    _heads(kept[one.starts_as], plan.teacher.heads),
                    kept[one.starts_as].units or plan.teacher.units,
                )
                for one in plan.layer_map
            ),
            note=Text(
                "蒸馏时，小模型的每一层从老师的这一层开始，模仿老师下一个保留层之前那一层的输出；最后一层模仿最后一层。",
                "When distilling, each layer starts as this layer of the teacher and imitates the "
                "output of the one just before the teacher's next layer that stays; the last imitates the last.",
            ),
            folded=True,
        ),
    )


def _heads(kept: KeptLayer, heads: int) -> Text | str:
    if len(kept.heads) == heads:
        return Text("全部", "all")
    return " ".join(f"H{head}" for head in kept.heads) or Text("无", "none")


def layer_effects(effects: tuple[LayerEffect, ...]) -> tuple[Block, ...]:
    """What leaving out each layer costs, and the turn in which it would go."""
    if not effects:
        return ()
    return (
        Table(
            name="plan_layer_effects",
            title=Text("去掉一层的代价", "What leaving out a layer costs"),
            columns=(
                Column("layer", Text("层", "layer")),
                Column(
                    "heads",
                    Text("只去掉它的头，损失增加", "loss added without its heads"),
                    digits=4,
                ),
                Column(
                    "block", Text("去掉整层，损失增加", "loss added without all of it"), digits=4
                ),
                Column("turn", Text("第几个去掉", "turn to go")),
            ),
            rows=tuple(map(_layer_row, effects)),
            note=Text(
                "在发现集上，每次只去掉一层；整层去掉时，输入原样传到下一层。“第几个去掉”是一层一层地去、每次重新"
                "测量得到的顺序。",
                "On discovery, one layer at a time; without all of a layer its input is passed on as it "
                "is. The turns come from taking out one layer after the other, measured anew each time.",
            ),
            folded=True,
        ),
    )


def _layer_row(one: LayerEffect) -> tuple[Cell, ...]:
    return (f"L{one.layer}", one.heads, one.block, one.turn)


# The one plan on pairs that took no part in choosing it.


_ROLES = {
    "validation": Text("验证集", "validation"),
    "held out": Text("另备的文件", "held out"),
}
_ONE_LOGIT = Text(
    "这个模型只有一个输出：ρ 是与原模型分数的等级相关，不是与标签的。",
    "This model has one output: ρ is the rank correlation with the whole model's score, not with labels.",
)
_COARSE = Text("（粗标签）", " (coarse labels)")


def tests(evidence: PlanEvidence) -> tuple[Block, ...]:
    """Every metric on every file, and the verdict of the test."""
    if not evidence.tests:
        return ()
    return (
        Table(
            name="plan_tests",
            title=Text("这一个计划的检验", "The one plan, tested"),
            columns=(
                Column("file", Text("文件", "file")),
                Column("metric", Text("指标", "metric")),
                Column("whole", Text("原模型", "whole model")),
                Column("smaller", Text("小模型", "smaller")),
                Column("change", Text("变化 [95% 区间]", "change [95 % interval]")),
                Column("verdict", Text("判定", "verdict")),
                Column("pairs", Text("对数", "pairs")),
                Column("queries", Text("查询数", "queries")),
            ),
            rows=tuple(row for test in evidence.tests for row in _rows(test)),
            note=_note(evidence),
            grouped=True,
        ),
    )


def _note(evidence: PlanEvidence) -> Text:
    """How to read the tests, with what ρ means of one logit and the least loss that would show."""
    one_logit = any("pairwise_accuracy" in test.measured for test in evidence.tests)
    return joined(
        (
            Text(
                "在发现集上选，在这里只检验选定的一个；权重已真正去掉，未重新训练。判定看 Spearman ρ：变化的"
                f"区间下端高于 −{MARGIN} 为不差于原模型，整个区间低于它为变差。其余指标仅供对照。",
                "Chosen on discovery; here only the one plan is tested, its weights really removed, "
                "without training. The verdict is that of Spearman's ρ: no worse where the lower end "
                f"of the interval lies above −{MARGIN}, worse where all of it lies below. The other "
                "metrics stand beside it.",
            ),
            *(_reach(test) for test in evidence.tests[:1]),
            *([_ONE_LOGIT] if one_logit else []),
        )
    )


def _reach(test: PlanTest) -> Text:
    """Which change of ρ the first file could tell from none; see half its interval."""
    found = test.measured.get(TESTED)
    if found is None or found.ci_low is None or found.ci_high is None:
        return Text("", "")
    half = number((found.ci_high - found.ci_low) / 2)
    return Text(
        f"在 {test.pairs.name} 上，ρ 的变化要超过约 {half} 才看得出来（区间的半宽）。",
        f"On {test.pairs.name} a change of ρ must exceed about {half} to be seen (half the interval).",
    )


def _rows(test: PlanTest) -> Iterator[tuple[Cell, ...]]:
    role, coarse = _ROLES[test.role], _COARSE if test.coarse else Text("", "")
    name = Text(
        f"{test.pairs.name} · {role.zh}{coarse.zh}", f"{test.pairs.name} · {role.en}{coarse.en}"
    )
    for metric, one in test.measured.items():
        verdict = test.verdict if metric == TESTED else None
        yield (
            name,
            metric_name(metric),
            one.base,
            one.value,
            change(one),
            None if verdict is None else VERDICTS[verdict],
            test.pairs.n_pairs,
            test.pairs.n_queries,
        )


# The section of a plan, from its file.


def read_plan(folder: RunFolder) -> Plan | None:
    """The plan of a run, or None where it has none, or has it not yet."""
    stage, path = folder.record.stages.get("plan"), folder.file("plan/plan.json")
    if stage is None or stage.status != "done" or not path.is_file():
        return None
    return Plan.read(path)


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
        *harm(evidence),
        *offline(plan.offline),
        _sample(plan, evidence),
    )


def _sample(plan: Plan, evidence: PlanEvidence) -> Block:
    quick = evidence.profile == "quick"
    stands = Text(
        "零" if plan.replacement == "zero" else "平均上下文",
        "nothing" if plan.replacement == "zero" else "its mean head output",
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


TITLE = Text("缩小模型的计划", "The plan of a smaller model")
_HEADING = Text("缩小相关性模型的计划", "Plan of a smaller relevance model")
_FOOTER = Text(
    "由 qt_bert 生成。同样的数字在 plan.json 中。",
    "Made by qt_bert. The same numbers stand in plan.json.",
)


def render_plan(out: Path) -> Path:
    """Draw `plan.html` beside the `plan.json` of the folder `out`; return its path.

    Raises RunFolderError where the folder holds no plan of this program.
    """
    folder = RunFolder.read(out)
    blocks = plan_blocks(Plan.read(folder.file("plan.json")))
    section = Section(name="plan", order=0, title=TITLE, build=lambda _: blocks)
    target = folder.file(PAGE)
    with atomic_write(target) as temporary:
        drawn = page(folder.record, (), [Drawn(section, blocks)], heading=_HEADING, footer=_FOOTER)
        temporary.write_text(drawn, encoding="utf-8")
    return target
