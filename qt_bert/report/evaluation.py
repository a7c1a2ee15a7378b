"""How well the model grades: the parts of the section `evaluation`."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TypeVar

from qt_bert.report.blocks import (
    Block,
    Card,
    Cell,
    Column,
    Example,
    Examples,
    FigureBlock,
    Interval,
    Moved,
    Table,
)
from qt_bert.report.words import say
from qt_bert.results.evaluation import (
    EvaluationResult,
    Grade,
    GradedPair,
    MetricDescription,
    MetricValue,
    Reason,
    confusion_map,
    reliability_curve,
)
from qt_bert.run.folder import RunFolder, RunRecord
from qt_bert.text import MISSING, Label, Text, clip, counted, interval, joined, number


def read_evaluation(folder: RunFolder) -> EvaluationResult | None:
    """The run's `evaluation.json`, or `None` where it is not written yet."""
    path = folder.file("evaluation.json")
    return EvaluationResult.read(path) if path.is_file() else None


# The metrics' names and groups on the page.


M = TypeVar("M")

GROUPS: dict[str, tuple[Text, tuple[str, ...]]] = {
    "class": (Text("分类", "Classes"), ("accuracy", "macro_f1")),
    "ordinal": (
        Text("有序等级", "Ordered grades"),
        ("qwk", "mae", "macro_mae", "within_one", "bias", "far_errors"),
    ),
    "ranking": (
        Text("排序", "Ranking"),
        (
            *(f"ndcg_at_{k}" for k in (1, 3, 5, 10)),
            *(f"ndcg_linear_at_{k}" for k in (1, 3, 5, 10)),
            "pnr",
            "pairwise_accuracy",
            "auc",
            "spearman",
        ),
    ),
    "calibration": (Text("概率校准", "Calibration"), ("ece", "brier", "nll")),
}
_OTHER = Text("其他", "Other")

HEADLINES = {
    "accuracy": Text("准确率", "Accuracy"),
    "qwk": Text("QWK（二次加权 κ）", "QWK (weighted κ)"),
    "spearman": Text("Spearman ρ", "Spearman ρ"),
    "ndcg_at_5": Text("NDCG@5", "NDCG@5"),
}
_OF_AN_ORDER = {"pairwise_accuracy": Text("成对准确率", "Pairwise accuracy")}


def headlines(known: Container[str]) -> dict[str, Text]:
    """The headline metrics among the `known` ones, with their names.

    A model that gives an order and no grades is judged by pairwise accuracy in accuracy's place.
    """
    names = HEADLINES if "accuracy" in known else _OF_AN_ORDER | HEADLINES
    return {name: title for name, title in names.items() if name in known}


def with_value(evaluation: EvaluationResult) -> set[str]:
    """The metrics that this evaluation holds a value of."""
    return {name for name, metric in evaluation.metrics.items() if metric.value is not None}


def metric_title(evaluation: EvaluationResult, name: str) -> Label:
    """The metric's display name: the caller's, else ours, else its identifier."""
    described = evaluation.descriptions.get(name)
    if described is not None and described.title is not None:
        return described.title
    return HEADLINES.get(name, name)


def grouped_metrics(evaluation: EvaluationResult) -> list[tuple[Text, str, MetricValue]]:
    """(group, name, value) of every metric there is, in the page's order."""
    return in_groups(evaluation.metrics)


def in_groups(values: Mapping[str, M]) -> list[tuple[Text, str, M]]:
    """(group, name, value) of what is known by metric, in the page's order."""
    known = [(title, name) for title, names in GROUPS.values() for name in names]
    others = [(_OTHER, name) for name in values.keys() - {name for _, name in known}]
    ordered = known + sorted(others, key=lambda pair: pair[1])
    return [(title, name, values[name]) for title, name in ordered if name in values]


def as_interval(metric: MetricValue) -> Interval:
    """The metric's value with its interval."""
    return Interval(value=metric.value, low=metric.ci_low, high=metric.ci_high)


def base(metric: MetricValue) -> Text:
    """What the value rests on: pairs, and eligible queries where it ranks titles."""
    if metric.value is None and metric.reason:
        return Text(f"无：{metric.reason}", f"none: {metric.reason}")
    zh, en = [], []
    if metric.n is not None:
        zh.append(f"{metric.n:,} 对")
        en.append(f"{metric.n:,} pairs")
    if metric.n_eligible is not None and metric.n_queries is not None:
        zh.append(f"{metric.n_eligible:,}/{metric.n_queries:,} 个查询可评")
        en.append(f"{metric.n_eligible:,}/{metric.n_queries:,} queries eligible")
    return Text(" · ".join(zh), " · ".join(en))


# Single pairs: some to see what the model does, and those it graded worst.


_SHOWN, _TERMS_SHOWN, _WORST = 6, 4, 10
_SIDES = {"query": Text("查询", "query"), "title": Text("标题", "title")}
_GRADED = (
    Column("predicted_grade", Text("预测", "predicted")),
    Column("expected_grade", Text("期望等级", "expected grade"), digits=2),
)
_SCORE = Column("score", Text("分数", "score"))


def examples(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The first pairs of the evaluation's examples with their grade distributions."""
    chosen = evaluation.examples[:_SHOWN]
    if not chosen:
        return ()
    graded = any(pair.score is None for pair in chosen)
    return (
        Examples(
            title=Text("模型怎样打分", "What the model does"),
            note=joined([_bars(len(chosen)) if graded else _scores(len(chosen)), _reasons(chosen)]),
            examples=tuple(_example(pair, evaluation.levels) for pair in chosen),
        ),
    )


def _bars(n: int) -> Text:
    return Text(
        f"{n} 个样例：每条横杠是模型给该等级的概率（%）；框住的等级是标注，期望等级为 Σ 等级 × 概率。",
        f"{counted(n, 'example')}: each bar is the model's probability for a grade (%); the outlined "
        "grade is the label, the expected grade is Σ grade × probability.",
    )


def _scores(n: int) -> Text:
    return Text(
        f"{n} 个样例：模型只给一个分数，没有等级；分数只用来排序。",
        f"{counted(n, 'example')}: the model gives one score and no grade; scores only rank.",
    )


def _reasons(pairs: Sequence[GradedPair]) -> Text:
    """How terms and heads were tried out; nothing where they were not."""
    told = [pair.reason for pair in pairs if pair.reason]
    if not told:
        return Text("", "")
    filler, n = told[0].filler, sum(bool(one.carried_by) for one in told)
    zh = f"词的变化：把这个词的每个词元换成 {filler}，长度不变；只列最大的 {_TERMS_SHOWN} 个。"
    en = (
        f"Change by a term: {filler} stands for each of its tokens, so that the length stays; the "
        f"largest {_TERMS_SHOWN} are shown."
    )
    if n:
        zh += f"其中 {n} 例还逐个把头的输出换回原样，列出换回最多的头（各头的份额不能相加）。"
        en += (
            f" For {counted(n, 'example')} heads were put back one at a time as they are in the whole "
            "pair; those that restore most are named (shares do not add up)."
        )
    return Text(zh, en)


def _example(pair: GradedPair, levels: tuple[str, ...]) -> Example:
    probabilities = pair.p or ()
    if len(levels) != len(probabilities):  # a coarse label: the model still has its own grades
        levels = tuple(str(i + 1) for i in range(len(probabilities)))
    return Example(
        query=pair.query,
        title=pair.title,
        grade=_shown(pair.grade),
        predicted=_shown(pair.predicted_grade),
        expected=pair.expected_grade,
        levels=levels,
        probabilities=probabilities,
        score=pair.score,
        moved_by=_moved_by(pair.reason),
        carried_by=_carried_by(pair.reason),
    )


def _moved_by(reason: Reason | None) -> tuple[Moved, ...]:
    """The terms that move the grade, the largest change first."""
    if reason is None:
        return ()
    moved = sorted((one for one in reason.terms if one.moved), key=lambda one: -abs(one.change))
    return tuple(
        Moved(term=one.term, side=_SIDES[one.side], change=one.change)
        for one in moved[:_TERMS_SHOWN]
    )


def _carried_by(reason: Reason | None) -> Text | None:
    if reason is None or reason.told_by is None or not reason.carried_by:
        return None
    term = clip(reason.terms[reason.told_by].term, 24)
    heads = "、".join(f"{one.head} {one.share:.0%}" for one in reason.carried_by)
    return Text(
        f"换回“{term}”最多的头：{heads}", f"“{term}” restored by {heads.replace('、', ', ')}"
    )


def worst_errors(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The pairs furthest from their label, as a table."""
    if not evaluation.errors:
        return ()
    graded = any(pair.score is None for pair in evaluation.errors)
    return (
        Table(
            name="errors",
            title=Text("偏差最大的对", "Pairs furthest off"),
            columns=(
                Column("id", "id"),
                Column("query", Text("查询", "query")),
                Column("title", Text("标题", "title")),
                Column("grade", Text("标注", "label")),
                *(_GRADED if graded else (_SCORE,)),
            ),
            rows=tuple(
                (
                    pair.id,
                    pair.query,
                    pair.title,
                    _shown(pair.grade),
                    *(
                        (_shown(pair.predicted_grade), pair.expected_grade)
                        if graded
                        else (pair.score,)
                    ),
                )
                for pair in evaluation.errors[:_WORST]
            ),
        ),
    )


def _shown(grade: Grade | None) -> str:
    if grade is None:
        return MISSING
    return f"{grade:g}" if isinstance(grade, float) else str(grade)


# What was judged: model, pairs and the run's profile.


def judged(evaluation: EvaluationResult, record: RunRecord) -> Table:
    """Sizes and hashes, to open."""
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


# Level by level: confusion, precision and recall, reliability.


def confusion(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """Shares of each true level as a heat map."""
    counts, levels = evaluation.confusion, evaluation.levels
    if counts is None:
        return ()
    return (FigureBlock(figure=confusion_map(levels, counts)),)


def confusion_counts(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The same matrix in pairs, as a table to open."""
    counts, levels = evaluation.confusion, evaluation.levels
    if counts is None:
        return ()
    table = Table(
        name="confusion",
        title=Text("混淆矩阵的对数", "Confusion matrix in pairs"),
        columns=(
            Column("true", Text("标注 \\ 预测", "true \\ predicted")),
            *(Column(f"predicted_{level}", level) for level in levels),
        ),
        rows=tuple((level, *row) for level, row in zip(levels, counts, strict=True)),
        folded=True,
    )
    return (table,)


def reliability(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """Accuracy over confidence."""
    figure = reliability_curve(evaluation.reliability or ())
    return () if figure is None else (FigureBlock(figure=figure),)


def per_grade(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """Precision, recall and F1 of every level."""
    if evaluation.per_grade is None:
        return ()
    return (
        Table(
            name="per_grade",
            title=Text("各等级", "Level by level"),
            columns=(
                Column("level", Text("等级", "level")),
                Column("precision", Text("精确率（0–1）", "precision (0–1)")),
                Column("recall", Text("召回率（0–1）", "recall (0–1)")),
                Column("f1", "F1 (0–1)"),
                Column("support", Text("对数", "pairs")),
            ),
            rows=tuple(
                (row.level, row.precision, row.recall, row.f1, row.support)
                for row in evaluation.per_grade
            ),
        ),
    )


# The table of metrics.


_DIRECTIONS = {"higher": "↑", "lower": "↓", "zero": "→ 0"}


def metrics(evaluation: EvaluationResult) -> Table:
    """Every metric with its interval, its base and one sentence on what it means."""
    counts = evaluation.pnr_counts
    note = Text(
        "方括号内为 95% 置信区间（按查询自助重采样）；↑ 越大越好，↓ 越小越好，→ 0 越接近 0 越好。",
        "Brackets hold 95 % intervals (bootstrap over queries); ↑ higher, ↓ lower, → 0 nearer to "
        "zero is better.",
    )
    if counts is not None:
        numbers = [f"{n:,}" for n in (counts.concordant, counts.discordant, counts.tied)]
        note = Text(
            f"{note.zh}PNR 的标题对：一致 {numbers[0]}，相反 {numbers[1]}，同分 {numbers[2]}。",
            f"{note.en} Title pairs of PNR: {numbers[0]} concordant, {numbers[1]} discordant, "
            f"{numbers[2]} tied.",
        )
    return Table(
        name="metrics",
        title=Text("指标", "Metrics"),
        columns=(
            Column("group", Text("类别", "group")),
            Column("metric", Text("指标", "metric")),
            Column("value", Text("值 [95% 区间]", "value [95 % interval]")),
            Column("better", Text("方向", "better")),
            Column("n", Text("对数", "pairs")),
            Column("n_eligible", Text("可评查询", "eligible queries")),
            Column("n_queries", Text("查询数", "queries")),
            Column("meaning", Text("含义", "meaning")),
        ),
        rows=tuple(_row(evaluation, *entry) for entry in grouped_metrics(evaluation)),
        note=joined([note, _resolution(evaluation)]),
        grouped=True,
        folded=True,
    )


def _row(
    evaluation: EvaluationResult, group: Text, name: str, metric: MetricValue
) -> tuple[Cell, ...]:
    described = evaluation.descriptions.get(name)
    direction = _DIRECTIONS[described.direction] if described else None
    return (
        group,
        name,
        as_interval(metric),
        direction,
        metric.n,
        metric.n_eligible,
        metric.n_queries,
        _meaning(described, metric),
    )


def _meaning(described: MetricDescription | None, metric: MetricValue) -> Text | None:
    if metric.value is None and metric.reason:
        return Text(f"无值：{metric.reason}", f"no value: {metric.reason}")
    if described is None:
        return None
    if described.title is None:
        return Text(described.zh, described.en)
    title = described.title
    return Text(f"{title.zh}：{described.zh}", f"{title.en}: {described.en}")


def _resolution(evaluation: EvaluationResult) -> Text:
    """How small a difference this sample can show, after the interval of accuracy."""
    metric = evaluation.metrics.get("accuracy")
    if metric is None or metric.ci_low is None or metric.ci_high is None:
        return Text("", "")
    return say("resolution", half=50 * (metric.ci_high - metric.ci_low))


# The same metrics on parts of the file.


_NOTHING = Interval(value=None, low=None, high=None)


def slices(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """One table a column of the file, one row a value of it."""
    return tuple(
        _table(evaluation, number, column, parts)
        for number, (column, parts) in enumerate(evaluation.slices.items(), start=1)
    )


def _table(
    evaluation: EvaluationResult,
    number: int,
    column: str,
    parts: dict[str, dict[str, MetricValue]],
) -> Table:
    present = {name for metrics in parts.values() for name in metrics}
    valued = {n for metrics in parts.values() for n, m in metrics.items() if m.value is not None}
    names = list(headlines(valued)) or sorted(present)
    return Table(
        name=f"slice_{number}",  # never the column's name, which is the user's, as a file name
        title=Text(f"按“{column}”分组", f"By “{column}”"),
        columns=(
            Column("value", column),
            Column("n", Text("对数", "pairs")),
            *(Column(name, metric_title(evaluation, name)) for name in names),
        ),
        rows=tuple(
            (
                value,
                max((m.n for m in metrics.values() if m.n is not None), default=None),
                *(as_interval(metrics[name]) if name in metrics else _NOTHING for name in names),
            )
            for value, metrics in parts.items()
        ),
        note=Text("方括号内为 95% 置信区间。", "Brackets hold 95 % intervals."),
        folded=True,
    )


# The grades at a glance: four numbers that stay in view.


def summary_cards(evaluation: EvaluationResult) -> tuple[Card, ...]:
    """The headline metrics that have a value, with what they are without grade 1."""
    return tuple(
        Card(
            title=title,
            value=as_interval(evaluation.metrics[name]),
            base=_harder(evaluation.without_grade_1.get(name)) or base(evaluation.metrics[name]),
        )
        for name, title in headlines(with_value(evaluation)).items()
    )


def _harder(metric: MetricValue | None) -> Text | None:
    """The same without titles of another subject, which are easy to tell."""
    if metric is None or metric.value is None:
        return None
    ends = interval(metric.ci_low, metric.ci_high)
    return say("without_grade_1", value=number(metric.value), interval=ends)
