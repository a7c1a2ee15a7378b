"""The plan of a smaller model, for whoever decides about it: the section, and `plan.html`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from qt_bert.figures import Curve
from qt_bert.files import atomic_write
from qt_bert.report.blocks import (
    Badge,
    Block,
    Cell,
    Column,
    Drawn,
    FigureBlock,
    Prose,
    Section,
    Table,
)
from qt_bert.report.page import page
from qt_bert.report.plan_offline import offline
from qt_bert.report.plan_summary import (
    MEGABYTE,
    VERDICTS,
    answer,
    change,
    expected,
    measured_on,
    metric_name,
    ratio,
)
from qt_bert.report.words import say
from qt_bert.results.head_sets import set_words
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import (
    MARGIN,
    TESTED,
    AtRisk,
    GridRow,
    LayerEffect,
    Plan,
    PlanEvidence,
    PlanTest,
)
from qt_bert.results.probe import PairsRef, label_of
from qt_bert.run.alone import PAGE
from qt_bert.run.folder import RunFolder
from qt_bert.text import Text, counted, joined, listed, number

# The grid of budgets: what each is expected to cost, what was measured, and what it saves.


_INSIDE = Badge(say("inside"), "good")
_OUTSIDE = Badge(say("outside"), "bad")


def grid(evidence: PlanEvidence) -> tuple[Block, ...]:
    """A row a budget, and how many came out as predicted."""
    if not evidence.grid:
        return ()
    where = measured_on(evidence)
    return (
        Table(
            name="plan_grid",
            title=say("budgets_quality_speed_size"),
            columns=(
                Column("of", say("budget_kept")),
                Column("kept", say("grid_kept")),
                Column("expected", say("expected_prediction")),
                Column("measured", say("measured_95_interval")),
                Column("inside", say("as_predicted")),
                Column("latency", say("latency")),
                Column("throughput", say("throughput")),
                Column("parameters", say("grid_parameters")),
                Column(
                    "megabytes",
                    say("memory_disk_mb_float16"),
                    digits=1,
                ),
            ),
            rows=tuple(map(_row, evidence.grid)),
            note=say("all_without_training_measured", where=where),
            grouped=True,
        ),
        *_how_many(evidence.grid),
    )


def _row(row: GridRow) -> tuple[Cell, ...]:
    inside = row.inside()
    speed = row.speed
    return (
        say("some_heads") if row.of == "heads" else say("some_layers"),
        f"{row.kept} ({100 * row.share:.0f} %)",
        expected(row.expected.get(TESTED)),
        change(row.measured.get(TESTED)),
        None if inside is None else _INSIDE if inside else _OUTSIDE,
        None if speed is None else ratio(speed.latency),
        None if speed is None else ratio(speed.throughput),
        row.size.parameters,
        row.size.stored / MEGABYTE,
    )


def _how_many(rows: Sequence[GridRow]) -> tuple[Block, ...]:
    known = [row for row in rows if row.inside() is not None]
    if not known:
        return ()
    outside = [row for row in known if not row.inside()]
    inside = len(known) - len(outside)
    budgets = counted(len(known), "budget")
    said = [say("budgets_inside", known=len(known), inside=inside, known_budget=budgets)]
    if outside:
        names = listed(_stays(row.of, row.kept) for row in outside)
        said.append(say("budgets_outside", names=names))
    return (Prose(body=say("sentence", said=listed(said, "；", "; "))),)


def rivals(evidence: PlanEvidence) -> tuple[Block, ...]:
    """How other ways to choose measure up, to open."""
    if not evidence.rivals:
        return ()
    where = measured_on(evidence)
    return (
        Table(
            name="plan_rivals",
            title=say("same_budgets_chosen_other"),
            columns=(
                Column("budget", say("budget")),
                Column("way", say("way")),
                Column("change", say("change_95_interval")),
                Column("ahead", say("this_plan_ahead_95")),
            ),
            rows=tuple(
                (_stays(one.of, one.kept), one.name, change(one.measured), change(one.ahead))
                for one in sorted(evidence.rivals, key=lambda one: (one.of, -one.kept))
            ),
            note=say("measured_without_training_differences", where=where),
            grouped=True,
            folded=True,
        ),
    )


def _stays(of: str, kept: int) -> Text:
    if of == "heads":
        return say("heads_kept", kept=kept, kept_head=counted(kept, "head"))
    return say("kept", kept=kept, kept_layer=counted(kept, "layer"))


# Which heads go, what they do, and what is at risk.


_SOURCES = {
    "run": say("functions_those_this_run"),
    "heads.json": say("functions_those_heads_json"),
}
_NOT_STUDIED = say("this_model_s_heads")


def at_risk(evidence: PlanEvidence) -> tuple[Block, ...]:
    """The functions whose heads are lost."""
    if evidence.functions == "none":
        return (Prose(title=say("what_at_risk"), body=_NOT_STUDIED),)
    if not evidence.at_risk:
        return ()
    source, where = _SOURCES[evidence.functions], measured_on(evidence)
    return (
        Table(
            name="plan_at_risk",
            title=say("what_at_risk"),
            columns=(
                Column("set", say("set_of_heads")),
                Column("does", say("what_they_do")),
                Column("lost", say("lost")),
                Column("of", say("out_of")),
                Column("change", say("without_these_alone")),
                Column("which", say("which_go"), whole=True),
            ),
            rows=tuple(map(_risk_row, evidence.at_risk)),
            note=say("s_change_measured_with", source=source, where=where),
            folded=True,
        ),
    )


def _risk_row(one: AtRisk) -> tuple[Cell, ...]:
    return (
        label_of(one.name, unstable=one.unstable),
        set_words(one.name).does,
        len(one.lost),
        len(one.heads),
        change(one.measured),
        " ".join(one.lost) or None,
    )


# Which layers stay, what each is worth, and which a student's layers imitate.


def layer_map(plan: Plan) -> tuple[Block, ...]:
    """A row a layer of the smaller model."""
    kept = {one.layer: one for one in plan.kept}
    return (
        Table(
            name="plan_layer_map",
            title=say("layer_map_student_teacher"),
            columns=(
                Column("student", say("layer_student")),
                Column("starts", say("starts_as_teacher_s")),
                Column("imitates", say("imitates_output")),
                Column("heads", say("number_of_heads")),
                Column("which", say("heads_stay"), whole=True),
                Column("units", say("feed_forward_units")),
            ),
            rows=tuple(
                (
                    f"L{one.student}",
                    f"L{one.starts_as}",
                    f"L{one.imitates}",
                    len(kept[one.starts_as].heads),
                    _heads(kept[one.starts_as], plan.teacher.heads),
                    kept[one.starts_as].units or plan.teacher.units,
                )
                for one in plan.layer_map
            ),
            note=say("when_distilling_each_layer"),
            folded=True,
        ),
    )


def _heads(kept: KeptLayer, heads: int) -> Text | str:
    if len(kept.heads) == heads:
        return say("all")
    return " ".join(f"H{head}" for head in kept.heads) or say("no_head")


def layer_effects(effects: tuple[LayerEffect, ...]) -> tuple[Block, ...]:
    """What leaving out each layer costs, and the turn in which it would go."""
    if not effects:
        return ()
    return (
        Table(
            name="plan_layer_effects",
            title=say("what_leaving_out_layer"),
            columns=(
                Column("layer", say("layer")),
                Column(
                    "heads",
                    say("loss_added_without_heads"),
                    digits=4,
                ),
                Column("block", say("loss_added_without_all"), digits=4),
                Column("turn", say("turn_go")),
            ),
            rows=tuple(map(_layer_row, effects)),
            note=say("discovery_one_layer_at"),
            folded=True,
        ),
    )


def _layer_row(one: LayerEffect) -> tuple[Cell, ...]:
    return (f"L{one.layer}", one.heads, one.block, one.turn)


# The one plan on pairs that took no part in choosing it.


_ROLES = {
    "validation": say("validation"),
    "held out": say("held_out"),
}
_ONE_LOGIT = say("this_model_has_one")
_COARSE = say("coarse_labels")


def tests(evidence: PlanEvidence) -> tuple[Block, ...]:
    """Every metric on every file, and the verdict of the test."""
    if not evidence.tests:
        return ()
    return (
        Table(
            name="plan_tests",
            title=say("one_plan_tested"),
            columns=(
                Column("file", say("file")),
                Column("metric", say("metric")),
                Column("whole", say("whole_model")),
                Column("smaller", say("smaller")),
                Column("change", say("change_interval")),
                Column("verdict", say("verdict")),
                Column("pairs", say("pairs")),
                Column("queries", say("queries")),
            ),
            rows=tuple(row for test in evidence.tests for row in _rows(test)),
            note=_note(evidence),
            grouped=True,
        ),
    )


def _note(evidence: PlanEvidence) -> Text:
    """How to read the tests, with what ρ means of one logit and the least loss that would show."""
    one_logit = any("pairwise_accuracy" in test.measured for test in evidence.tests)
    return joined(
        (
            say("chosen_discovery_here_only", MARGIN=MARGIN),
            *(_reach(test) for test in evidence.tests[:1]),
            *([_ONE_LOGIT] if one_logit else []),
        )
    )


def _reach(test: PlanTest) -> Text:
    """Which change of ρ the first file could tell from none; see half its interval."""
    found = test.measured.get(TESTED)
    if found is None or found.ci_low is None or found.ci_high is None:
        return Text("", "")
    half = number((found.ci_high - found.ci_low) / 2)
    return say("change_must_exceed_about", name=test.pairs.name, half=half)


def _rows(test: PlanTest) -> Iterator[tuple[Cell, ...]]:
    role, coarse = _ROLES[test.role], _COARSE if test.coarse else Text("", "")
    name = say("tested_on", name=test.pairs.name, role=role, coarse=coarse)
    for metric, one in test.measured.items():
        verdict = test.verdict if metric == TESTED else None
        yield (
            name,
            metric_name(metric),
            one.base,
            one.value,
            change(one),
            None if verdict is None else VERDICTS[verdict],
            test.pairs.n_pairs,
            test.pairs.n_queries,
        )


# The section of a plan, from its file.


def read_plan(folder: RunFolder) -> Plan | None:
    """The plan of a run, or None where it has none, or has it not yet."""
    stage, path = folder.record.stages.get("plan"), folder.file("plan/plan.json")
    if stage is None or stage.status != "done" or not path.is_file():
        return None
    return Plan.read(path)


def plan_blocks(plan: Plan) -> tuple[Block, ...]:
    """The answer, its tests, the grid with its curves, heads, risks, layers, titles, what all rests on."""
    evidence = plan.evidence
    if evidence is None:
        return layer_map(plan)
    curves = [one for one in evidence.figures if isinstance(one, Curve)]
    maps = [one for one in evidence.figures if not isinstance(one, Curve)]
    return (
        *answer(plan, evidence),
        *tests(evidence),
        *grid(evidence),
        *(FigureBlock(figure=figure) for figure in curves),
        *rivals(evidence),
        *(FigureBlock(figure=figure) for figure in maps),
        *at_risk(evidence),
        *layer_map(plan),
        *layer_effects(evidence.layers),
        *offline(plan.offline),
        _sample(plan, evidence),
    )


def _sample(plan: Plan, evidence: PlanEvidence) -> Block:
    stands = "nothing_stands_in" if plan.replacement == "zero" else "mean_stands_in"
    on = {"discovery": _of(evidence.discovery), "validation": _of(evidence.validation)}
    said = [say("chosen_and_tested_on", **on, stands=say(stands))]
    if evidence.cost is not None:
        said.append(say("choosing_cost", cost=evidence.cost))
    if evidence.profile == "quick":
        said.append(say("quick_plan"))
    return Prose(title=say("sample"), body=joined(said))


def _of(pairs: PairsRef) -> Text:
    count, queries = pairs.n_pairs or 0, pairs.n_queries or 0
    return say("pairs_of_file", name=pairs.name, count=count, queries=queries)


TITLE = say("plan_smaller_model")
_HEADING = say("plan_smaller_relevance_model")
_FOOTER = say("made_with_plan")


def render_plan(out: Path) -> Path:
    """Draw `plan.html` beside the `plan.json` of the folder `out`; return its path.

    Raises RunFolderError where the folder holds no plan of this program.
    """
    folder = RunFolder.read(out)
    blocks = plan_blocks(Plan.read(folder.file("plan.json")))
    section = Section(name="plan", order=0, title=TITLE, build=lambda _: blocks)
    target = folder.file(PAGE)
    with atomic_write(target) as temporary:
        drawn = page(folder.record, (), [Drawn(section, blocks)], heading=_HEADING, footer=_FOOTER)
        temporary.write_text(drawn, encoding="utf-8")
    return target
