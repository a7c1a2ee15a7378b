"""The first screen: what model on what pairs, the twelve claims, what may go, what to look at next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from qt_bert.files import sha256_file
from qt_bert.probes.wording import ClaimInWords, claims_in_words, plan_claim_in_words
from qt_bert.report.blocks import (
    Block,
    Column,
    Link,
    Listing,
    Prose,
    Section,
    Table,
)
from qt_bert.report.comparison import beside, read_comparison
from qt_bert.report.evaluation import headlines, read_evaluation, with_value
from qt_bert.report.plan import read_plan
from qt_bert.report.plan_summary import in_one_sentence
from qt_bert.report.probes import anchor_of, badge, measured, read_probes, source_value
from qt_bert.report.words import say
from qt_bert.results.evaluation import EvaluationResult, MetricValue
from qt_bert.results.plan import Plan
from qt_bert.results.probe import ProbeResult, set_label
from qt_bert.run.folder import RunFolder, read_plan_claim
from qt_bert.shipped import TEST, shipped, ships
from qt_bert.stats.verdict import MOST_QUERIES
from qt_bert.text import Text, interval, listed, number, shortest

LEAST_PAIRS = 30
"""A slice of fewer pairs is never called the weakest."""
MOST_HEADS = 6
SHOWN_SETS = ("matching", "boundary", "order", "reader")


def _build(folder: RunFolder) -> Sequence[Block] | None:
    evaluation, compared = read_evaluation(folder), read_comparison(folder)
    probes, plan = read_probes(folder), read_plan(folder)
    blocks = [
        *(() if evaluation is None else (_subject(evaluation, judged_on_shipped(folder)),)),
        *(() if compared is None else (Prose(body=beside(compared)),)),
        *_claims(folder),
        *_lines(evaluation, probes, plan),
    ]
    return blocks or None


ANSWER = Section(name="answer", order=0, title=say("answer"), build=_build)


def _subject(evaluation: EvaluationResult, shipped_pairs: bool) -> Prose:
    model, pairs = evaluation.model, evaluation.pairs
    return Prose(
        body=say(
            "subject",
            model=model.name,
            layers=model.layers,
            heads=model.heads,
            millions=shortest(model.parameters / 1e6),
            pairs=pairs.name,
            n=pairs.n_pairs,
            queries=pairs.n_queries,
            labels=say("labels_shipped" if shipped_pairs else "labels_own"),
        )
    )


def judged_on_shipped(folder: RunFolder) -> bool:
    """Whether the run's pairs are the test split that ships."""
    return ships(TEST) and folder.record.inputs.pairs.sha256 == sha256_file(shipped(TEST))


def standing(folder: RunFolder) -> Text:
    """What the verdicts are worth on the split that ships; nothing elsewhere."""
    return say("exploratory") if judged_on_shipped(folder) else Text("", "")


# The twelve claims.


class ClaimOf(NamedTuple):
    """A claim in words, and the section that tells more of it."""

    said: ClaimInWords
    anchor: str


def all_claims(folder: RunFolder) -> list[ClaimOf]:
    """The claims of the run's probes and of its plan, in the order of the report; one family."""
    said = [
        ClaimOf(claim, anchor_of(result))
        for result in read_probes(folder)
        for claim in claims_in_words(result)
    ]
    kept = read_plan_claim(folder)
    return said if kept is None else [*said, ClaimOf(plan_claim_in_words(kept), "plan")]


def _claims(folder: RunFolder) -> Iterator[Table]:
    listed = all_claims(folder)
    if not listed:
        return
    counts = Counter(one.said.claim.verdict for one in listed)
    tally = say(
        "tally",
        total=len(listed),
        reproduced=counts["reproduced"],
        not_reproduced=counts["not reproduced"],
        inconclusive=counts["inconclusive"],
        not_testable=counts["not testable"],
    )
    yield Table(
        name="claims",
        title=say("claims"),
        columns=(
            Column("claim", say("claim"), whole=True),
            Column("verdict", say("verdict")),
            Column("value", say("value")),
            Column("source", say("source_value")),
        ),
        rows=tuple(
            (
                Link(said.short, anchor),
                badge(said),
                measured(said),
                source_value(said.claim.source),
            )
            for said, anchor in listed
        ),
        note=say("claims_note", tally=tally, standing=standing(folder)),
    )


# What the heads do, what may go, what to look at next: a line each.


def _lines(
    evaluation: EvaluationResult | None, probes: Sequence[ProbeResult], plan: Plan | None
) -> Iterator[Listing]:
    listed = [
        (say("heads"), tuple(_in_a_row(_heads(probes)))),
        (say("breaks"), tuple(_breaks(evaluation, probes))),
        (say("plan"), () if plan is None else tuple(in_one_sentence(plan))),
        (say("next"), tuple(_next(evaluation, probes, plan))),
    ]
    rows = tuple((title, lines) for title, lines in listed if lines)
    if rows:
        yield Listing(rows=rows)


def _heads(probes: Sequence[ProbeResult]) -> Iterator[Text]:
    for result in probes:
        for name in SHOWN_SETS:
            heads = result.sets.get(name, ())
            if not heads:
                continue
            shown = Text(*(2 * (" ".join(heads[:MOST_HEADS]),)))
            if len(heads) > MOST_HEADS:
                shown = say("heads_more", heads=shown, n=len(heads))
            yield say("heads_of", name=set_label(name, result.stability), heads=shown)


def _in_a_row(said: Iterator[Text]) -> Iterator[Text]:
    """All of them as one line."""
    found = list(said)
    if found:
        yield listed(found, "；", "; ")


def _breaks(evaluation: EvaluationResult | None, probes: Sequence[ProbeResult]) -> Iterator[Text]:
    for result in probes:
        if result.facts.get("hardest") and result.facts.get("most_moved"):
            yield say(
                "hardest",
                phenomenon=_text(result.facts["hardest"]),
                score=result.facts["hardest_score"],
                moved=_text(result.facts["most_moved"]),
            )
    weakest = None if evaluation is None else _weakest(evaluation)
    if weakest is not None:
        yield weakest


def _text(stored: Any) -> Text:
    """A fact that is a text, as JSON holds it."""
    return stored if isinstance(stored, Text) else Text(stored["zh"], stored["en"])


def _next(
    evaluation: EvaluationResult | None, probes: Sequence[ProbeResult], plan: Plan | None
) -> Iterator[Text]:
    if evaluation is not None and evaluation.errors:
        yield say("next_worst")
    undecided = [
        (claim.claim.needs_queries, claim)
        for result in probes
        for claim in claims_in_words(result)
        if claim.claim.needs_queries is not None and claim.claim.needs_queries <= MOST_QUERIES
    ]
    if undecided:
        needs, claim = min(undecided, key=lambda one: one[0])
        yield say("next_queries", needs=f"{needs:,}", claim=claim.short)
    if plan is not None:
        yield say("next_plan")


def _weakest(evaluation: EvaluationResult) -> Text | None:
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
            return say(
                "next_slice",
                column=column,
                value=value,
                metric=headlines(with_value(evaluation)).get(metric, Text(metric, metric)),
                measured=_in_words(one),
                n=one.n,
            )
    return None


def _in_words(metric: MetricValue) -> str:
    return f"{number(metric.value)} {interval(metric.ci_low, metric.ci_high)}".rstrip()
