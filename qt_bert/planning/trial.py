"""The trial: short trainings of every shape of a frontier, and what they forecast of full ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.files import read_json, write_json
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.distill import RECIPE, DistillJob, Student
from qt_bert.planning.forecast import Course, finished_students, forecast
from qt_bert.planning.task import PlanTask, Sample
from qt_bert.results.frontier import Frontier, FrontierRow, Trial, TrialRun
from qt_bert.results.plan import MARGIN, Plan
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.metrics import METRICS
from qt_bert.text import query_key
from qt_bert.training.batches import levels_of
from qt_bert.training.finetune import TuneSettings, run_tuning
from qt_bert.training.recipes import PairSource, TeacherSource, rejects_file
from qt_bert.training.selection import digest_of
from qt_bert.training.state import STATE_FILE, workspace_of
from qt_bert.training.teachers import TeacherTargets

STEPS, LONGER, LONG_SHAPES = 150, 4, 3
"""Steps of the short trial, how many times as long the long one is, and how many shapes get it."""

PAIRS_A_STEP = 100
"""Pairs drawn for each step of the long trial: about as many as a batch holds."""

TWICE = 0.5
"""Shapes of at most this share of the teacher's latency are the first to get a long trial."""

FORECAST = ("spearman", "accuracy", "qwk")
OF_ONE_LOGIT = ("spearman", "pairwise_accuracy")


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """Short trainings of `steps` steps on `sources`, judged on `dev`."""

    steps: int
    sources: tuple[PairSource, ...]
    dev: Sample


@dataclass(frozen=True)
class _ReadPairs(PairSource):
    """Pairs that are read already."""

    pairs: tuple[Pair, ...] = ()

    def read(self, **_: Any) -> list[Pair]:
        return list(self.pairs)

    @property
    def options_key(self) -> str:
        return digest_of(self.pairs)


def with_trial(frontier: Frontier, trainings: Trainings) -> Frontier:
    """`frontier` with trials, forecasts and hours, and the fastest shape that the forecasts recommend.

    Every shape is trained for a short trial, and the best LONG_SHAPES, those at least twice as fast first, for a
    long one. Forecast is a training of as many steps as RECIPE has.
    """
    options = trainings.options
    plans = {row.shape: frontier.plan_of(row.shape) for row in frontier.rows[1:]}
    runs = {shape: [trainings.run(plan, options.steps)] for shape, plan in plans.items()}
    ranked = sorted(
        frontier.rows[1:],
        key=lambda row: (
            row.latency.value > TWICE,
            -runs[row.shape][0].changes.get(FORECAST[0], -1.0),
        ),
    )
    for row in ranked[:LONG_SHAPES]:
        runs[row.shape].append(trainings.run(plans[row.shape], LONGER * options.steps))
    full = RECIPE["max_steps"]
    finished = {
        metric: [
            course for each in finished_students() if (course := each.course(metric)) is not None
        ]
        for metric in trainings.teacher
    }
    rows = [frontier.rows[0]]
    scoring = trainings.listed / frontier.rows[0].rate
    for row in frontier.rows[1:]:
        of = runs[row.shape]
        ahead = {
            name: forecast(known, course)
            for name, known in finished.items()
            if (course := _course(of, name, full)) is not None
        }
        step = trainings.seconds_a_step(plans[row.shape])
        hours = None if step is None else (full * step + scoring) / 3600
        rows.append(replace(row, trial=tuple(of), forecast=ahead, hours=hours))
    safe = [row.shape for row in rows if _is_safe(row, trainings.teacher)]
    return replace(
        frontier,
        rows=tuple(rows),
        recommended=safe[-1] if safe else None,
        trial=Trial(
            steps=(options.steps, LONGER * options.steps),
            files=tuple(source.file.name for source in options.sources),
            dev=options.dev.ref,
            students=len(finished_students()),
            teachers=len({student.teacher for student in finished_students()}),
        ),
    )


def _is_safe(row: FrontierRow, metrics: Iterable[str]) -> bool:
    """Whether the forecast of every metric loses at most MARGIN."""
    ahead = [row.forecast.get(metric) for metric in metrics]
    return bool(ahead) and all(change is not None and change.value >= -MARGIN for change in ahead)


def _course(runs: Sequence[TrialRun], metric: str, full: int) -> Course | None:
    """The course of a shape; None where its metric is undefined."""
    short, long = runs[0].changes.get(metric), [run.changes.get(metric) for run in runs[1:]]
    if short is None or None in long:
        return None
    steps = (runs[0].steps, LONGER * runs[0].steps, full)
    return Course(steps=steps, short=short, long=next(iter(long), None))


def trial_folder(task: PlanTask, plan: Plan, steps: int) -> Path:
    """The folder of the student after a trial."""
    what = json.dumps(Student(task.scorer.checkpoint.folder, plan).describe(), sort_keys=True)
    return task.work / "trial" / f"{hashlib.sha256(what.encode()).hexdigest()[:12]}-{steps}"


def _pairs_of(task: PlanTask, options: TrialOptions) -> tuple[_ReadPairs, int]:
    """Pairs of the sources for the longest trial, drawn at random where there are more; and how many there are."""
    samples = (options.dev, task.validation)
    judged = {query_key(pair.query) for sample in samples for pair in sample.pairs}
    every: list[Pair] = []
    levels = levels_of(task.scorer.settings.labels)
    for number, source in enumerate(options.sources, 1):
        listed = rejects_file(task.work, number)
        pairs = source.read(levels=levels, labelled=True, rejects_path=listed)
        if both := {pair.query for pair in pairs if query_key(pair.query) in judged}:
            raise ArgumentError(
                f"--pairs-to-train {source.file}: {len(both):,} queries, such as {min(both)!r}, are also among "
                "those that the shapes are judged on; leave them out"
            )
        every += pairs
    most = PAIRS_A_STEP * LONGER * options.steps
    chosen = np.sort(np.random.default_rng(task.seed).permutation(len(every))[:most])
    return _ReadPairs(options.sources[0].file, pairs=tuple(every[at] for at in chosen)), len(every)


def _seconds_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


class Trainings:
    """The trial's trainings, each in a folder of its own below `task.work`, where it resumes.

    Raises ArgumentError for training pairs whose queries the forecast is judged on, and for labels that are not
    those of the teacher's folder, which a student keeps.
    """

    def __init__(self, task: PlanTask, options: TrialOptions, metrics: Sequence[str] = ()) -> None:
        self.task, self.options = task, options
        labels, checkpoint = task.scorer.settings.labels, task.scorer.checkpoint
        self.reading = checkpoint.reading
        opened = open_checkpoint(checkpoint.folder, reading=self.reading)
        if opened.settings.labels != labels:
            raise ArgumentError(
                "--model-grades does not go with --pairs-to-train: a student keeps the grades of its teacher's "
                "qt_bert.json; write them there"
            )
        self.pairs, self.listed = _pairs_of(task, options)
        self.metrics = metrics or (OF_ONE_LOGIT if labels.logits == 1 else FORECAST)
        self.teacher = self._figures(task.scorer)
        store = task.work / "trial"
        store.mkdir(parents=True, exist_ok=True)
        self.longest = task.scorer.tokenizer.max_length
        self.taught_by = TeacherSource(
            checkpoint.folder, store=store, max_length=self.longest, reading=self.reading
        )
        # All trainings learn the same outputs, which no training's seconds count.
        how = (labels, store, checkpoint.device, TuneSettings().dtype)
        TeacherTargets(self.taught_by, *how)(self.pairs.read())

    def run(self, plan: Plan, steps: int) -> TrialRun:
        """The training of a plan's student, its rate run down to 0 within `steps`."""
        task, out = self.task, trial_folder(self.task, plan, steps)
        job = DistillJob(
            student=Student(task.scorer.checkpoint.folder, plan),
            sources=(self.pairs,),
            teacher=self.taught_by,
            reading=self.reading,
            max_length=self.longest,
            dev=_ReadPairs(Path(self.options.dev.ref.name), pairs=tuple(self.options.dev.pairs)),
        )
        changes = {"max_steps": steps, "average": 0.0, "evaluations": 1, "seed": task.seed}
        # Compiling would take longer than it saves.
        settings = TuneSettings(**RECIPE | changes, compile=False)
        begun, start = workspace_of(out).exists(), perf_counter()
        run_tuning(job, out, settings, device=str(task.scorer.checkpoint.device), resume=True)
        # What a run resumes from is some eight times its student.
        (workspace_of(out) / STATE_FILE).unlink(missing_ok=True)
        if not begun and not (seconds := _seconds_of(out)).exists():
            write_json(seconds, {"seconds": perf_counter() - start})
        return TrialRun(steps=steps, changes=self.changes(out))

    def seconds_a_step(self, plan: Plan) -> float | None:
        """Seconds a step of the plan's trials, the slower one's; None where each was interrupted."""
        steps = (self.options.steps, LONGER * self.options.steps)
        files = {count: _seconds_of(trial_folder(self.task, plan, count)) for count in steps}
        known = (read_json(f)["seconds"] / count for count, f in files.items() if f.exists())
        return max(known, default=None)

    def changes(self, folder: Path) -> dict[str, float]:
        """Metric → the change of the student in `folder` against the teacher on the dev pairs."""
        device = str(self.task.scorer.checkpoint.device)
        student = open_checkpoint(folder, device=device, compact=True)
        figures = self._figures(Scorer(student, max_length=self.longest))
        return {
            name: figures[name] - base for name, base in self.teacher.items() if name in figures
        }

    def _figures(self, scorer: Scorer) -> dict[str, float]:
        labels, dev = self.task.scorer.settings.labels, self.options.dev
        judged = judge_logits(scorer.fresh().logits(dev.texts), dev.pairs, labels)
        figures = {name: METRICS[name].value(judged) for name in self.metrics}
        return {name: value for name, value in figures.items() if value is not None}
