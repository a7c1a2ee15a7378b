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
from qt_bert.text import MISSING, Label, Text, clip, counted, interval, joined, listed, number


def read_evaluation(folder: RunFolder) -> EvaluationResult | None:
    """The run's `evaluation.json`, or `None` where it is not written yet."""
    path = folder.file("evaluation.json")
    return EvaluationResult.read(path) if path.is_file() else None


# The metrics' names and groups on the page.


M = TypeVar("M")

GROUPS: dict[str, tuple[Text, tuple[str, ...]]] = {
    "class": (say("classes"), ("accuracy", "macro_f1")),
    "ordinal": (
        say("ordered_grades"),
        ("qwk", "mae", "macro_mae", "within_one", "bias", "far_errors"),
    ),
    "ranking": (
        say("ranking"),
        (
            *(f"ndcg_at_{k}" for k in (1, 3, 5, 10)),
            *(f"ndcg_linear_at_{k}" for k in (1, 3, 5, 10)),
            "pnr",
            "pairwise_accuracy",
            "auc",
            "spearman",
        ),
    ),
    "calibration": (say("calibration"), ("ece", "brier", "nll")),
}
_OTHER = say("other")

HEADLINES = {
    "accuracy": say("accuracy"),
    "qwk": say("qwk_weighted"),
    "spearman": say("spearman"),
    "ndcg_at_5": say("ndcg_5"),
}
_OF_AN_ORDER = {"pairwise_accuracy": say("pairwise_accuracy")}


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
        return say("none", reason=metric.reason)
    said = []
    if metric.n is not None:
        said.append(say("pairs_judged", n=metric.n))
    if metric.n_eligible is not None and metric.n_queries is not None:
        said.append(say("queries_eligible", n=metric.n_eligible, queries=metric.n_queries))
    return listed(said, " · ", " · ")


# Single pairs: some to see what the model does, and those it graded worst.


_SHOWN, _TERMS_SHOWN, _WORST = 6, 4, 10
_SIDES = {"query": say("query"), "title": say("title")}
_GRADED = (
    Column("predicted_grade", say("predicted")),
    Column("expected_grade", say("expected_grade"), digits=2),
)
_SCORE = Column("score", say("score"))


def examples(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The first pairs of the evaluation's examples with their grade distributions."""
    chosen = evaluation.examples[:_SHOWN]
    if not chosen:
        return ()
    graded = any(pair.score is None for pair in chosen)
    return (
        Examples(
            title=say("what_model_does"),
            note=joined([_bars(len(chosen)) if graded else _scores(len(chosen)), _reasons(chosen)]),
            examples=tuple(_example(pair, evaluation.levels) for pair in chosen),
        ),
    )


def _bars(n: int) -> Text:
    return say("each_bar_model_s", n=n, n_example=counted(n, "example"))


def _scores(n: int) -> Text:
    return say("model_gives_one_score", n=n, n_example=counted(n, "example"))


def _reasons(pairs: Sequence[GradedPair]) -> Text:
    """How terms and heads were tried out; nothing where they were not."""
    told = [pair.reason for pair in pairs if pair.reason]
    if not told:
        return Text("", "")
    filler, n = told[0].filler, sum(bool(one.carried_by) for one in told)
    terms = say("change_by_term", filler=filler, shown=_TERMS_SHOWN)
    heads = [say("heads_put_back", n=n, n_example=counted(n, "example"))] if n else []
    return joined([terms, *heads])


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
    return say("restored", term=term, heads=heads, heads_replace=heads.replace("、", ", "))


def worst_errors(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The pairs furthest from their label, as a table."""
    if not evaluation.errors:
        return ()
    graded = any(pair.score is None for pair in evaluation.errors)
    return (
        Table(
            name="errors",
            title=say("pairs_furthest_off"),
            columns=(
                Column("id", "id"),
                Column("query", say("query")),
                Column("title", say("title")),
                Column("grade", say("label")),
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
        (say("model"), model.name),
        (say("layers_heads_width"), shape),
        (say("parameters"), model.parameters),
        (say("maximum_length_tokens"), model.max_length),
        (say("number_type"), model.dtype),
        (say("weights_sha_256"), model.sha256),
        (say("file_pairs"), pairs.name),
        (say("query_title_pairs"), pairs.n_pairs),
        (say("distinct_queries"), pairs.n_queries),
        (say("truncated_titles"), evaluation.truncated_titles),
        (say("pairs_sha_256"), pairs.sha256),
    ]
    if profile := record.inputs.arguments.get("profile"):
        facts.append((say("profile"), str(profile)))
    return Table(
        name="judged",
        title=say("sizes_hashes_model_pairs"),
        columns=(Column("what", say("item")), Column("value", say("value_cell"))),
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
        title=say("confusion_matrix_pairs"),
        columns=(
            Column("true", say("true_predicted")),
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
            title=say("level_level"),
            columns=(
                Column("level", say("level")),
                Column("precision", say("precision_0_1")),
                Column("recall", say("recall_0_1")),
                Column("f1", "F1 (0–1)"),
                Column("support", say("pairs")),
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
    note = say("brackets_hold_95_intervals")
    if counts is not None:
        numbers = [f"{n:,}" for n in (counts.concordant, counts.discordant, counts.tied)]
        note = say(
            "title_pairs_pnr_concordant",
            note=note,
            numbers=numbers[0],
            numbers_2=numbers[1],
            numbers_3=numbers[2],
        )
    return Table(
        name="metrics",
        title=say("metrics"),
        columns=(
            Column("group", say("group")),
            Column("metric", say("metric")),
            Column("value", say("value_95_interval")),
            Column("better", say("better_direction")),
            Column("n", say("pairs")),
            Column("n_eligible", say("eligible_queries")),
            Column("n_queries", say("queries")),
            Column("meaning", say("meaning")),
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
        return say("no_value", reason=metric.reason)
    if described is None:
        return None
    if described.title is None:
        return Text(described.zh, described.en)
    title = described.title
    return say("metric_meaning", title=title, described=described)


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
        title=say("slices_by", column=column),
        columns=(
            Column("value", column),
            Column("n", say("pairs")),
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
        note=say("brackets_are_intervals"),
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
