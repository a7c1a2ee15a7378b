"""What was judged: model, pairs and the run's profile."""

from __future__ import annotations

from qt_bert.report.blocks import Block, Cell, Column, Prose, Table
from qt_bert.results import EvaluationResult, Text
from qt_bert.results.numbers import shortest
from qt_bert.study import RunRecord


def judged(evaluation: EvaluationResult, record: RunRecord) -> tuple[Block, ...]:
    """One sentence on model and pairs, and a table of their sizes and hashes to open."""
    model, pairs = evaluation.model, evaluation.pairs
    shape = (f"{model.layers}", f"{model.heads}", shortest(model.parameters / 1e6))
    lead = Text(
        f"模型 {model.name}（{shape[0]} 层 × {shape[1]} 头，{shape[2]} 百万参数）"
        f"为 {pairs.name} 的 {pairs.n_pairs:,} 个查询–标题对（{pairs.n_queries:,} 个查询）打分，"
        "与标注比较。",
        f"The model {model.name} ({shape[0]} layers × {shape[1]} heads, {shape[2]} million "
        f"parameters) grades the {pairs.n_pairs:,} query–title pairs ({pairs.n_queries:,} queries) "
        f"of {pairs.name}; its grades are set against the labels.",
    )
    return (
        Prose(title=Text("评的是什么", "What was judged"), body=lead),
        _facts(evaluation, record),
    )


def _facts(evaluation: EvaluationResult, record: RunRecord) -> Table:
    model, pairs = evaluation.model, evaluation.pairs
    shape = f"{model.layers} × {model.heads} × {model.hidden}"
    facts: list[tuple[Text, Cell]] = [
        (Text("模型", "Model"), model.name),
        (Text("层 × 头 × 维度", "Layers × heads × width"), shape),
        (Text("参数量", "Parameters"), model.parameters),
        (Text("最大长度（词元）", "Maximum length (tokens)"), model.max_length),
        (Text("数值类型", "Number type"), model.dtype),
        (Text("模型权重 SHA-256", "Weights SHA-256"), model.sha256),
        (Text("数据文件", "File of pairs"), pairs.name),
        (Text("查询–标题对", "Query–title pairs"), pairs.n_pairs),
        (Text("不同的查询", "Distinct queries"), pairs.n_queries),
        (Text("被截断的标题", "Truncated titles"), evaluation.truncated_titles),
        (Text("数据 SHA-256", "Pairs SHA-256"), pairs.sha256),
    ]
    if profile := record.inputs.arguments.get("profile"):
        facts.append((Text("运行档位", "Profile"), str(profile)))
    return Table(
        name="judged",
        title=Text("模型与数据的大小和哈希", "Sizes and hashes of model and pairs"),
        columns=(Column("what", Text("项目", "item")), Column("value", Text("值", "value"))),
        rows=tuple(facts),
        folded=True,
    )
