"""How well the model grades: the section `evaluation`, the model's card, the figures in view."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

from qt_bert.report.blocks import (
    Card,
    Cell,
    Column,
    Example,
    Examples,
    FigureBlock,
    Folded,
    Interval,
    Prose,
    Section,
    Table,
    columns,
    filled,
    wording,
)
from qt_bert.report.stored import Stored
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
from qt_bert.run.folder import RunRecord, profile_of
from qt_bert.stats.judgements import GRADES
from qt_bert.stats.metrics import in_both_languages
from qt_bert.text import MISSING, Text, clip, interval, join, number, sentences


def evaluation_section(stored: Stored) -> Section | None:
    """Model and pairs, examples, figures, tables; None without an evaluation."""
    evaluation = stored.evaluation
    if evaluation is None:
        return None
    reliability = reliability_curve(evaluation.reliability or ())
    blocks = filled(
        _judged(evaluation, stored.folder.record),
        Prose(body=wording("scores_alike")) if evaluation.alike else None,
        _examples(evaluation),
        None
        if evaluation.confusion is None
        else FigureBlock(figure=confusion_map(evaluation.levels, evaluation.confusion)),
        None if reliability is None else FigureBlock(figure=reliability),
        _worst_errors(evaluation),
        _metrics(evaluation),
        *_slices(evaluation),
        _per_grade(evaluation),
    )
    return Section(name="evaluation", title=wording("evaluation"), blocks=blocks)


def card_section(stored: Stored) -> Section | None:
    """The model card in the checkpoint's folder; None without one."""
    if stored.evaluation is None or not stored.evaluation.card:
        return None
    card = Prose(body=stored.evaluation.card, preformatted=True)
    folded = Folded(title=wording("whole_card"), blocks=(card,))
    return Section(name="model_card", title=wording("model_card"), blocks=(folded,))


M = TypeVar("M")

GROUPS: dict[str, tuple[Text, tuple[str, ...]]] = {
    "class": (wording("classes"), ("accuracy", "macro_f1")),
    "ordinal": (
        wording("ordered_grades"),
        (
            *("qwk", "mae", "macro_mae", "within_one", "bias"),
            *("far_errors", "over_graded", "under_graded"),
        ),
    ),
    "ranking": (
        wording("ranking"),
        (
            *(f"ndcg_at_{k}" for k in (1, 3, 5, 10)),
            *(f"ndcg_linear_at_{k}" for k in (1, 3, 5, 10)),
            "pnr",
            "pairwise_accuracy",
            "auc",
            *("mrr_at_10", "map", "recall_at_5", "recall_at_10"),
            "spearman",
        ),
    ),
    "calibration": (wording("calibration"), ("ece", "brier", "nll")),
}

HEADLINES = {
    "accuracy": wording("accuracy"),
    "qwk": wording("qwk_weighted"),
    "spearman": wording("spearman"),
    "ndcg_at_5": wording("ndcg_5"),
}


def headlines(known: Container[str]) -> dict[str, Text]:
    """The headline metrics that are `known`, named; without accuracy, pairwise accuracy."""
    order = {} if "accuracy" in known else {"pairwise_accuracy": wording("pairwise_accuracy")}
    return {name: title for name, title in (order | HEADLINES).items() if name in known}


def with_value(metrics: Mapping[str, MetricValue]) -> set[str]:
    """The metrics that have a value."""
    return {name for name, metric in metrics.items() if metric.value is not None}


def in_groups(values: Mapping[str, M]) -> list[tuple[Text, str, M]]:
    """(group, name, value) of each metric in `values`, in the page's order."""
    known = {name: title for title, names in GROUPS.values() for name in names}
    others = dict.fromkeys(sorted(values.keys() - known.keys()), wording("other"))
    return [(title, n, values[n]) for n, title in (known | others).items() if n in values]


def as_interval(metric: MetricValue) -> Interval:
    """The metric's value with its interval."""
    return Interval(value=metric.value, low=metric.ci_low, high=metric.ci_high)


def summary_cards(stored: Stored) -> tuple[Card, ...]:
    """The headline metrics that have a value, each with its value without grade 1."""
    evaluation = stored.evaluation
    if evaluation is None:
        return ()
    return tuple(
        Card(
            title=title,
            value=as_interval(evaluation.metrics[name]),
            base=_harder(evaluation.without_grade_1.get(name)) or _base(evaluation.metrics[name]),
        )
        for name, title in headlines(with_value(evaluation.metrics)).items()
    )


def _harder(metric: MetricValue | None) -> Text | None:
    """The metric without pairs of grade 1, in words."""
    if metric is None or metric.value is None:
        return None
    ends = interval(metric.ci_low, metric.ci_high)
    return wording("without_grade_1", value=number(metric.value), interval=ends)


def _base(metric: MetricValue) -> Text:
    """The numbers of pairs and, for ranking metrics, of eligible queries behind a value."""
    bases = []
    if metric.n is not None:
        bases.append(wording("pairs_judged", n=metric.n))
    if metric.n_eligible is not None and metric.n_queries is not None:
        bases.append(wording("queries_eligible", n=metric.n_eligible, queries=metric.n_queries))
    return join(bases, " · ", " · ")


_SHOWN, _TERMS_SHOWN, _WORST = 6, 4, 10


def _examples(evaluation: EvaluationResult) -> Examples | None:
    """The first pairs of the evaluation's examples with their grade distributions."""
    chosen = evaluation.examples[:_SHOWN]
    if not chosen:
        return None
    graded = any(pair.score is None for pair in chosen)
    note = wording("grades_note" if graded else "score_note")
    names = _names(evaluation)
    return Examples(
        title=wording("examples"),
        note=sentences([note, *_reasons(chosen)]),
        examples=tuple(_example(pair, evaluation.mode, names) for pair in chosen),
    )


def _reasons(pairs: Sequence[GradedPair]) -> Iterator[Text]:
    """Notes on how the effects of terms and heads were measured, where they were."""
    explained = [pair.reason for pair in pairs if pair.reason]
    if explained:
        yield wording("change_by_term", filler=explained[0].filler, shown=_TERMS_SHOWN)
    if any(reason.carried_by for reason in explained):
        yield wording("heads_put_back")


def _names(evaluation: EvaluationResult) -> dict[str, str]:
    """The model's outputs as predictions name them, from 1 for the five grades, else from 0 → what they mean."""
    first = int(evaluation.outputs == tuple(map(str, GRADES)))
    return {str(place): meaning for place, meaning in enumerate(evaluation.outputs, first)}


def _predicted(pair: GradedPair, names: Mapping[str, str]) -> str:
    shown = _shown(pair.predicted_grade)
    return names.get(shown, shown)


def _example(pair: GradedPair, mode: str, names: Mapping[str, str]) -> Example:
    levels, label = tuple(names.values()), _shown(pair.grade)
    reason = pair.reason
    moved = [term for term in reason.terms if term.moved] if reason else []
    moved.sort(key=lambda term: -abs(term.change))
    return Example(
        query=pair.query,
        title=pair.title,
        grade=label,
        level=label if label in levels and mode != "numbers" else None,
        predicted=_predicted(pair, names),
        expected=pair.expected_grade,
        levels=levels,
        probabilities=pair.p or (),
        score=pair.score,
        moved_by=tuple(
            (term.term, wording(term.side), term.change) for term in moved[:_TERMS_SHOWN]
        ),
        carried_by=_carried_by(reason),
    )


def _carried_by(reason: Reason | None) -> Text | None:
    if reason is None or reason.told_by is None:
        return None
    term = clip(reason.terms[reason.told_by].term, 24)
    heads = join(f"{head.head} {head.share:.0%}" for head in reason.carried_by if head.share > 0)
    return wording("restored", term=term, heads=heads) if heads.en else None


def _worst_errors(evaluation: EvaluationResult) -> Table:
    """The pairs furthest from their label."""
    graded, names = any(pair.score is None for pair in evaluation.errors), _names(evaluation)
    answer = (
        (
            Column("predicted_grade", wording("predicted")),
            Column("expected_grade", wording("expected_grade"), digits=2),
        )
        if graded
        else columns(score="score")
    )
    return Table(
        name="errors",
        title=wording("largest_errors"),
        columns=(
            Column("id", "id"),
            *columns(query="query", title="title", grade="label"),
            *answer,
        ),
        rows=tuple(
            (
                pair.id,
                pair.query,
                pair.title,
                _shown(pair.grade),
                *((_predicted(pair, names), pair.expected_grade) if graded else (pair.score,)),
            )
            for pair in evaluation.errors[:_WORST]
        ),
    )


def _shown(grade: Grade | None) -> str:
    if grade is None:
        return MISSING
    return f"{grade:g}" if isinstance(grade, float) else str(grade)


def _judged(evaluation: EvaluationResult, record: RunRecord) -> Table:
    """Sizes and hashes of model and pairs, and the run's profile."""
    model, pairs = evaluation.judged_model(), evaluation.pairs
    facts: dict[str, Cell] = {
        "model": model.name,
        "layers_heads_width": f"{model.layers} × {model.heads} × {model.hidden}",
        "parameters": model.parameters,
        "maximum_length_tokens": model.max_length,
        "number_type": f"{model.dtype}, {model.device}",
        "weights_sha_256": model.sha256,
        "file_pairs": pairs.name,
        "query_title_pairs": pairs.n_pairs,
        "distinct_queries": pairs.n_queries,
        "truncated_titles": evaluation.truncated_titles,
        "pairs_sha_256": pairs.sha256,
    }
    if "full" in record.inputs.arguments:
        facts["profile"] = profile_of(record.inputs)
    return Table(
        name="judged",
        title=wording("sizes_and_hashes"),
        columns=columns(what="item", value="value_cell"),
        rows=tuple((wording(name), value) for name, value in facts.items()),
        folded=True,
    )


_DIRECTIONS = {"higher": "↑", "lower": "↓", "zero": "→ 0"}


def _metrics(evaluation: EvaluationResult) -> Table:
    """Every metric with its interval, its base and its meaning."""
    notes = [wording("metrics_note")]
    if (counts := evaluation.pnr_counts) is not None:
        notes.append(wording("pnr_counts", **asdict(counts)))
    accuracy = evaluation.metrics.get("accuracy")
    if accuracy is not None and accuracy.ci_low is not None and accuracy.ci_high is not None:
        notes.append(wording("resolution", half=50 * (accuracy.ci_high - accuracy.ci_low)))
    return Table(
        name="metrics",
        title=wording("metrics"),
        columns=columns(
            group="group",
            metric="metric",
            value="measured_interval",
            better="better_direction",
            n="pairs",
            n_eligible="eligible_queries",
            n_queries="queries",
            meaning="meaning",
        ),
        rows=tuple(
            (
                group,
                name,
                as_interval(metric),
                _DIRECTIONS[described.direction] if described else None,
                metric.n,
                metric.n_eligible,
                metric.n_queries,
                _meaning(described, metric),
            )
            for group, name, metric in in_groups(evaluation.metrics)
            for described in [evaluation.descriptions.get(name)]
        ),
        note=sentences(notes),
        grouped=True,
        folded=True,
    )


def _meaning(described: MetricDescription | None, metric: MetricValue) -> Text | None:
    if metric.value is None and metric.reason:
        return wording("no_value", reason=in_both_languages(metric.reason))
    if described is None or described.title is None:
        return None if described is None else Text(described.zh, described.en)
    return wording("metric_meaning", title=described.title, described=described)


def _slices(evaluation: EvaluationResult) -> Iterator[Table]:
    """One table a column of the file, one row a value of it."""
    for place, (column, parts) in enumerate(evaluation.slices.items(), start=1):
        valued = {name for metrics in parts.values() for name in with_value(metrics)}
        shown = headlines(valued) or {name: Text(name, name) for name in sorted(valued)}
        yield Table(
            name=f"slice_{place}",  # a file name: never the user's name of the column
            title=wording("slices_by", column=column),
            columns=(
                Column("value", column),
                *columns(n="pairs"),
                *(Column(name, title) for name, title in shown.items()),
            ),
            rows=tuple(
                (
                    value,
                    max((m.n for m in metrics.values() if m.n is not None), default=None),
                    *(as_interval(metrics.get(name, MetricValue(value=None))) for name in shown),
                )
                for value, metrics in parts.items()
            ),
            note=wording("slices_note"),
            folded=True,
        )


def _per_grade(evaluation: EvaluationResult) -> Table:
    """Precision, recall and F1 of every level."""
    return Table(
        name="per_grade",
        title=wording("by_level"),
        columns=(
            *columns(level="level", precision="precision_0_1", recall="recall_0_1"),
            Column("f1", "F1 (0–1)"),
            *columns(support="pairs"),
        ),
        rows=tuple(
            (row.level, row.precision, row.recall, row.f1, row.support)
            for row in evaluation.per_grade or ()
        ),
    )
