"""The first screen: what model on what pairs, the twelve claims, what may go, what to look at next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from qt_bert.report import plan
from qt_bert.report.blocks import Column, Link, Listing, Prose, Section, Table, columns, filled
from qt_bert.report.evaluation import headlines, with_value
from qt_bert.report.probes import badge, measured, source_value
from qt_bert.report.stored import Stored
from qt_bert.report.words import wording
from qt_bert.results.evaluation import EvaluationResult
from qt_bert.results.probe import set_label
from qt_bert.stats.verdict import MOST_QUERIES
from qt_bert.text import Text, interval, join, number, shortest

LEAST_PAIRS = 30
"""A slice of fewer pairs is never called the weakest."""
MOST_HEADS = 6
SHOWN_SETS = ("matching", "boundary", "order", "reader")


def answer_section(stored: Stored) -> Section | None:
    """What was judged, every claim, and a line each on heads, faults, plan, and what comes next."""
    lines = {
        "heads": _heads(stored),
        "breaks": list(_breaks(stored)),
        "plan": [] if stored.plan is None else list(plan.in_one_sentence(stored.plan)),
        "next": list(_next(stored)),
    }
    rows = tuple((wording(name), tuple(said)) for name, said in lines.items() if said)
    blocks = filled(
        None if stored.evaluation is None else _subject(stored, stored.evaluation),
        _claims(stored),
        Listing(rows=rows) if rows else None,
    )
    return Section(name="answer", title=wording("answer"), blocks=blocks) if blocks else None


def _subject(stored: Stored, evaluation: EvaluationResult) -> Prose:
    model, pairs = evaluation.judged_model(), evaluation.pairs
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
        )
    )


def _claims(stored: Stored) -> Table:
    counts = Counter(one.said.claim.verdict for one in stored.claims)
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
            *columns(verdict="verdict", value="value", source="source_value"),
        ),
        rows=tuple(
            (
                Link(said.short, anchor),
                badge(said),
                measured(said),
                source_value(said.claim.source),
            )
            for said, anchor in stored.claims
        ),
        note=wording("claims_note", tally=tally),
    )


# What the heads do, what breaks the model, what to look at next: a line each.


def _heads(stored: Stored) -> list[Text]:
    """The heads of the sets that the claims are about, in one line."""
    found = []
    for result in stored.probes:
        for name in SHOWN_SETS:
            if heads := result.sets.get(name, ()):
                shown: str | Text = " ".join(heads[:MOST_HEADS])
                if len(heads) > MOST_HEADS:
                    shown = wording("heads_more", heads=shown, n=len(heads))
                found.append(
                    wording("heads_of", name=set_label(name, result.stability), heads=shown)
                )
    return [join(found, "；", "; ")] if found else []


def _breaks(stored: Stored) -> Iterator[Text]:
    for result in stored.probes:
        facts = result.facts
        if facts.get("hardest") and facts.get("most_moved"):
            hardest, moved = _text(facts["hardest"]), _text(facts["most_moved"])
            score = facts["hardest_score"]
            yield wording("hardest", phenomenon=hardest, score=score, moved=moved)
    if stored.evaluation is not None:
        yield from _weakest(stored.evaluation)


def _text(fact: Any) -> Text:
    """A fact that is a text, as JSON holds it."""
    return fact if isinstance(fact, Text) else Text(fact["zh"], fact["en"])


def _weakest(evaluation: EvaluationResult) -> Iterator[Text]:
    """The slice with the lowest accuracy, or where there is none ρ, of those large enough."""
    for metric in ("accuracy", "spearman"):
        found = [
            (one.value, column, value, one)
            for column, values in evaluation.slices.items()
            for value, metrics in values.items()
            if (one := metrics.get(metric)) is not None
            and one.value is not None
            and (one.n or 0) >= LEAST_PAIRS
        ]
        if found:
            _, column, value, one = min(found, key=lambda each: each[:3])
            title = headlines(with_value(evaluation.metrics)).get(metric, metric)
            shown = f"{number(one.value)} {interval(one.ci_low, one.ci_high)}".rstrip()
            yield wording(
                "next_slice", column=column, value=value, metric=title, measured=shown, n=one.n
            )
            return


def _next(stored: Stored) -> Iterator[Text]:
    if stored.evaluation is not None and stored.evaluation.errors:
        yield wording("next_worst")
    undecided = [
        (said.claim.needs_queries, said.short)
        for said, anchor in stored.claims
        if anchor != "plan" and (said.claim.needs_queries or MOST_QUERIES + 1) <= MOST_QUERIES
    ]
    if undecided:
        needs, claim = min(undecided, key=lambda one: one[0] or 0)
        yield wording("next_queries", needs=f"{needs:,}", claim=claim)
    if stored.plan is not None:
        yield wording("next_plan")
