"""From a model, pairs and a budget to a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qt_bert.planning.choice.measure import Change, Removal, changes
from qt_bert.planning.choosing import Chosen, choose, forms_asked
from qt_bert.planning.curves import head_map, quality_curve
from qt_bert.planning.expecting import expectations
from qt_bert.planning.grid import (
    Grid,
    as_expected,
    choose_grid,
    grid_rows,
    layer_effects,
    size_of,
    teacher_size,
)
from qt_bert.planning.harm import harm_of
from qt_bert.planning.offline.plan_offline import offline_plan
from qt_bert.planning.risk import Lost, at_risk, lost_by_function, risk_removals
from qt_bert.planning.rivals import (
    LOW,
    Removals,
    every_one,
    head_orders,
    head_removals,
    layer_removals,
    rival_rows,
)
from qt_bert.planning.rule import rule_of_thumb, rule_removals
from qt_bert.planning.shapes import Form
from qt_bert.planning.task import PlanTask
from qt_bert.planning.tested import plan_tests
from qt_bert.planning.timing import SpeedTable
from qt_bert.progress import progress
from qt_bert.results.figures import Figure
from qt_bert.results.plan import Plan, layer_map
from qt_bert.results.plan_evidence import GridRow, PlanEvidence, RivalRow

Found = Mapping[Removal, Mapping[str, Change]]


def make_plan(task: PlanTask) -> Plan:
    """What stays under the task's budget, with all that is known of it and of the grid.

    Finished work lies in `task.work`, so that a plan that was killed goes on.
    Raises ArgumentError for a budget that cannot be met or meets itself, and as `offline_plan` does.
    """
    speeds = SpeedTable(task)
    forms = forms_asked(task, speeds)
    offline = offline_plan(task)
    chosen = choose(task, forms, task.discovery.pairs, task.work)
    grid = choose_grid(task)
    return Plan(
        teacher=task.teacher,
        budget=task.budget,
        replacement=task.replacement,
        kept=chosen.kept,
        layer_map=layer_map(chosen.kept, task.teacher.layers),
        units={str(layer): tuple(units) for layer, units in (chosen.units or {}).items()},
        evidence=_evidence(task, forms, chosen, grid, speeds),
        offline=offline,
    )


def _evidence(
    task: PlanTask, forms: Sequence[Form], chosen: Chosen, grid: Grid, speeds: SpeedTable
) -> PlanEvidence:
    awaited = expectations(task, forms, grid)
    compared = _Compared.of(task, grid, chosen)
    found = compared.measure(task)
    rows = grid_rows(task, grid, speeds, awaited.grid, found)
    rivals = compared.rows(rows, found)
    return PlanEvidence(
        profile=task.effort.profile,
        dtype=task.scorer.checkpoint.dtype,
        discovery=task.discovery.ref,
        validation=task.validation.ref,
        sampled=task.sampled_validation.ref,
        settings=_settings(task),
        teacher_size=teacher_size(task),
        size=size_of(task, chosen.kept),
        speed=speeds.of(chosen.kept),
        expected=as_expected(awaited.asked),
        cost=chosen.cost,
        effects={str(head): effect for head, effect in sorted(grid.path.effects.items())},
        layers=layer_effects(grid),
        grid=rows,
        rivals=rivals,
        tests=plan_tests(task, chosen),
        functions=task.functions.source,
        at_risk=at_risk(task.functions, compared.lost, found),
        rule=rule_of_thumb(task.teacher, chosen.removal, compared.rule, found)
        if chosen.units is None
        else None,
        harm=harm_of(task),
        figures=tuple(_figures(task, grid, chosen, rows, rivals)),
    )


@dataclass(frozen=True)
class _Compared:
    """Everything that is measured on validation by leaving it out."""

    heads: Removals
    layers: Removals
    rule: list[Removal]
    lost: Lost
    chosen: Removal

    @classmethod
    def of(cls, task: PlanTask, grid: Grid, chosen: Chosen) -> _Compared:
        """The plan, the grid, the rivals, the article's rule, and functions that lose heads."""
        orders = head_orders(task, grid)
        return cls(
            heads=head_removals(grid, orders),
            layers=layer_removals(grid, task.form.layers),
            rule=rule_removals(task.teacher, chosen.removal, orders[LOW]),
            lost=lost_by_function(task.functions, chosen.removal, task.teacher),
            chosen=chosen.removal,
        )

    def rows(self, rows: Sequence[GridRow], found: Found) -> tuple[RivalRow, ...]:
        """How the rivals measure up at the budgets of the grid."""
        heads = [row for row in rows if row.of == "heads"]
        layers = [row for row in rows if row.of == "layers"]
        return (*rival_rows(heads, self.heads, found), *rival_rows(layers, self.layers, found))

    def measure(self, task: PlanTask) -> Found:
        """All of it in one sweep of validation."""
        listed = [
            self.chosen,
            *every_one(self.heads),
            *every_one(self.layers),
            *self.rule,
            *risk_removals(self.lost).values(),
        ]
        removals = [one for one in dict.fromkeys(listed) if one != Removal()]
        pairs = task.sampled_validation.pairs
        with progress((1 + len(removals)) * len(pairs), "measuring", "runs") as shown:
            found = changes(
                task.scorer,
                pairs,
                removals,
                mask=task.mask,
                metrics=task.metrics,
                resamples=task.resamples,
                seed=task.seed,
                work=task.work,
                name="measured",
                shown=shown,
            )
        return dict(zip(removals, found, strict=True))


def _figures(
    task: PlanTask, grid: Grid, chosen: Chosen, rows: Sequence[GridRow], rivals: Sequence[RivalRow]
) -> Iterator[Figure]:
    queries = task.sampled_validation.ref.n_queries or 0
    for of in ("heads", "layers"):
        curve = quality_curve(
            [row for row in rows if row.of == of], [one for one in rivals if one.of == of], queries
        )
        if curve is not None:
            yield curve
    yield head_map(task.teacher, chosen.removal, grid.path.effects, task.functions)


def _settings(task: PlanTask) -> dict[str, Any]:
    return {
        "seed": task.seed,
        "resamples": task.resamples,
        "max_length": task.scorer.tokenizer.max_length,
        "means_sha256": None if task.means is None else task.means.sha256,
    }
