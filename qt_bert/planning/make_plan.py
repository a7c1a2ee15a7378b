"""From a model, pairs and a budget to a plan, its test and its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.figures import Curve, Figure, HeatMap, Point, Series, colour_end, head_map
from qt_bert.heads import Head
from qt_bert.planning.choice import (
    ChangesOfRemovals,
    Choice,
    HeadPath,
    choose,
    grid_heads,
    grid_layers,
    grid_rows,
    size_of,
)
from qt_bert.planning.prune import kept_by, lost_heads, removal_of
from qt_bert.planning.runs import Removal, changes, changes_of
from qt_bert.planning.task import Functions, PlanTask, Sample
from qt_bert.probes.base import judged, values_behind
from qt_bert.probes.contests import is_no_order
from qt_bert.progress import progress
from qt_bert.results.kept import TeacherRef
from qt_bert.results.plan import (
    TESTED,
    AtRisk,
    Budget,
    GridRow,
    MetricChange,
    Plan,
    PlanEvidence,
    PlanTest,
)
from qt_bert.results.probe import ClaimValues, SourcedClaim
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, change_of_rho, rho
from qt_bert.stats.judgements import known, set_means
from qt_bert.text import Text, counted

LEAST_GONE = 0.2
"""A plan that removes a smaller share of the heads is not judged."""


def plan_tests(
    task: PlanTask, chosen: Choice
) -> tuple[tuple[PlanTest, ...], SourcedClaim, ClaimValues | None]:
    """The chosen plan, its weights removed, on validation and on each held-out file.

    Beside them its claim, and the values that the claim is judged by.
    """
    models = task.scorer, task.pruned(kept_by(chosen.removal, task.teacher))
    samples = [task.validation, *task.held_out]
    runs = 2 * sum(len(sample.pairs) for sample in samples)
    with progress(runs, "testing the plan", "pairs") as shown:
        logits = [
            np.stack([model.fresh().logits(sample.texts, shown) for model in models])
            for sample in samples
        ]
    tests = tuple(
        PlanTest(
            role="validation" if sample is task.validation else "held out",
            pairs=sample.ref,
            coarse=sample.coarse,
            measured=_measured(task, sample, both),
        )
        for sample, both in zip(samples, logits, strict=True)
    )
    kept = _loses_nothing(task, chosen, logits[0])
    claim = judged("plan", "kept", kept, task.resamples, task.seed)
    return tests, claim, None if isinstance(kept, str) else values_behind(kept)


def _measured(task: PlanTask, sample: Sample, both: FloatArray) -> dict[str, MetricChange]:
    """Metric → its change, where defined; `both` [2, pairs, outputs]: whole, then smaller."""
    labels = task.scorer.settings.labels
    effects = Effects(both, sample.pairs, labels, resamples=task.resamples, draws=0, seed=task.seed)
    measured = changes_of(effects, 1, task.metrics)
    if TESTED in measured:
        low, high = _of_rho(task, sample, both).interval(task.resamples, task.seed) or (None, None)
        measured[TESTED] = replace(measured[TESTED], ci_low=low, ci_high=high)
    return measured


def _of_rho(task: PlanTask, sample: Sample, both: FloatArray) -> Estimate:
    """The change of ρ from the whole model to the smaller one."""
    whole, smaller = ranking_scores(both, task.scorer.settings.labels)
    return change_of_rho([smaller], whole, *_labelled(sample))


def _loses_nothing(task: PlanTask, chosen: Choice, both: FloatArray) -> Estimate | str:
    """The estimate that the claim `plan.kept` is judged by, or the reason why there is none."""
    if len(lost_heads(chosen.removal, task.teacher)) < LEAST_GONE * task.heads:
        return "precondition:share"
    whole = ranking_scores(both[0], task.scorer.settings.labels)
    if is_no_order(rho(whole, *_labelled(task.validation)), task.resamples, task.seed):
        return "grades_nothing"
    return _of_rho(task, task.validation, both)


def _labelled(sample: Sample) -> tuple[FloatArray, list[str]]:
    """The mean grade and the query of each pair."""
    grades = set_means([known(pair.grades) for pair in sample.pairs])
    return grades, [pair.query for pair in sample.pairs]


def lost_by_function(
    functions: Functions, chosen: Removal, teacher: TeacherRef
) -> dict[str, tuple[str, ...]]:
    """Set → its removed heads, by name."""
    lost = lost_heads(chosen, teacher)
    return {
        name: tuple(head for head in heads if head in lost)
        for name, heads in functions.sets.items()
    }


def at_risk(
    functions: Functions, lost: Mapping[str, tuple[str, ...]], measured: ChangesOfRemovals
) -> tuple[AtRisk, ...]:
    """Each function's heads, those lost, and ρ's change without the lost ones alone."""
    return tuple(
        AtRisk(
            name=name,
            heads=heads,
            lost=lost[name],
            measured=measured[removal_of(map(Head.parse, lost[name]))].get(TESTED)
            if lost[name]
            else None,
            unstable=name in functions.unstable,
        )
        for name, heads in functions.sets.items()
    )


LETTERS: dict[str, tuple[str, Text]] = {
    "matching": ("M", Text("匹配", "matching")),
    "boundary": ("B", Text("词边界", "word ends")),
    "order": ("O", Text("语序", "order")),
    "reader": ("R", Text("阅读", "reader")),
    "focused": ("F", Text("关注共有词", "focus on shared terms")),
}
"""Functions that the map of heads names, each by a letter."""


def quality_curve(rows: Sequence[GridRow], queries: int) -> Curve | None:
    """ρ's change on validation against the share that stays.

    `rows` are budgets of heads or of layers, measured on this number of `queries`. None for fewer than two
    budgets, or where ρ is not defined.
    """
    chosen = tuple(
        Point(
            x=100 * row.share,
            y=change.change,
            low=change.ci_low,
            high=change.ci_high,
            n=queries,
        )
        for row in rows
        if (change := row.measured.get(TESTED)) is not None
    )
    if len(chosen) < 2:
        return None
    of = rows[0].of
    stay = (
        Text("留下的头", "heads that stay")
        if of == "heads"
        else Text("留下的层", "layers that stay")
    )
    return Curve(
        name=f"plan_{of}_curve",
        title=Text("留下多少头，质量变多少", "Quality by the number of heads")
        if of == "heads"
        else Text("留下多少层，质量变多少", "Quality by the number of layers"),
        x_label=stay,
        x_unit="%",
        y_label=Text("Spearman ρ 的变化", "change of Spearman's ρ"),
        unit="",
        series=(Series(name=Text("按本计划选", "as this plan chooses"), points=chosen),),
        note=Text(
            f"在验证集的 {queries:,} 个查询上实测，不重新训练；色带为 95% 区间。",
            f"Measured on {counted(queries, 'query', 'queries')} of validation, without training. The "
            "band is the 95 % interval.",
        ),
    )


def kept_heads_map(
    teacher: TeacherRef,
    chosen: Removal,
    effects: Mapping[Head, float],
    functions: Functions,
) -> HeatMap:
    """Layers × heads: kept heads coloured by their effect, removed heads blank.

    A letter names a head's function; heads with a function are outlined.
    """
    lost = lost_heads(chosen, teacher)
    names = [
        [str(Head(layer, head)) for head in range(teacher.heads)] for layer in range(teacher.layers)
    ]
    letters = [["".join(_letters(functions, name)) for name in row] for row in names]
    worth = {str(head): 1000 * effect for head, effect in effects.items()}
    note = Text(
        "空白（—）的头去掉，其余留下；数值为单独去掉这个头的代价：标注等级的概率少了千分之几"
        "（单输出模型：分数变化的平方）。",
        "Blank heads (—) go, the others stay; the value is what leaving this head alone out costs: "
        "thousandths of the label's probability (of one logit: of the squared change of the score).",
    )
    values = tuple(tuple(None if name in lost else worth[name] for name in row) for row in names)
    end = max(colour_end(value for row in values for value in row) or 0.0, 0.1)
    return head_map(
        "plan_heads",
        values,
        title=Text("留下哪些头", "Which heads stay"),
        unit=Text("‰", "‰"),
        annotations=tuple(map(tuple, letters)) if functions.sets else None,
        marked=[name for row in names for name in row if _letters(functions, name)],
        scale="diverging",
        low=-end,
        high=end,
        digits=1,
        note=_with_letters(note, functions),
    )


def _letters(functions: Functions, head: str) -> list[str]:
    return [letter for name, (letter, _) in LETTERS.items() if head in functions.sets.get(name, ())]


def _with_letters(note: Text, functions: Functions) -> Text:
    """The note, and the meaning of the letters in the map."""
    known = [(letter, words) for name, (letter, words) in LETTERS.items() if name in functions.sets]
    if not known:
        return note
    zh = "，".join(f"{letter} {words.zh}" for letter, words in known)
    en = ", ".join(f"{letter} {words.en}" for letter, words in known)
    return Text(
        f"{note.zh}有已知功能的头加框：{zh}。",
        f"{note.en} Heads of known function are outlined: {en}.",
    )


def make_plan(task: PlanTask, budget: Budget) -> Plan:
    """The plan under the budget, with its evidence and the grid.

    Finished work is stored in `task.work`, so that an interrupted plan resumes. Raises ArgumentError for
    a budget that cannot be met.
    """
    chosen = choose(task, budget)
    return Plan(
        teacher=task.teacher,
        budget=budget,
        kept=kept_by(chosen.removal, task.teacher),
        evidence=_evidence(task, chosen),
    )


def _evidence(task: PlanTask, chosen: Choice) -> PlanEvidence:
    heads, path = grid_heads(task, chosen.path)
    grid = (*heads, *grid_layers(task))
    lost = lost_by_function(task.functions, chosen.removal, task.teacher)
    risks = [removal_of(map(Head.parse, heads)) for heads in lost.values() if heads]
    measured = _measure(task, [chosen.removal, *grid, *risks])
    rows = grid_rows(task, grid, measured)
    tests, claim, values = plan_tests(task, chosen)
    return PlanEvidence(
        profile=task.effort.profile,
        dtype=task.scorer.checkpoint.dtype,
        discovery=task.discovery.ref,
        validation=task.validation.ref,
        sampled=task.sampled_validation.ref,
        settings={
            "seed": task.seed,
            "resamples": task.resamples,
            "max_length": task.scorer.tokenizer.max_length,
        },
        size=size_of(task, chosen.removal),
        cost=None if chosen.path is None else chosen.path.cost,
        effects={str(head): effect for head, effect in sorted(path.effects.items())},
        grid=rows,
        tests=tests,
        claim=claim,
        values=values,
        functions=task.functions.source,
        at_risk=at_risk(task.functions, lost, measured),
        figures=tuple(_figures(task, path, chosen, rows)),
    )


def _measure(task: PlanTask, removals: Sequence[Removal]) -> ChangesOfRemovals:
    """The changes by each removal, in one sweep of validation."""
    listed = list(dict.fromkeys(removals))
    pairs = task.sampled_validation.pairs
    with progress((1 + len(listed)) * len(pairs), "measuring", "runs") as shown:
        measured = changes(
            task.scorer,
            pairs,
            listed,
            task.work / "measured",
            metrics=task.metrics,
            resamples=task.resamples,
            seed=task.seed,
            shown=shown,
        )
    return dict(zip(listed, measured, strict=True))


def _figures(
    task: PlanTask, path: HeadPath, chosen: Choice, rows: Sequence[GridRow]
) -> Iterator[Figure]:
    queries = task.sampled_validation.ref.n_queries or 0
    for of in ("heads", "layers"):
        curve = quality_curve([row for row in rows if row.of == of], queries)
        if curve is not None:
            yield curve
    yield kept_heads_map(task.teacher, chosen.removal, path.effects, task.functions)
