"""Two models side by side: metrics, what the probes found of both, the pairs on which they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from qt_bert.probes.wording import ClaimInWords, claims_in_words
from qt_bert.report.blocks import (
    Badge,
    Cell,
    Column,
    Interval,
    Prose,
    Section,
    Table,
    columns,
    filled,
)
from qt_bert.report.evaluation import headlines, in_groups
from qt_bert.report.probes import badge, measured, title_of
from qt_bert.report.stored import Stored, names
from qt_bert.report.words import say
from qt_bert.results.evaluation import (
    ComparisonResult,
    EvaluationResult,
    JudgedModel,
    MetricDifference,
)
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text, interval, joined, listed, number, shortest, signed

SIGNIFICANT = 0.05


def comparison_section(stored: Stored) -> Section | None:
    """The whole comparison; None of a run of one model, or where it is not there yet."""
    comparison, evaluation = stored.comparison, stored.evaluation
    if comparison is None or evaluation is None:
        return None
    a, b = names(comparison)
    sizes = {"size_a": _size(comparison.a), "size_b": _size(comparison.b)}
    others = {result.probe: result for result in stored.compared_probes}
    both = [(one, others[one.probe]) for one in stored.probes if one.probe in others]
    absent = listed(title_of(one) for one in stored.probes if one.probe not in others)
    blocks = filled(
        Prose(body=say("both_grade_same_pairs", a=a, b=b, n=comparison.n_pairs, **sizes)),
        metrics_table(comparison, evaluation),
        claims_table(comparison, both),
        Prose(body=say("not_run_b_needs", absent=absent)) if absent.en else None,
        _most_different(comparison),
    )
    return Section(name="comparison", title=say("two_models_compared"), blocks=blocks)


def _size(model: JudgedModel) -> Text:
    size = shortest(model.parameters / 1e6)
    return say("layers_heads_million_parameters", layers=model.layers, heads=model.heads, size=size)


def in_one_sentence(comparison: ComparisonResult) -> Text:
    """B less A by the headline metrics, each with its interval and p."""
    a, b = names(comparison)
    known = {name: one for name, one in comparison.metrics.items() if one.difference is not None}
    found = []
    for name, title in headlines(known).items():
        one = known[name]
        shown = f"{signed(one.difference)} {interval(one.ci_low, one.ci_high)}".rstrip()
        p = "" if one.p is None else f" (p = {number(one.p, 4)})"
        found.append(say("name_and_value", name=title, value=f"{shown}{p}"))
    differences = listed(found or [say("no_metric_in_common")], "；", "; ")
    return say("less_same_pairs", a=a, b=b, n=comparison.n_pairs, differences=differences)


# Every metric of both.


def metrics_table(comparison: ComparisonResult, evaluation: EvaluationResult) -> Table:
    """The paired difference of each metric, its interval and its p; directions are `evaluation`'s."""
    a, b = names(comparison)
    return Table(
        name="comparison_metrics",
        title=say("metrics_both_models"),
        columns=(
            *columns(group="group", metric="metric"),
            Column("a", a),
            Column("b", b),
            *columns(difference="b_95_interval"),
            Column("p", "p", digits=4, least=True),
            *columns(better="better", n="pairs", n_queries="queries"),
        ),
        rows=tuple(
            (
                group,
                name,
                one.value_a,
                one.value_b,
                Interval(value=one.difference, low=one.ci_low, high=one.ci_high),
                one.p,
                _better(one, described.direction if described else None),
                one.n,
                one.n_queries,
            )
            for group, name, one in in_groups(comparison.metrics)
            for described in [evaluation.descriptions.get(name)]
        ),
        note=joined(_how(comparison)),
        grouped=True,
    )


def _better(metric: MetricDifference, direction: str | None) -> Badge | None:
    """Which model is better, where interval and p both say so."""
    low, high, p = metric.ci_low, metric.ci_high, metric.p
    if metric.difference is None or low is None or high is None or p is None:
        return None
    if direction not in ("higher", "lower"):
        return None
    if low <= 0 <= high or p >= SIGNIFICANT:
        return Badge(say("no_difference_shown"), "open")
    b_wins = (metric.difference > 0) == (direction == "higher")
    return Badge(Text("B", "B"), "good") if b_wins else Badge(Text("A", "A"), "bad")


def _how(comparison: ComparisonResult) -> Iterator[Text]:
    """How intervals and p were made, and why some metrics have no value."""
    resamples, draws = (comparison.settings.get(name, 0) for name in ("resamples", "draws"))
    yield say("how_compared", resamples=resamples, draws=draws)
    missing: dict[str, list[str]] = {}
    for name, one in comparison.metrics.items():
        if one.reason:
            missing.setdefault(one.reason, []).append(name)
    for reason, named in missing.items():
        yield say("without_a_value", names=listed(named), reason=reason)


# What the probes found of both: claims by their ids.


Both = Sequence[tuple[ProbeResult, ProbeResult]]


def claims_table(comparison: ComparisonResult, both: Both) -> Table:
    """The claims of A in their order, then those that only B has."""
    a, b = names(comparison)
    rows: list[tuple[Cell, ...]] = []
    for one, other in both:
        left, right = (
            {said.claim.id: said for said in claims_in_words(each)} for each in (one, other)
        )
        for id in left | right:
            short = (left.get(id) or right[id]).short
            rows.append((title_of(one), short, *_found(left, id), *_found(right, id)))
    return Table(
        name="comparison_findings",
        title=say("findings_both_models"),
        columns=(
            *columns(probe="probe", claim="claim"),
            Column("a", a),
            *columns(verdict_a="verdict_of_a"),
            Column("b", b),
            *columns(verdict_b="verdict_b"),
        ),
        rows=tuple(rows),
        note=say("same_claim_each_model"),
        grouped=True,
    )


def _found(claims: Mapping[str, ClaimInWords], id: str) -> tuple[Cell, Cell]:
    said = claims.get(id)
    return (None, None) if said is None else (measured(said), badge(said))


def _most_different(comparison: ComparisonResult) -> Table:
    """The pairs on which the two models' scores lie furthest apart."""
    a, b = names(comparison)
    return Table(
        name="comparison_pairs",
        title=say("pairs_which_two_differ"),
        columns=(
            *columns(query="query", title="title", label="label"),
            Column("a", a, digits=2),
            Column("b", b, digits=2),
        ),
        rows=tuple(
            (one.query, one.title, None if one.grade is None else str(one.grade), one.a, one.b)
            for one in comparison.most_different
        ),
        note=say("figures_expected_grades_chosen"),
    )
