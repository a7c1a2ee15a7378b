"""The report's sections, in one list; the small ones whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from qt_bert.probes.wording import ClaimInWords, claims_in_words
from qt_bert.report.blocks import Block, Card, Cell, Column, Prose, Section, Table
from qt_bert.report.comparison import (
    beside,
    both_behaviours,
    both_findings,
    headline_bars,
    metrics_table,
    models,
    most_different,
    names,
    read_compared,
    read_compared_probes,
    read_comparison,
)
from qt_bert.report.evaluation import (
    confusion,
    confusion_counts,
    examples,
    in_one_line,
    judged,
    learning_curves,
    metrics,
    per_grade,
    read_evaluation,
    reliability,
    resolution,
    slices,
    summary_cards,
    worst_errors,
)
from qt_bert.report.plan import TITLE, plan_blocks
from qt_bert.report.probes import (
    anchor_of,
    atlas,
    badge,
    headlines,
    measured,
    probe_blocks,
    read_probes,
    source_value,
    tally,
    title_of,
)
from qt_bert.results.plan import Plan
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import RunFolder
from qt_bert.text import Text, plain


def _build_atlas(folder: RunFolder) -> Sequence[Block] | None:
    blocks = list(atlas(read_probes(folder)))
    comparison = read_comparison(folder)
    if comparison is not None:
        _, other = names(comparison)
        blocks += atlas(read_compared_probes(folder), "_b", other)
    return blocks or None


ATLAS = Section(
    name="atlas", order=50, title=Text("注意力头图谱", "Head atlas"), build=_build_atlas
)


def _build_comparison(folder: RunFolder) -> Sequence[Block] | None:
    comparison = read_comparison(folder)
    a, b = read_evaluation(folder), read_compared(folder)
    if comparison is None or a is None or b is None:
        return None
    first, second = read_probes(folder), read_compared_probes(folder)
    return (
        models(comparison),
        metrics_table(comparison, b),
        *headline_bars(comparison, a, b),
        *both_behaviours(comparison, first, second),
        *both_findings(comparison, first, second),
        *most_different(comparison),
    )


COMPARISON = Section(
    name="comparison",
    order=20,
    title=Text("两个模型的比较", "Two models compared"),
    build=_build_comparison,
)


# How well the model grades.


def _build_evaluation(folder: RunFolder) -> Sequence[Block] | None:
    evaluation = read_evaluation(folder)
    if evaluation is None:
        return None
    return (
        *judged(evaluation, folder.record),
        *examples(evaluation),
        metrics(evaluation),
        *resolution(evaluation),
        *confusion(evaluation),
        *reliability(evaluation),
        *confusion_counts(evaluation),
        *per_grade(evaluation),
        *slices(evaluation),
        *worst_errors(evaluation),
        *learning_curves(evaluation),
    )


def _cards(folder: RunFolder) -> Sequence[Card]:
    evaluation = read_evaluation(folder)
    return () if evaluation is None else summary_cards(evaluation)


EVALUATION = Section(
    name="evaluation",
    order=10,
    title=Text("评测", "Evaluation"),
    build=_build_evaluation,
    cards=_cards,
)


# What was claimed, what was found, and what follows.


_COLUMNS = (
    Column("probe", Text("探针", "probe")),
    Column("claim", Text("说法", "claim")),
    Column("verdict", Text("判定", "verdict")),
    Column("value", Text("本次结果 [95% 区间]", "measured [95 % interval]")),
    Column("margin", Text("界限", "margin")),
    Column("source", Text("原文数值", "article's figure"), optional=True),
    Column("conclusion", Text("可以得出", "what follows"), whole=True),
    Column("p", "p", digits=4, least=True),
    Column("q", "q", digits=4, least=True),
)
_NOTE = Text(
    "头在一部分查询上选出，说法在另一部分查询上检验。“成立”要求 95% 区间整个越过事先定下的界限且相对界限的 p < 0.05；"
    "“不成立”要求区间整个落在同一界限的另一侧；其余为“未定”。与随机头组比较的说法看名次：随机组中做到同样程度的不超过 5%。"
    "判定依据各自的 p；q 按 Benjamini–Hochberg 法在本报告的全部说法上计算，仅供对照。原文的数值仅供对照，不要求一致。",
    "Heads are chosen on one part of the queries, claims tested on the other. “Reproduced” asks "
    "that the 95 % interval lie wholly beyond a margin fixed beforehand, with p < 0.05 against the "
    "margin; “not reproduced” that it lie wholly on the margin's other side; all else is "
    "inconclusive. Where heads are compared with random sets, at most 5 % of these may do as much. "
    "Verdicts rest on each claim's own p; q is by Benjamini and Hochberg over all claims of this "
    "report and stands beside it. The article's figure is shown, and need not be met.",
)


def _build_findings(folder: RunFolder) -> Sequence[Block] | None:
    claims = [
        (title_of(result), said)
        for result in read_probes(folder)
        for said in claims_in_words(result)
    ]
    if not claims:
        return None
    table = Table(
        name="findings",
        title=Text("说法、结果与判定", "Claims, results, verdicts"),
        columns=_COLUMNS,
        rows=tuple(_row(title, said) for title, said in claims),
        note=_NOTE,
        grouped=True,
    )
    return (Prose(body=tally([said for _, said in claims])), table)


def _row(title: Text, said: ClaimInWords) -> tuple[Cell, ...]:
    return (
        title,
        said.text,
        badge(said),
        measured(said),
        said.margin,
        source_value(said.claim.source),
        said.conclusion,
        said.claim.p,
        said.claim.q,
    )


FINDINGS = Section(
    name="findings", order=5, title=Text("结论一览", "Findings"), build=_build_findings
)


def _build_model_card(folder: RunFolder) -> Sequence[Block] | None:
    evaluation = read_evaluation(folder)
    if evaluation is None or not evaluation.card:
        return None
    return (Prose(body=evaluation.card, preformatted=True),)


MODEL_CARD = Section(
    name="model_card", order=900, title=Text("模型卡片", "Model card"), build=_build_model_card
)


def _build_plan(folder: RunFolder) -> Sequence[Block] | None:
    stage = folder.record.stages.get("plan")
    path = folder.file("plan/plan.json")
    if stage is None or stage.status != "done" or not path.is_file():
        return None
    return plan_blocks(Plan.read(path))


PLAN = Section(name="plan", order=60, title=TITLE, build=_build_plan)


_AFTER_EVALUATION = 100


def probe_sections(folder: RunFolder) -> tuple[Section, ...]:
    """A section for each result that is there."""
    return tuple(_probe_section(result, place) for place, result in enumerate(read_probes(folder)))


def _probe_section(result: ProbeResult, place: int) -> Section:
    def build(folder: RunFolder) -> Sequence[Block]:
        return probe_blocks(result)

    return Section(
        name=anchor_of(result),
        order=_AFTER_EVALUATION + place,
        title=title_of(result),
        build=build,
    )


# How this report came about: stages, times, arguments, versions, checks.


_STATES = {
    "done": Text("完成", "done"),
    "running": Text("中断", "interrupted"),
    "pending": Text("未运行", "not run"),
}


def _build_run(folder: RunFolder) -> Sequence[Block]:
    record = folder.record
    stages = Table(
        name="stages",
        title=Text("各阶段", "Stages"),
        columns=(
            Column("stage", Text("阶段", "stage")),
            Column("status", Text("状态", "status")),
            Column("seconds", Text("用时（秒）", "time (s)"), digits=1),
        ),
        rows=tuple((n, _STATES[s.status], s.seconds) for n, s in record.stages.items()),
    )
    facts = [
        *(("argument", name, value) for name, value in record.inputs.arguments.items()),
        ("argument", "segmenter", record.inputs.segmenter),
        *(("version", name, value) for name, value in record.versions.items()),
        ("version", "source SHA-256", record.source),
        *(("guard", name, value) for name, value in record.guards.items()),
    ]
    return (stages, _facts(facts))


def _facts(facts: Iterable[tuple[str, str, Any]]) -> Table:
    groups = {
        "argument": Text("参数", "Arguments"),
        "version": Text("版本", "Versions"),
        "guard": Text("自检", "Equivalence checks"),
    }
    return Table(
        name="run",
        title=Text("参数、版本与自检", "Arguments, versions, equivalence checks"),
        columns=(
            Column("group", Text("类别", "group")),
            Column("name", Text("名称", "name")),
            Column("value", Text("值", "value")),
        ),
        rows=tuple((groups[group], name, plain(value)) for group, name, value in facts),
        grouped=True,
        folded=True,
    )


RUN = Section(name="run", order=950, title=Text("本次运行", "This run"), build=_build_run)


def _build_summary(folder: RunFolder) -> Sequence[Block] | None:
    evaluation, comparison = read_evaluation(folder), read_comparison(folder)
    blocks: list[Block] = []
    if evaluation is not None:
        blocks.append(Prose(body=in_one_line(evaluation)))
    if comparison is not None:
        blocks.append(Prose(body=beside(comparison)))
    blocks += headlines(read_probes(folder))
    return blocks or None


SUMMARY = Section(name="summary", order=0, title=Text("摘要", "Summary"), build=_build_summary)


SECTIONS = (SUMMARY, EVALUATION, COMPARISON, FINDINGS, ATLAS, PLAN, MODEL_CARD, RUN)


def sections(folder: RunFolder) -> tuple[Section, ...]:
    """All sections of this run, in the order of the page."""
    found = (*SECTIONS, *probe_sections(folder))
    return tuple(sorted(found, key=lambda section: (section.order, section.name)))
