"""The plan of a smaller model: its section of the report, and `plan.html`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from qt_bert.files import atomic_write
from qt_bert.report.blocks import (
    Badge,
    Block,
    Card,
    Cards,
    Cell,
    Column,
    FigureBlock,
    Interval,
    Prose,
    Section,
    Table,
    columns,
    filled,
    wording,
)
from qt_bert.report.page import page
from qt_bert.results.head_sets import set_words
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import (
    MARGIN,
    PAGE,
    TESTED,
    Expected,
    GridRow,
    MetricChange,
    Plan,
    PlanEvidence,
    PlanTest,
    Ratio,
    Verdict,
)
from qt_bert.results.probe import PairsRef, label_of
from qt_bert.run.folder import RunFolder
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Text, interval, join, number, sentences, signed

TITLE = wording("plan_smaller_model")
RHO = wording("spearman_s")
_NAMES = {TESTED: RHO, "qwk": wording("qwk_weighted")}
MEGABYTE = 1_000_000
LEAST_GAIN = 1.05
"""A plan with a smaller gain of speed is not recommended."""

VERDICTS: dict[Verdict, Badge] = {
    "non-inferior": Badge(wording("no_worse"), "good"),
    "undecided": Badge(wording("undecided"), "open"),
    "inferior": Badge(wording("worse"), "bad"),
}
_MEANINGS: dict[Verdict, Text] = {
    "non-inferior": wording("loses_no_more_than", MARGIN=MARGIN),
    "undecided": wording("these_data_cannot_tell", MARGIN=MARGIN),
    "inferior": wording("loses_more_than_fixed", MARGIN=MARGIN),
}


def render_plan(out: Path) -> Path:
    """Draw `plan.html` beside the `plan.json` of the folder `out`; return its path.

    Raises RunFolderError where the folder holds no plan of this program.
    """
    folder = RunFolder.read(out)
    section = plan_section(Plan.read(folder.file("plan.json")))
    heading, footer = wording("plan_smaller_relevance_model"), wording("made_with_plan")
    drawn = page(folder.record, (), [section], heading=heading, footer=footer)
    with atomic_write(folder.file(PAGE)) as temporary:
        temporary.write_text(drawn, encoding="utf-8")
    return folder.file(PAGE)


def plan_section(plan: Plan) -> Section:
    """The answer, its tests, the budgets with their curves, heads, risks, layers, the samples."""
    evidence = plan.evidence
    if evidence is None:
        return Section(name="plan", title=TITLE, blocks=(_layer_map(plan),))
    blocks = filled(
        Prose(body=recommended(plan, evidence)),
        Cards(cards=tuple(_cards(evidence))),
        _tests(evidence),
        _grid(evidence),
        *(FigureBlock(figure=figure) for figure in evidence.figures),
        _at_risk(evidence),
        _layer_map(plan),
        _sample(plan, evidence),
    )
    return Section(name="plan", title=TITLE, blocks=blocks)


def metric_name(name: str) -> Text:
    """A metric's display name."""
    if name in _NAMES:
        return _NAMES[name]
    return METRICS[name].title if name in METRICS else Text(name, name)


def _shown(change: MetricChange | Expected | Ratio | None) -> Interval | None:
    """A change with its interval, an expected one with that of a new sample, a ratio to the teacher."""
    match change:
        case MetricChange():
            return Interval(value=change.change, low=change.ci_low, high=change.ci_high)
        case Expected():
            return Interval(value=change.value, low=change.pi_low, high=change.pi_high)
        case Ratio():
            return Interval(value=change.value, low=change.low, high=change.high, digits=2)
    return None


def _in_words(change: MetricChange) -> str:
    """`−0.012 [−0.020, −0.004]`."""
    return f"{signed(change.change)} {interval(change.ci_low, change.ci_high)}".rstrip()


def _of(pairs: PairsRef | None, name: str = "pairs_of_file") -> Text:
    if pairs is None:
        return Text("—", "—")
    count, queries = pairs.n_pairs or 0, pairs.n_queries or 0
    return wording(name, name=pairs.name, count=count, queries=queries)


def _measured_on(evidence: PlanEvidence) -> Text:
    """The pairs on which everything but the plan itself was measured."""
    sampled = evidence.sampled
    whole = sampled is None or sampled.n_pairs in (None, evidence.validation.n_pairs)
    return wording("validation") if whole else _of(sampled, "part_of_validation")


def in_one_sentence(plan: Plan) -> Iterator[Text]:
    """A plan with its cost; nothing for a plan made by hand."""
    if plan.evidence is not None:
        yield recommended(plan, plan.evidence)


def is_faster(plan: Plan) -> bool:
    """Whether latency or throughput gains at least 5 % (True where neither was timed)."""
    speed = None if plan.evidence is None else plan.evidence.speed
    return speed is None or max(1 / speed.latency.value, speed.throughput.value) >= LEAST_GAIN


def recommended(plan: Plan, evidence: PlanEvidence) -> Text:
    """What a plan keeps, saves and costs, in words."""
    share, speed = f"{100 * evidence.size.share:.0f}", evidence.speed
    clauses = [wording("plan_keeps", budget=plan.budget.asked, kept=_kept_parts(plan), share=share)]
    if speed is not None:
        latency, rate = (number(ratio.value, 2) for ratio in (speed.latency, speed.throughput))
        clauses.append(wording("plan_speed", latency=latency, rate=rate))
        if not is_faster(plan):
            clauses.append(wording("plan_not_faster"))
        if plan.budget.kind_of == "latency" and speed.latency.value > plan.budget.value:
            clauses.append(wording("plan_over_budget"))
    return sentences((wording("sentence", clause=join(clauses, "", "")), _cost(evidence)))


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
        shown = "/".join(f"{number:,}" for number in sorted(filter(None, units)))
        parts.append(wording("units_stay", kept=shown, units=teacher.units))
    return join(parts)


def _cost(evidence: PlanEvidence) -> Text:
    validation = next((test for test in evidence.tests if test.role == "validation"), None)
    change = None if validation is None else validation.measured.get(TESTED)
    if validation is None or change is None:
        return wording("spearman_s_not_defined")
    prediction = Text("", "")
    if (expected := evidence.expected.get(TESTED)) is not None:
        ends = interval(expected.pi_low, expected.pi_high)
        name = "expected_within" if ends else "expected_at"
        prediction = wording(name, value=signed(expected.value), ends=ends)
    cost = wording("plan_costs", rho=RHO, change=_in_words(change), expected=prediction)
    others = (
        Text(*(f"{label} {_in_words(other)}" for label in (title.zh, title.en)))
        for title, other in ((metric_name(n), c) for n, c in validation.measured.items())
        if other is not change
    )
    cost = join((cost, *others), "，", ", ")
    if validation.verdict is not None:
        cost = wording("plan_costs_judged", cost=cost, verdict=_MEANINGS[validation.verdict])
    return wording("sentence", clause=cost)


def _cards(evidence: PlanEvidence) -> Iterator[Card]:
    stored, whole = (
        f"{size.stored / MEGABYTE:.1f} MB" for size in (evidence.size, evidence.teacher_size)
    )
    yield Card(
        title=wording("parameters"),
        value=Interval(value=100 * evidence.size.share, low=None, high=None, unit="%", digits=0),
        base=wording("float16", stored=stored, whole=whole),
    )
    speed = evidence.speed
    if speed is not None:
        for title, ratio, pairs in (
            ("latency_one_pair", speed.latency, speed.pairs),
            ("throughput_bulk", speed.throughput, speed.bulk_pairs),
        ):
            base = wording("timed_in_turns" if pairs is None else "timed_on_pairs", pairs=pairs)
            value = Interval(
                value=ratio.value, low=ratio.low, high=ratio.high, unit=wording("times"), digits=2
            )
            yield Card(title=wording(title), value=value, base=base)
    for test in evidence.tests:
        change = _shown(test.measured.get(TESTED))
        if change is not None:
            base = wording("file_and_pairs", name=test.pairs.name, pairs=test.pairs.n_pairs or 0)
            yield Card(title=wording("change_of_rho", RHO=RHO), value=change, base=base)


_ROLES = {"validation": wording("validation"), "held out": wording("held_out")}


def _tests(evidence: PlanEvidence) -> Table:
    """Every metric on every file, and the verdict of the test."""
    return Table(
        name="plan_tests",
        title=wording("one_plan_tested"),
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
    """How to read the tests, the least detectable loss, and ρ of a model of one logit."""
    yield wording("chosen_discovery_here_only", MARGIN=MARGIN)
    for test in evidence.tests[:1]:
        change = test.measured.get(TESTED)
        if change is not None and change.ci_low is not None and change.ci_high is not None:
            half = number((change.ci_high - change.ci_low) / 2)
            yield wording("change_must_exceed_about", name=test.pairs.name, half=half)
    if any("pairwise_accuracy" in test.measured for test in evidence.tests):
        yield wording("note_one_logit")


_INSIDE, _OUTSIDE = Badge(wording("inside"), "good"), Badge(wording("outside"), "bad")


def _grid(evidence: PlanEvidence) -> Table:
    """A row a budget; the note counts those inside their prediction interval."""
    note = wording("all_without_training_measured", where=_measured_on(evidence))
    return Table(
        name="plan_grid",
        title=wording("budgets_quality_speed_size"),
        columns=(
            *columns(
                of="budget_kept",
                kept="grid_kept",
                expected="expected_prediction",
                measured="measured_95_interval",
                inside="as_predicted",
                latency="latency",
                throughput="throughput",
                parameters="grid_parameters",
            ),
            Column("megabytes", wording("memory_disk_mb_float16"), digits=1),
        ),
        rows=tuple(map(_grid_row, evidence.grid)),
        note=sentences((note, *_counts(evidence.grid))),
        grouped=True,
    )


def _grid_row(row: GridRow) -> tuple[Cell, ...]:
    inside, speed = row.inside(), row.speed
    return (
        wording("some_heads" if row.of == "heads" else "some_layers"),
        f"{row.kept} ({100 * row.share:.0f} %)",
        _shown(row.expected.get(TESTED)),
        _shown(row.measured.get(TESTED)),
        None if inside is None else _INSIDE if inside else _OUTSIDE,
        None if speed is None else _shown(speed.latency),
        None if speed is None else _shown(speed.throughput),
        row.size.parameters,
        row.size.stored / MEGABYTE,
    )


def _counts(rows: tuple[GridRow, ...]) -> Iterator[Text]:
    """How many measured budgets lie inside their prediction interval, and which do not."""
    tested = [row for row in rows if row.inside() is not None]
    outside = [row for row in tested if not row.inside()]
    if tested:
        keys = {"heads": "heads_kept", "layers": "layers_kept"}
        names = join(wording(keys[row.of], kept=row.kept) for row in outside)
        name = "budgets_outside" if outside else "budgets_inside"
        yield wording(name, total=len(tested), inside=len(tested) - len(outside), names=names)


def _at_risk(evidence: PlanEvidence) -> Block:
    """The functions whose heads are removed."""
    if evidence.functions == "none":
        return Prose(title=wording("what_at_risk"), body=wording("this_model_s_heads"))
    of_run = evidence.functions == "run"
    source = wording("functions_those_this_run" if of_run else "functions_those_heads_json")
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
        note=wording("s_change_measured_with", source=source, where=_measured_on(evidence)),
        folded=True,
    )


def _layer_map(plan: Plan) -> Table:
    """A row a layer of the smaller model."""
    kept = {layer.layer: layer for layer in plan.kept}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            f"L{layer.student}",
            f"L{layer.starts_as}",
            f"L{layer.imitates}",
            len(kept[layer.starts_as].heads),
            _heads(kept[layer.starts_as], plan.teacher.heads),
            kept[layer.starts_as].units or plan.teacher.units,
        )
        for layer in plan.layer_map
    )
    return Table(
        name="plan_layer_map",
        title=wording("layer_map_student_teacher"),
        columns=(
            *columns(
                student="layer_student",
                starts="starts_as_teacher_s",
                imitates="imitates_output",
                heads="how_many",
            ),
            Column("which", wording("heads_stay"), whole=True),
            Column("units", wording("feed_forward_units")),
        ),
        rows=rows,
        note=wording("when_distilling_each_layer"),
        folded=True,
    )


def _heads(kept: KeptLayer, heads: int) -> Text | str:
    if len(kept.heads) == heads:
        return wording("all")
    return " ".join(f"H{head}" for head in kept.heads) or wording("no_head")


def _sample(plan: Plan, evidence: PlanEvidence) -> Prose:
    stands = wording("nothing_stands_in" if plan.replacement == "zero" else "mean_stands_in")
    on = {"discovery": _of(evidence.discovery), "validation": _of(evidence.validation)}
    texts = [wording("chosen_and_tested_on", **on, stands=stands)]
    if evidence.cost is not None:
        texts.append(wording("choosing_cost", cost=evidence.cost))
    if evidence.profile == "quick":
        texts.append(wording("quick_plan"))
    return Prose(title=wording("sample"), body=sentences(texts))
