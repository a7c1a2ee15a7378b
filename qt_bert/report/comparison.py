"""Two models side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from qt_bert.figures import Bars, BarSeries
from qt_bert.probes.wording import (
    ClaimInWords,
    MeasurementInWords,
    claims_in_words,
    measurements_in_words,
)
from qt_bert.report.blocks import Badge, Block, Cell, Column, FigureBlock, Interval, Prose, Table
from qt_bert.report.evaluation import headlines, in_groups, with_value
from qt_bert.report.probes import badge, measured, read_probes, title_of
from qt_bert.report.words import say
from qt_bert.results.evaluation import (
    ComparisonResult,
    EvaluationResult,
    JudgedModel,
    MetricDifference,
)
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import RunFolder
from qt_bert.run.stages import COMPARED, COMPARISON, EVALUATION
from qt_bert.text import Text, clip, interval, joined, listed, number, shortest


def names(comparison: ComparisonResult) -> tuple[str, str]:
    """`A: graded` and `B: small`."""
    return f"A: {clip(comparison.a.name, 40)}", f"B: {clip(comparison.b.name, 40)}"


def read_comparison(folder: RunFolder) -> ComparisonResult | None:
    """The run's `comparison.json`, or `None` where it has no second model, or has it not yet."""
    path = folder.file(COMPARISON)
    return ComparisonResult.read(path) if path.is_file() else None


def read_compared(folder: RunFolder) -> EvaluationResult | None:
    """The second model's evaluation."""
    path = folder.file(EVALUATION)
    return EvaluationResult.read(path) if path.is_file() else None


def read_compared_probes(folder: RunFolder) -> tuple[ProbeResult, ...]:
    """What the probes found of the second model; q is over its own claims."""
    return read_probes(folder, COMPARED)


# The behaviour scores of both models, bar beside bar.


PROBE, SCORES = "behaviour", "scores_"
_NOTE = say("same_cases_each_model")


def both_behaviours(
    comparison: ComparisonResult, first: Sequence[ProbeResult], second: Sequence[ProbeResult]
) -> Iterator[Block]:
    """The scores by phenomenon that both have, of the same cases."""
    a, b = (_of(results) for results in (first, second))
    if a is None or b is None or a.settings.get("cases") != b.settings.get("cases"):
        return
    others = {figure.name: figure for figure in b.figures}
    for figure in a.figures:
        other = others.get(figure.name)
        if isinstance(figure, Bars) and isinstance(other, Bars) and _alike(figure, other):
            label_a, label_b = names(comparison)
            (own,), (others_own,) = figure.series, other.series
            yield FigureBlock(
                figure=replace(
                    figure,
                    name=f"comparison_{figure.name}",
                    series=(replace(own, name=label_a), replace(others_own, name=label_b)),
                    note=_NOTE,
                )
            )


def _of(results: Sequence[ProbeResult]) -> ProbeResult | None:
    return next((result for result in results if result.probe == PROBE), None)


def _alike(one: Bars, other: Bars) -> bool:
    return one.name.startswith(SCORES) and one.categories == other.categories


# What the probes found of both models: claims and measurements, each by its id.


_FINDINGS_NOTE = say("same_claim_each_model")


def both_findings(
    comparison: ComparisonResult, first: Sequence[ProbeResult], second: Sequence[ProbeResult]
) -> tuple[Block, ...]:
    """Claims and measurements with both models' figures, and which probes were not run on B."""
    others = {result.probe: result for result in second}
    both = [(result, others[result.probe]) for result in first if result.probe in others]
    tables = (_claims(comparison, both), _measurements(comparison, both))
    return (*(table for table in tables if table.rows), *_missing_findings(first, others))


def _claims(comparison: ComparisonResult, both: Sequence[tuple[ProbeResult, ProbeResult]]) -> Table:
    a, b = names(comparison)
    rows = [
        (title_of(one), *row)
        for one, other in both
        for row in _beside(
            {said.claim.id: said for said in claims_in_words(one)},
            {said.claim.id: said for said in claims_in_words(other)},
        )
    ]
    differ = any(row[-1] is not None for row in rows)
    return Table(
        name="comparison_findings",
        title=say("findings_both_models"),
        columns=(
            Column("probe", say("probe")),
            Column("claim", say("claim")),
            Column("a", a),
            Column("verdict_a", say("verdict_of_a")),
            Column("b", b),
            Column("verdict_b", say("verdict_b")),
            *((Column("claim_b", say("b_s_claim_where")),) if differ else ()),
        ),
        rows=tuple(rows if differ else (row[:-1] for row in rows)),
        note=_FINDINGS_NOTE,
        grouped=True,
    )


def _beside(
    left: dict[str, ClaimInWords], right: dict[str, ClaimInWords]
) -> Iterator[tuple[Cell, ...]]:
    """The claims of A in their order, then those that only B has."""
    for name in dict.fromkeys((*left, *right)):
        a, b = left.get(name), right.get(name)
        text = a.text if a is not None else None
        other = b.text if b is not None and b.text != text else None
        yield (text, *_found(a), *_found(b), other)


def _found(said: ClaimInWords | None) -> tuple[Cell, Cell]:
    return (None, None) if said is None else (measured(said), badge(said))


def _measurements(
    comparison: ComparisonResult, both: Sequence[tuple[ProbeResult, ProbeResult]]
) -> Table:
    """What both measured; texts are A's, and may name heads that are not B's."""
    a, b = names(comparison)
    rows: list[tuple[Cell, ...]] = []
    for one, other in both:
        found: dict[str, MeasurementInWords] = {
            said.id: said for said in measurements_in_words(other)
        }
        rows += [
            (title_of(one), said.text, measured(said), measured(found[said.id]))
            for said in measurements_in_words(one)
            if said.id in found
        ]
    return Table(
        name="comparison_measurements",
        title=say("measurements_both_models"),
        columns=(
            Column("probe", say("probe")),
            Column("measurement", say("measurement_heads_s")),
            Column("a", a),
            Column("b", b),
        ),
        rows=tuple(rows),
        grouped=True,
        folded=True,
    )


def _missing_findings(
    first: Sequence[ProbeResult], others: dict[str, ProbeResult]
) -> tuple[Block, ...]:
    absent = [title_of(result) for result in first if result.probe not in others]
    if not absent:
        return ()
    return (
        Prose(
            body=say(
                "not_run_b_needs",
                in_absent="、".join(one.zh for one in absent),
                in_absent_2=", ".join(one.en for one in absent),
            )
        ),
    )


# Metrics of both models, and the pairs on which they differ most.


SIGNIFICANT = 0.05
_ALIKE = Badge(say("no_difference_shown"), "open")


def models(comparison: ComparisonResult) -> Prose:
    """Who A and B are."""
    a, b = names(comparison)
    return Prose(
        body=say(
            "both_grade_same_pairs",
            a=a,
            size_a=_model(comparison.a),
            b=b,
            size_b=_model(comparison.b),
            n_pairs=comparison.n_pairs,
        )
    )


def _model(model: JudgedModel) -> Text:
    size = shortest(model.parameters / 1e6)
    return say("layers_heads_million_parameters", layers=model.layers, heads=model.heads, size=size)


def metrics_table(comparison: ComparisonResult, evaluation: EvaluationResult) -> Table:
    """Every metric of both, with the paired difference, its interval and its p."""
    a, b = names(comparison)
    return Table(
        name="comparison_metrics",
        title=say("metrics_both_models"),
        columns=(
            Column("group", say("group")),
            Column("metric", say("metric")),
            Column("a", a),
            Column("b", b),
            Column("difference", say("b_95_interval")),
            Column("p", "p", digits=4, least=True),
            Column("better", say("better")),
            Column("n", say("pairs")),
            Column("n_queries", say("queries")),
        ),
        rows=tuple(
            (group, name, *_metric_row(metric, _direction(evaluation, name)))
            for group, name, metric in in_groups(comparison.metrics)
        ),
        note=_how(comparison),
        grouped=True,
    )


def _how(comparison: ComparisonResult) -> Text:
    """How intervals and p were made, and why some metrics have no value."""
    resamples, draws = (comparison.settings.get(name, 0) for name in ("resamples", "draws"))
    missing = (
        say("without_a_value", names=listed(names_of), reason=reason)
        for reason, names_of in _missing_metrics(comparison).items()
    )
    return joined([say("how_compared", resamples=resamples, draws=draws), *missing])


def _missing_metrics(comparison: ComparisonResult) -> dict[str, list[str]]:
    """Reason → the metrics that have no value for it."""
    found: dict[str, list[str]] = {}
    for name, metric in comparison.metrics.items():
        if metric.reason:
            found.setdefault(metric.reason, []).append(name)
    return found


def _direction(evaluation: EvaluationResult, name: str) -> str | None:
    described = evaluation.descriptions.get(name)
    return None if described is None else described.direction


def _metric_row(metric: MetricDifference, direction: str | None) -> tuple[Cell, ...]:
    return (
        metric.value_a,
        metric.value_b,
        Interval(value=metric.difference, low=metric.ci_low, high=metric.ci_high),
        metric.p,
        _better(metric, direction),
        metric.n,
        metric.n_queries,
    )


def _better(metric: MetricDifference, direction: str | None) -> Badge | None:
    """Which model is better, where interval and p both say so."""
    low, high, p = metric.ci_low, metric.ci_high, metric.p
    if metric.difference is None or low is None or high is None or p is None:
        return None
    if direction not in ("higher", "lower"):
        return None
    if low <= 0 <= high or p >= SIGNIFICANT:
        return _ALIKE
    b_wins = (metric.difference > 0) == (direction == "higher")
    return Badge(say("b"), "good") if b_wins else Badge(say("model_a"), "bad")


def headline_bars(
    comparison: ComparisonResult, a: EvaluationResult, b: EvaluationResult
) -> tuple[Block, ...]:
    """The headline metrics of both, each with its own interval."""
    shown = headlines(with_value(a) & with_value(b) & comparison.metrics.keys())
    if not shown:
        return ()
    figure = Bars(
        name="comparison_headlines",
        title=say("headline_metrics_both_models"),
        x_label=say("metric"),
        y_label=say("value_cell"),
        unit=say("1_best"),
        categories=tuple(shown.values()),
        series=tuple(
            BarSeries(
                name=label,
                values=tuple(one.metrics[name].value for name in shown),
                intervals=tuple(_ends(one, name) for name in shown),
            )
            for label, one in zip(names(comparison), (a, b), strict=True)
        ),
        digits=3,
        note=say("pairs_lines_each_model", n_pairs=comparison.n_pairs),
    )
    return (FigureBlock(figure=figure),)


def _ends(evaluation: EvaluationResult, name: str) -> tuple[float, float] | None:
    metric = evaluation.metrics[name]
    return (
        None if metric.ci_low is None or metric.ci_high is None else (metric.ci_low, metric.ci_high)
    )


def most_different(comparison: ComparisonResult) -> tuple[Block, ...]:
    """The pairs on which the two models' scores lie furthest apart."""
    if not comparison.most_different:
        return ()
    a, b = names(comparison)
    return (
        Table(
            name="comparison_pairs",
            title=say("pairs_which_two_differ"),
            columns=(
                Column("query", say("query")),
                Column("title", say("title")),
                Column("label", say("label")),
                Column("a", a, digits=2),
                Column("b", b, digits=2),
            ),
            rows=tuple(
                (
                    pair.query,
                    pair.title,
                    None if pair.grade is None else str(pair.grade),
                    pair.a,
                    pair.b,
                )
                for pair in comparison.most_different
            ),
            note=say("figures_expected_grades_chosen"),
        ),
    )


def beside(comparison: ComparisonResult) -> Text:
    """B less A by the headline metrics, each with its interval and p."""
    a, b = names(comparison)
    found = list(_differences(comparison)) or [say("no_metric_in_common")]
    differences = listed(found, "；", "; ")
    return say("less_same_pairs", b=b, a=a, n_pairs=comparison.n_pairs, differences=differences)


def _differences(comparison: ComparisonResult) -> Iterator[Text]:
    known = {n: one for n, one in comparison.metrics.items() if one.difference is not None}
    for name, title in headlines(known).items():
        metric = known[name]
        shown = f"{metric.difference:+.3f}".replace("-", "\N{MINUS SIGN}")
        ends = f"{shown} {interval(metric.ci_low, metric.ci_high)}".rstrip()
        p = "" if metric.p is None else f" (p = {number(metric.p, 4)})"
        yield say("name_and_value", name=title, value=f"{ends}{p}")
