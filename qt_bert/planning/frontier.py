"""The frontier: shapes that are really faster, each with its size, its speed and its quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
import torch

from qt_bert.errors import CheckpointError
from qt_bert.figures import Curve, Point, Series
from qt_bert.planning.detail import details
from qt_bert.planning.prune import plan_units
from qt_bert.planning.shapes import candidates, layer_order, plan_for
from qt_bert.planning.speeds import ratio, requests_of, seconds_of
from qt_bert.planning.task import PlanTask, Sample
from qt_bert.planning.trial import Trainings, TrialOptions, with_trial
from qt_bert.planning.vocabulary import WHOLE, Vocabulary, chosen_tokens, needed_by, rows_with
from qt_bert.progress import progress
from qt_bert.results.frontier import Frontier, FrontierRow
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Plan, Ratio
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.evaluate import character_overlap
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.comparison import MetricDifference, compare
from qt_bert.stats.judgements import Judgements, judge_numbers
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Text, counted

FASTER = 0.9
"""A shape is kept where its latency is at most this share of that of every shape that is as good."""

TITLES = 10
"""Titles of the queries whose latency places a shape on the frontier."""

BULK_ROUNDS = 5

RHO = "spearman"
SHOWN, OF_ONE_LOGIT = (RHO, "accuracy", "qwk", "ndcg_at_5"), (RHO, "pairwise_accuracy", "ndcg_at_5")


def make_frontier(task: PlanTask, trial: TrialOptions | None = None) -> Frontier:
    """The frontier of the task's model; with a `trial` also the forecasts, and the shape they recommend.

    What is measured is stored in `task.work`, so that an interrupted frontier resumes. Raises ArgumentError
    as `Trainings` does, before anything is measured.
    """
    trainings = None if trial is None else Trainings(task, trial)
    stored = task.work / "measured.json"
    if not stored.exists():
        _measured(task).write(stored)
    frontier = Frontier.read(stored)
    if trainings is not None:
        frontier = with_trial(frontier, trainings)
    frontier = replace(frontier, details=tuple(details(task, frontier)))
    return replace(frontier, figures=(frontier_curve(frontier),))


def _measured(task: PlanTask) -> Frontier:
    """The frontier without a trial.

    Layers go one at a time, each time the one that costs least on discovery; of each number of layers,
    feed-forward units go by gradient importance, and heads only where half of them save a tenth of the
    teacher's latency. Each shape is timed in turns with the teacher and judged on a sample of validation; those
    that are kept are judged on all of it, and timed in bulk.
    """
    effort, seed, teacher = task.effort, task.seed, task.scorer
    order = layer_order(task)
    requests = requests_of(task.validation.texts, TITLES, effort.requests, seed)
    teacher_ms: list[float] = []

    def latency(scorer: Scorer) -> Ratio:
        seconds = seconds_of((teacher.fresh(), scorer.fresh()), requests)
        teacher_ms.append(1000 * float(np.median(seconds[:, 0])))
        return ratio(seconds[:, 1] / seconds[:, 0], seed)

    def built(plan: Plan) -> Scorer:
        return task.pruned(plan.kept, plan_units(plan))

    half = _half_heads(task) if effort.fewer_heads else None
    half_heads = None if half is None else latency(task.pruned(half))
    saves = half_heads is not None and half_heads.value <= FASTER
    heads = (1.0, 0.5) if saves else (1.0,)
    shapes = candidates(task.teacher.layers, effort.depths, effort.widths, heads)
    same, sample = Ratio(value=1.0, low=None, high=None), task.sampled_validation
    plans, latencies = [plan_for(task, shapes[0], order)], [same]
    values = [METRICS[RHO].value(_judged(task, teacher, sample))]
    with progress(len(shapes), "shapes", "shapes", done=1) as shown:
        for shape in shapes[1:]:
            plans.append(plan_for(task, shape, order))
            scorer = built(plans[-1])
            latencies.append(latency(scorer))
            values.append(METRICS[RHO].value(_judged(task, scorer, sample)))
            shown.advance(1, str(shape))
    whole, rows = _judged(task, teacher, task.validation), list[FrontierRow]()
    bulk = [task.validation.texts[: effort.bulk]] * BULK_ROUNDS
    teacher_rate = len(bulk[0]) / float(np.median(seconds_of((teacher.fresh(),), bulk)))
    for place in on_frontier([taken.value for taken in latencies], values):
        scorer = built(plans[place]) if place else teacher
        seconds = seconds_of((teacher.fresh(), scorer.fresh()), bulk) if place else np.ones((1, 2))
        faster = ratio(seconds[:, 0] / seconds[:, 1], seed)
        rows.append(
            FrontierRow(
                shape=shapes[place],
                kept=plans[place].kept,
                units=plans[place].units,
                parameters=scorer.checkpoint.parameters,
                milliseconds=float(np.median(teacher_ms)) * latencies[place].value,
                rate=teacher_rate * faster.value,
                latency=latencies[place],
                throughput=faster,
                quality=_changes(task, whole, _judged(task, scorer, task.validation)),
            )
        )
    start = perf_counter()
    pairs = task.validation.pairs
    overlaps = [character_overlap(pair.query, pair.title) for pair in pairs]
    milliseconds = 1000 * TITLES * (perf_counter() - start) / len(pairs)
    overlap = judge_numbers(overlaps, whole.ranking_truth, [pair.query for pair in pairs])
    return Frontier(
        teacher=task.teacher,
        profile=effort.profile,
        dtype=teacher.checkpoint.dtype,
        threads=torch.get_num_threads(),
        discovery=task.discovery.ref,
        validation=task.validation.ref,
        settings={"seed": seed, "resamples": task.resamples},
        candidates=len(shapes),
        half_heads=half_heads,
        rows=tuple(rows),
        baseline=_changes(task, whole, overlap)[RHO],
        baseline_ms=milliseconds,
        vocabulary=_vocabulary_cut(task),
    )


def on_frontier(latencies: Sequence[float], values: Sequence[float | None]) -> list[int]:
    """The places of the shapes to keep, the first shape and then ever faster ones.

    From the best value down, a shape is kept where its latency is at most FASTER of all kept before.
    """
    kept = [0]
    ranked = [float("-inf") if value is None else value for value in values]
    for place in sorted(range(1, len(ranked)), key=lambda n: (-ranked[n], latencies[n])):
        if latencies[place] <= FASTER * latencies[kept[-1]]:
            kept.append(place)
    return kept


def _half_heads(task: PlanTask) -> list[KeptLayer] | None:
    """All layers of the teacher with half their heads; None where a layer has one group of heads."""
    teacher, sharing = task.teacher, task.sharing
    stay = teacher.heads // sharing // 2 * sharing
    layers = range(teacher.layers)
    return [KeptLayer(layer=layer, heads=tuple(range(stay))) for layer in layers] if stay else None


def _judged(task: PlanTask, scorer: Scorer, sample: Sample) -> Judgements:
    logits = scorer.fresh().logits(sample.texts)
    return judge_logits(logits, sample.pairs, task.scorer.settings.labels)


def _changes(
    task: PlanTask, teacher: Judgements, judged: Judgements
) -> dict[str, MetricDifference]:
    """Metric → the teacher, the other and the change, where they are defined."""
    metrics = OF_ONE_LOGIT if task.scorer.settings.labels.logits == 1 else SHOWN
    options = {"resamples": task.resamples, "draws": 0, "seed": task.seed, "most_different": 0}
    compared = compare(teacher, judged, metrics=metrics, **options).metrics
    return {
        name: change
        for name, change in compared.items()
        if change.value_a is not None or name == RHO
    }


def _vocabulary_cut(task: PlanTask) -> dict[str, int]:
    """The tokens that discovery and validation need; nothing for a tokenizer whose tokens cannot be cut."""
    checkpoint = task.scorer.checkpoint
    try:
        vocabulary = Vocabulary(checkpoint.tokenizer, checkpoint.name)
    except CheckpointError:
        return {}
    texts = [*task.discovery.texts, *task.validation.texts]
    counts = rows_with(checkpoint.pair_tokenizer(WHOLE), vocabulary, texts)
    needed = len(chosen_tokens(counts, needed_by(checkpoint, vocabulary), vocabulary))
    tokens, width = checkpoint.model.get_input_embeddings().weight.shape
    return {"tokens": tokens, "needed": needed, "saved": 2 * (tokens - needed) * width}


def frontier_curve(frontier: Frontier) -> Curve:
    """ρ on validation against the time of a query: the shapes without training and as forecast, the teacher
    and the baseline. Intervals are those of the change against the teacher."""
    queries = frontier.validation.n_queries or 0
    base = frontier.rows[0].quality[RHO].value_a or 0.0

    def point(x: float, change: float | None, *ends: float | None) -> list[Point]:
        low, high = (None if end is None else base + end for end in ends)
        return (
            [] if change is None else [Point(x=x, y=base + change, low=low, high=high, n=queries)]
        )

    now, after = list[Point](), list[Point]()
    for row in frontier.rows:
        change, ahead = row.quality[RHO], row.forecast.get(RHO)
        now += point(row.milliseconds, change.difference, change.ci_low, change.ci_high)
        after += point(row.milliseconds, ahead.value, ahead.low, ahead.high) if ahead else []
    overlap = frontier.baseline.difference
    series = {
        Text("各结构，未训练", "shapes, untrained"): now,
        Text("训练后（预测）", "after training (forecast)"): after,
        Text("教师", "teacher"): now[:1],
        Text("字面重合（基线）", "shared characters (baseline)"): point(
            frontier.baseline_ms, overlap, None, None
        ),
    }
    return Curve(
        name="plan_frontier",
        title=Text("质量与时延", "Quality and latency"),
        x_label=Text(f"一个查询加 {TITLES} 条标题的用时", f"one query with {TITLES} titles"),
        x_unit=Text("毫秒", "ms"),
        y_label=Text("Spearman ρ", "Spearman's ρ"),
        series=tuple(Series(name=name, points=tuple(at)) for name, at in series.items() if at),
        note=Text(
            f"{frontier.validation.name} 的 {queries:,} 个查询，p50 时延。未训练：实测，色带为 95% 置信区间；"
            "训练后：教师的 ρ 加上 dev 样本上预测的变化，色带为 95% 预测区间。",
            f"{counted(queries, 'query', 'queries')} of {frontier.validation.name}, p50 latency. Untrained: as measured, "
            "with 95 % confidence. After training: the teacher's ρ plus the change forecast on the dev pairs, with 95 % "
            "prediction.",
        ),
    )
