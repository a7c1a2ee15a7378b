"""The first screen: the model and the pairs, the claims, what can be removed, the next steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from qt_bert.probes.wording import queries_needed
from qt_bert.report.blocks import (
    Column,
    Link,
    Listing,
    Prose,
    Section,
    Table,
    columns,
    filled,
    wording,
)
from qt_bert.report.evaluation import headlines, with_value
from qt_bert.report.frontier import in_one_sentence
from qt_bert.report.probes import FILED, badge, filed, measured, source_value
from qt_bert.report.stored import Stored
from qt_bert.results.evaluation import EvaluationResult
from qt_bert.results.heads import table_of
from qt_bert.results.probe import set_label
from qt_bert.stats.verdict import CLAIM_QUERIES, MOST_QUERIES
from qt_bert.text import Text, interval, join, number, sentences, shortest, signed

LEAST_PAIRS = 30
"""A slice of fewer pairs is never called the weakest."""
MOST_HEADS = 6
SHOWN_SETS = ("matching", "boundary", "order", "reader")


def answer_section(stored: Stored) -> Section | None:
    """The model and pairs, every claim, and a line each on heads, errors, the plan and next steps."""
    lines = {
        "heads": _heads(stored),
        "breaks": list(_breaks(stored)),
        "plan": list(in_one_sentence(stored.frontier, stored.plan)),
        "next": list(_next(stored)),
    }
    rows = tuple((wording(name), tuple(texts)) for name, texts in lines.items() if texts)
    blocks = filled(
        None if stored.evaluation is None else _subject(stored, stored.evaluation),
        _claims(stored),
        Listing(rows=rows) if rows else None,
    )
    return Section(name="answer", title=wording("answer"), blocks=blocks) if blocks else None


def _subject(stored: Stored, evaluation: EvaluationResult) -> Prose:
    model, pairs = evaluation.judged_model(), evaluation.pairs
    one_logit = any(pair.score is not None for pair in evaluation.examples)
    return Prose(
        body=wording(
            "subject",
            model=model.name,
            layers=model.layers,
            heads=model.heads,
            millions=shortest(model.parameters / 1e6),
            pairs=pairs.name,
            n=pairs.n_pairs,
            queries=pairs.n_queries,
            labels=wording("labels_shipped" if stored.on_shipped else "labels_own"),
            points=wording("points_of_order" if one_logit else "points_of_label"),
        )
    )


def _claims(stored: Stored) -> Table:
    counts = Counter(row.worded.claim.verdict for row in stored.claims)
    tally = wording(
        "tally",
        total=len(stored.claims),
        reproduced=counts["reproduced"],
        not_reproduced=counts["not reproduced"],
        inconclusive=counts["inconclusive"],
        not_testable=counts["not testable"],
    )
    return Table(
        name="claims",
        title=wording("claims"),
        columns=(
            Column("claim", wording("claim"), whole=True),
            *columns(verdict="verdict", value="measured_interval"),
            Column("beside", wording("beside"), whole=True, optional=True),
            Column("source", wording("source_figure"), filed=True),
            *FILED,
        ),
        rows=tuple(
            (
                Link(worded.short, anchor),
                badge(worded),
                measured(worded),
                worded.beside,
                source_value(worded.claim.source),
                *filed(worded),
            )
            for worded, anchor in stored.claims
        ),
        note=sentences((tally, wording("claims_note"))),
    )


def _heads(stored: Stored) -> list[Text]:
    """The heads of the sets that the claims are about, in one line."""
    sets = []
    for result in stored.probes:
        of_probe = table_of(result, ()).shown_sets
        for name in SHOWN_SETS:
            if heads := of_probe.get(name):
                shown: str | Text = " ".join(heads[:MOST_HEADS])
                if len(heads) > MOST_HEADS:
                    shown = wording("heads_more", heads=shown, n=len(heads))
                sets.append(
                    wording(
                        "metric_meaning", title=set_label(name, result.stability), described=shown
                    )
                )
    return [join(sets, "；", "; ")] if sets else []


def _breaks(stored: Stored) -> Iterator[Text]:
    for result in stored.probes:
        facts = result.facts
        if facts.get("hardest") and facts.get("most_moved"):
            yield wording(
                "hardest",
                phenomenon=Text(**facts["hardest"]),
                score=signed(facts["hardest_score"], 2),
                moved=Text(**facts["most_moved"]),
                moved_score=signed(facts["most_moved_score"], 2),
            )
    if stored.evaluation is not None:
        yield from _weakest(stored.evaluation)


def _weakest(evaluation: EvaluationResult) -> Iterator[Text]:
    """The slice with the lowest accuracy, or without accuracy ρ, among those large enough."""
    for metric in ("accuracy", "spearman"):
        slices = [
            (metric_value.value, column, value, metric_value)
            for column, values in evaluation.slices.items()
            for value, metrics in values.items()
            if (metric_value := metrics.get(metric)) is not None
            and metric_value.value is not None
            and (metric_value.n or 0) >= LEAST_PAIRS
        ]
        if slices:
            _, column, value, metric_value = min(slices, key=lambda row: row[:3])
            title = headlines(with_value(evaluation.metrics)).get(metric, metric)
            shown = f"{number(metric_value.value)} {interval(metric_value.ci_low, metric_value.ci_high)}".rstrip()
            yield wording(
                "weakest_slice",
                column=column,
                value=value,
                metric=title,
                measured=shown,
                n=metric_value.n,
            )
            return


def _next(stored: Stored) -> Iterator[Text]:
    if stored.evaluation is not None and stored.evaluation.errors:
        yield wording("next_worst")
    few = sum(row.worded.claim.reason.startswith("few_queries") for row in stored.claims)
    if few:
        # the halves are drawn: of 80 queries one may get 36
        yield wording("next_few", n=few, least=CLAIM_QUERIES, queries=5 * CLAIM_QUERIES // 2)
    undecided = [
        (worded.claim.needs_queries, worded.short)
        for worded, anchor in stored.claims
        if anchor not in ("plan", "probe-behaviour")  # more graded pairs decide neither
        and worded.claim.needs_queries
        and worded.claim.needs_queries[1] <= MOST_QUERIES
    ]
    if undecided:
        needs, claim = min(undecided, key=lambda row: row[0][1])
        yield wording("next_queries", needs=queries_needed(needs), claim=claim)
    if stored.frontier is not None:
        yield wording("next_plan")
