"""The report's sections, in one list; the small ones whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from qt_bert.probes.wording import question_of
from qt_bert.report.answer import ANSWER
from qt_bert.report.blocks import Block, Card, Column, Folded, Prose, Section, Table
from qt_bert.report.comparison import (
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
    judged,
    metrics,
    per_grade,
    read_evaluation,
    reliability,
    slices,
    summary_cards,
    worst_errors,
)
from qt_bert.report.plan import TITLE, plan_blocks, read_plan
from qt_bert.report.probes import (
    anchor_of,
    atlas,
    probe_blocks,
    read_probes,
    title_of,
)
from qt_bert.report.words import say
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import RunFolder
from qt_bert.text import plain


def _build_atlas(folder: RunFolder) -> Sequence[Block] | None:
    blocks = list(atlas(read_probes(folder)))
    comparison = read_comparison(folder)
    if comparison is not None:
        _, other = names(comparison)
        blocks += atlas(read_compared_probes(folder), "_b", other)
    return blocks or None


ATLAS = Section(name="atlas", order=50, title=say("head_atlas"), build=_build_atlas)


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
    title=say("two_models_compared"),
    build=_build_comparison,
)


# How well the model grades.


def _build_evaluation(folder: RunFolder) -> Sequence[Block] | None:
    evaluation = read_evaluation(folder)
    if evaluation is None:
        return None
    return (
        judged(evaluation, folder.record),
        *examples(evaluation),
        *confusion(evaluation),
        *reliability(evaluation),
        *worst_errors(evaluation),
        metrics(evaluation),
        *slices(evaluation),
        *per_grade(evaluation),
        *confusion_counts(evaluation),
    )


def _cards(folder: RunFolder) -> Sequence[Card]:
    evaluation = read_evaluation(folder)
    return () if evaluation is None else summary_cards(evaluation)


EVALUATION = Section(
    name="evaluation",
    order=10,
    title=say("evaluation"),
    build=_build_evaluation,
    cards=_cards,
)


def _build_model_card(folder: RunFolder) -> Sequence[Block] | None:
    evaluation = read_evaluation(folder)
    if evaluation is None or not evaluation.card:
        return None
    card = Prose(body=evaluation.card, preformatted=True)
    return (Folded(title=say("whole_card"), blocks=(card,)),)


MODEL_CARD = Section(name="model_card", order=900, title=say("model_card"), build=_build_model_card)


def _build_plan(folder: RunFolder) -> Sequence[Block] | None:
    plan = read_plan(folder)
    return None if plan is None else plan_blocks(plan)


PLAN = Section(name="plan", order=60, title=TITLE, build=_build_plan)


_AFTER_EVALUATION = 100


def probe_sections(folder: RunFolder) -> tuple[Section, ...]:
    """A section for each result that is there."""
    return tuple(probe_section(result, place) for place, result in enumerate(read_probes(folder)))


def probe_section(result: ProbeResult, place: int) -> Section:
    """The section of one result, the `place`th of them."""

    def build(folder: RunFolder) -> Sequence[Block]:
        return probe_blocks(result, question_of(result.probe))

    return Section(
        name=anchor_of(result),
        order=_AFTER_EVALUATION + place,
        title=title_of(result),
        build=build,
    )


# How this report came about: stages, times, arguments, versions, checks.


_STATES = {
    "done": say("done"),
    "running": say("interrupted"),
    "pending": say("not_run"),
}


def _build_run(folder: RunFolder) -> Sequence[Block]:
    record = folder.record
    stages = Table(
        name="stages",
        title=say("stages"),
        columns=(
            Column("stage", say("stage")),
            Column("status", say("status")),
            Column("seconds", say("time_s"), digits=1),
        ),
        rows=tuple((n, _STATES[s.status], s.seconds) for n, s in record.stages.items()),
        folded=True,
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
        "argument": say("arguments"),
        "version": say("versions"),
        "guard": say("equivalence_checks"),
    }
    return Table(
        name="run",
        title=say("arguments_versions_equivalence_checks"),
        columns=(
            Column("group", say("group")),
            Column("name", say("name")),
            Column("value", say("value_cell")),
        ),
        rows=tuple((groups[group], name, plain(value)) for group, name, value in facts),
        grouped=True,
        folded=True,
    )


RUN = Section(name="run", order=950, title=say("this_run"), build=_build_run)


SECTIONS = (ANSWER, EVALUATION, COMPARISON, ATLAS, PLAN, MODEL_CARD, RUN)


def sections(folder: RunFolder) -> tuple[Section, ...]:
    """All sections of this run, in the order of the page."""
    found = (*SECTIONS, *probe_sections(folder))
    return tuple(sorted(found, key=lambda section: (section.order, section.name)))
