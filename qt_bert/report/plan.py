"""The plan under a budget: what goes, its test, the grid of budgets, the functions at risk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap

from qt_bert.report.blocks import (
    Badge,
    Block,
    Cell,
    Column,
    FigureBlock,
    Interval,
    Prose,
    Table,
    columns,
    filled,
    wording,
)
from qt_bert.results.head_sets import set_words
from qt_bert.results.plan import (
    MARGIN,
    TESTED,
    GridRow,
    MetricChange,
    Plan,
    PlanEvidence,
    PlanTest,
    Verdict,
)
from qt_bert.results.probe import PairsRef, label_of
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Text, interval, join, number, sentences, signed

RHO = wording("rho")
_NAMES = {TESTED: RHO, "qwk": wording("qwk_weighted")}
MEGABYTE = 1_000_000

VERDICTS: dict[Verdict, Badge] = {
    "non-inferior": Badge(wording("no_worse"), "good"),
    "undecided": Badge(wording("undecided"), "open"),
    "inferior": Badge(wording("worse"), "bad"),
}
_MEANINGS: dict[Verdict, Text] = {
    "non-inferior": wording("plan_non_inferior", MARGIN=MARGIN),
    "undecided": wording("plan_undecided", MARGIN=MARGIN),
    "inferior": wording("plan_inferior", MARGIN=MARGIN),
}


def plan_blocks(plan: Plan) -> tuple[Block, ...]:
    """The answer, its tests, the budgets with their curves, heads, risks, the samples."""
    evidence = plan.evidence
    if evidence is None:
        return ()
    return filled(
        Prose(body=redundant(plan, evidence)),
        _tests(evidence),
        _grid(evidence),
        *(FigureBlock(figure=figure) for figure in evidence.figures),
        _at_risk(evidence),
        _sample(evidence),
    )


def metric_name(name: str) -> Text:
    """A metric's display name."""
    if name in _NAMES:
        return _NAMES[name]
    return METRICS[name].title if name in METRICS else Text(name, name)


def _shown(change: MetricChange | None) -> Interval | None:
    """A change with its interval."""
    if change is None:
        return None
    return Interval(value=change.change, low=change.ci_low, high=change.ci_high)


def in_words(value: float, low: float | None, high: float | None) -> str:
    """A change with its interval: `−0.012 [−0.020, −0.004]`."""
    return f"{signed(value)} {interval(low, high)}".rstrip()


def named(metric: str, change: str) -> Text:
    """A change behind its metric's name."""
    name = metric_name(metric)
    return Text(f"{name.zh} {change}", f"{name.en} {change}")


def of_pairs(pairs: PairsRef, name: str = "pairs_of_file") -> Text:
    """The file, with its numbers of pairs and queries."""
    count, queries = pairs.n_pairs or 0, pairs.n_queries or 0
    return wording(name, name=pairs.name, count=count, queries=queries)


def _measured_on(evidence: PlanEvidence) -> Text:
    """The pairs on which everything but the plan itself was measured."""
    sampled = evidence.sampled
    if sampled is None or sampled.n_pairs in (None, evidence.validation.n_pairs):
        return wording("validation")
    return of_pairs(sampled, "part_of_validation")


def redundant(plan: Plan, evidence: PlanEvidence) -> Text:
    """What a plan keeps and costs, in words."""
    share = f"{100 * evidence.size.share:.0f}"
    kept = wording("plan_keeps", budget=plan.budget.asked, kept=_kept_parts(plan), share=share)
    return sentences((wording("sentence", clause=kept), _cost(evidence)))


def _kept_parts(plan: Plan) -> Text:
    """The layers, heads and units that a plan keeps, where it does not keep all."""
    teacher, kept = plan.teacher, len(plan.kept)
    heads = sum(len(layer.heads) for layer in plan.kept)
    parts = []
    if kept < teacher.layers:
        parts.append(wording("layers_stay", kept=kept, layers=teacher.layers))
    if heads < kept * teacher.heads:
        name = "heads_of_those_stay" if parts else "heads_of_all_stay"
        parts.append(wording(name, kept=heads, heads=kept * teacher.heads))
    units = {layer.units for layer in plan.kept if layer.units not in (None, teacher.units)}
    if units:
        shown = "/".join(f"{count:,}" for count in sorted(filter(None, units)))
        parts.append(wording("units_stay", kept=shown, units=teacher.units))
    return join(parts)


def _cost(evidence: PlanEvidence) -> Text:
    validation = next((test for test in evidence.tests if test.role == "validation"), None)
    if validation is None or TESTED not in validation.measured:
        return wording("rho_undefined")
    changes = {
        name: in_words(change.change, change.ci_low, change.ci_high)
        for name, change in validation.measured.items()
    }
    cost = wording("plan_costs", rho=RHO, change=changes.pop(TESTED))
    cost = join((cost, *starmap(named, changes.items())), "，", ", ")
    if validation.verdict is not None:
        cost = wording("plan_costs_judged", cost=cost, verdict=_MEANINGS[validation.verdict])
    return wording("sentence", clause=cost)


_ROLES = {"validation": wording("validation"), "held out": wording("held_out")}


def _tests(evidence: PlanEvidence) -> Table:
    """Every metric on every file, and the verdict of the test."""
    return Table(
        name="plan_tests",
        title=wording("plan_tests"),
        columns=columns(
            file="file",
            metric="metric",
            whole="whole_model",
            smaller="smaller",
            change="change_interval",
            verdict="verdict",
            pairs="pairs",
            queries="queries",
        ),
        rows=tuple(row for test in evidence.tests for row in _test_rows(test)),
        note=sentences(_test_notes(evidence)),
        grouped=True,
    )


def _test_rows(test: PlanTest) -> Iterator[tuple[Cell, ...]]:
    coarse = wording("coarse_labels") if test.coarse else ""
    name = wording("tested_on", name=test.pairs.name, role=_ROLES[test.role], coarse=coarse)
    for metric, change in test.measured.items():
        judged = metric == TESTED and test.verdict is not None
        yield (
            name,
            metric_name(metric),
            change.base,
            change.value,
            _shown(change),
            VERDICTS[test.verdict] if judged and test.verdict else None,
            test.pairs.n_pairs,
            test.pairs.n_queries,
        )


def _test_notes(evidence: PlanEvidence) -> Iterator[Text]:
    """How to read the tests, and the least detectable loss."""
    yield wording("tests_note", MARGIN=MARGIN)
    for test in evidence.tests[:1]:
        change = test.measured.get(TESTED)
        if change is not None and change.ci_low is not None and change.ci_high is not None:
            half = number((change.ci_high - change.ci_low) / 2)
            yield wording("least_change", name=test.pairs.name, half=half)


def _grid(evidence: PlanEvidence) -> Table:
    """A row a budget."""
    return Table(
        name="plan_grid",
        title=wording("budgets"),
        columns=(
            *columns(
                of="kept",
                kept="kept",
                measured="rho_measured",
                parameters="grid_parameters",
            ),
            Column("megabytes", wording("megabytes"), digits=1),
        ),
        rows=tuple(map(_grid_row, evidence.grid)),
        note=wording("grid_note", where=_measured_on(evidence)),
        grouped=True,
    )


def _grid_row(row: GridRow) -> tuple[Cell, ...]:
    return (
        wording("some_heads" if row.of == "heads" else "some_layers"),
        f"{row.kept} ({100 * row.share:.0f} %)",
        _shown(row.measured.get(TESTED)),
        row.size.parameters,
        row.size.stored / MEGABYTE,
    )


def _at_risk(evidence: PlanEvidence) -> Block:
    """The functions whose heads are removed."""
    if evidence.functions == "none":
        return Prose(title=wording("what_at_risk"), body=wording("heads_unstudied"))
    of_run = evidence.functions == "run"
    source = wording("functions_of_run" if of_run else "functions_of_file")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            label_of(row.name, unstable=row.unstable),
            set_words(row.name).does,
            len(row.lost),
            len(row.heads),
            _shown(row.measured),
            " ".join(row.lost) or None,
        )
        for row in evidence.at_risk
    )
    return Table(
        name="plan_at_risk",
        title=wording("what_at_risk"),
        columns=(
            *columns(
                set="set_of_heads",
                does="what_they_do",
                lost="lost",
                of="out_of",
                change="without_these_alone",
            ),
            Column("which", wording("which_go"), whole=True),
        ),
        rows=rows,
        note=wording("at_risk_note", source=source, where=_measured_on(evidence)),
        folded=True,
    )


def _sample(evidence: PlanEvidence) -> Prose:
    on = {"discovery": of_pairs(evidence.discovery), "validation": of_pairs(evidence.validation)}
    texts = [wording("chosen_and_tested_on", **on)]
    if evidence.cost is not None:
        texts.append(wording("choosing_cost", cost=evidence.cost))
    if evidence.profile == "quick":
        texts.append(wording("quick_plan"))
    return Prose(title=wording("sample"), body=sentences(texts))
