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

from qt_bert.codec import decode
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.files import read_json, write_json
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.distill import RECIPE, DistillJob, Student
from qt_bert.planning.forecast import LEAST, Course, Curve, fit
from qt_bert.planning.task import PlanTask, Sample
from qt_bert.results.frontier import (
    Frontier,
    FrontierRow,
    StudentShape,
    Trial,
    TrialRun,
    shape_plan,
)
from qt_bert.results.kept import KeptFile
from qt_bert.results.plan import MARGIN, Plan
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.metrics import METRICS
from qt_bert.training.batches import levels_of
from qt_bert.training.finetune import TuneSettings, run_tuning
from qt_bert.training.recipes import PairSource, TeacherSource
from qt_bert.training.selection import digest_of
from qt_bert.training.state import FACTS, STATE_FILE, workspace_of
from qt_bert.training.teachers import TeacherTargets

STEPS, LONGER, LONG_SHAPES = 150, 4, 3
"""Steps of the short trial, how many times as long the long one is, and how many shapes get it."""

PAIRS_A_STEP = 100
"""A batch holds fewer."""

TWICE = 0.5
"""Shapes of at most this share of the teacher's latency are the first to get a long trial."""

FORECAST = ("spearman", "accuracy", "qwk")
OF_ONE_LOGIT = ("spearman", "pairwise_accuracy")


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """Short trainings of `steps` steps on `sources`, judged on `dev`; `finished` are folders of students that
    `distill` trained fully from this teacher."""

    steps: int
    sources: tuple[PairSource, ...]
    dev: Sample
    finished: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _ReadPairs(PairSource):
    """Pairs that are read already."""

    pairs: tuple[Pair, ...] = ()

    def read(self, **_: Any) -> list[Pair]:
        return list(self.pairs)

    @property
    def options_key(self) -> str:
        return digest_of(self.pairs)


def with_trial(task: PlanTask, frontier: Frontier, options: TrialOptions) -> Frontier:
    """`frontier` with trials, forecasts and hours, and the fastest shape that the forecasts recommend.

    Every shape is trained for a short trial, and the best LONG_SHAPES that are at least twice as fast for a long
    one; so are the shapes of the finished students. Forecast is a training of as many steps as RECIPE has.
    Without a finished student there is no forecast, and nothing is recommended. Trainings resume. Raises ArgumentError for a finished student of another teacher,
    and for training pairs whose queries the forecast is judged on.
    """
    trainings = _Trainings(task, options)
    finished = {folder: _plan_of(folder, task) for folder in options.finished}
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
    curves, full = dict[str, Curve](), RECIPE["max_steps"]
    anchors = [trainings.courses(folder) for folder in finished]
    for metric in trainings.teacher:
        courses = [courses[metric] for courses in anchors if metric in courses]
        others = [_course(of, metric, full) for of in runs.values() if len(of) > 1]
        if courses and (curve := fit([*courses, *filter(None, others)], metric)) is not None:
            curves[metric] = curve
    rows = [frontier.rows[0]]
    for row in frontier.rows[1:]:
        of = runs[row.shape]
        ahead = {
            name: curve.forecast(course)
            for name, curve in curves.items()
            if (course := _course(of, name, full)) is not None
        }
        hours = full * trainings.seconds_a_step(plans[row.shape]) / 3600
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
            finished={folder.name: steps for folder, (_, steps) in finished.items()},
            measured_error=len(finished) >= LEAST,
        ),
    )


def _is_safe(row: FrontierRow, metrics: Iterable[str]) -> bool:
    """Whether the forecast of every metric loses at most MARGIN."""
    ahead = [row.forecast.get(metric) for metric in metrics]
    return all(change is not None and change.value >= -MARGIN for change in ahead)


def _course(
    runs: Sequence[TrialRun], metric: str, full: int, value: float | None = None
) -> Course | None:
    """The course of a shape, to the `value` after its full training; None where its metric is undefined."""
    short, long = runs[0].changes.get(metric), [run.changes.get(metric) for run in runs[1:]]
    if short is None or None in long:
        return None
    steps = (runs[0].steps, LONGER * runs[0].steps, full)
    return Course(steps=steps, short=short, long=next(iter(long), None), full=value)


def trial_folder(task: PlanTask, plan: Plan, steps: int) -> Path:
    """The folder of the student after a trial."""
    what = json.dumps(Student(task.scorer.checkpoint.folder, plan).describe(), sort_keys=True)
    return task.work / "trial" / f"{hashlib.sha256(what.encode()).hexdigest()[:12]}-{steps}"


def _pairs_of(task: PlanTask, options: TrialOptions) -> _ReadPairs:
    """Pairs of the sources for the longest trial, drawn at random where there are more."""
    judged = {pair.query for sample in (options.dev, task.validation) for pair in sample.pairs}
    every: list[Pair] = []
    for source in options.sources:
        pairs = source.read(levels=levels_of(task.scorer.settings.labels), labelled=True)
        if both := judged & {pair.query for pair in pairs}:
            raise ArgumentError(
                f"--pairs-to-train {source.file}: {len(both):,} queries, such as {min(both)!r}, are also among "
                "those that the shapes are judged on; leave them out"
            )
        every += pairs
    most = PAIRS_A_STEP * LONGER * options.steps
    chosen = np.sort(np.random.default_rng(task.seed).permutation(len(every))[:most])
    return _ReadPairs(options.sources[0].file, pairs=tuple(every[at] for at in chosen))


def _plan_of(folder: Path, task: PlanTask) -> tuple[Plan, int]:
    """The plan that a finished student was trained by, and the steps of its training."""
    kept, facts = KeptFile.read(folder), folder / FACTS
    trainings = [read_json(facts)] if facts.is_file() else [{}]
    while "on_from" in trainings[0]:  # tuned on by `qt-bert train`
        trainings.insert(0, trainings[0]["on_from"])
    if kept is None or "plan" not in trainings[0].get("asked", {}):
        raise ArgumentError(f"--finished {folder}: no student of `qt-bert distill`")
    if kept.teacher.sha256 != task.teacher.sha256:
        raise ArgumentError(
            f"--finished {folder}: its teacher {kept.teacher.name} has other weights than "
            f"{task.teacher.name}; give a student of this model"
        )
    units = decode(dict[str, tuple[int, ...]], trainings[0]["asked"]["plan"].get("units", {}))
    shape = StudentShape(layers=len(kept.layers))
    steps = sum(int(training["planned_steps"]) for training in trainings)
    return shape_plan(task.teacher, shape, kept.layers, units), steps


def courses_of(task: PlanTask, options: TrialOptions) -> list[dict[str, Course]]:
    """Of each finished student, metric → its course from both trials to its full training.

    Raises ArgumentError as `with_trial` does.
    """
    trainings = _Trainings(task, options)
    return [trainings.courses(folder) for folder in options.finished]


def _seconds_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


class _Trainings:
    """The trial's trainings, each in a folder of its own below `task.work`, where it resumes."""

    def __init__(self, task: PlanTask, options: TrialOptions) -> None:
        self.task, self.options = task, options
        self.pairs = _pairs_of(task, options)
        self.teacher = self._figures(task.scorer)
        checkpoint, store = task.scorer.checkpoint, task.work / "trial"
        store.mkdir(parents=True, exist_ok=True)
        self.taught_by = TeacherSource(checkpoint.folder, store=store)
        # All trainings learn the same outputs, which no training's seconds count.
        how = (task.scorer.settings.labels, store, checkpoint.device, TuneSettings().dtype)
        TeacherTargets(self.taught_by, *how)(self.pairs.read())

    def run(self, plan: Plan, steps: int) -> TrialRun:
        """The training of a plan's student, its rate run down to 0 within `steps`."""
        task, out = self.task, trial_folder(self.task, plan, steps)
        job = DistillJob(
            student=Student(task.scorer.checkpoint.folder, plan),
            sources=(self.pairs,),
            teacher=self.taught_by,
            dev=_ReadPairs(Path(self.options.dev.ref.name), pairs=tuple(self.options.dev.pairs)),
        )
        changes = {"max_steps": steps, "average": 0.0, "evaluations": 1, "seed": task.seed}
        # Compiling would take longer than it saves.
        settings = TuneSettings(**RECIPE | changes, compile=False)
        start = perf_counter()
        run_tuning(job, out, settings, device=str(task.scorer.checkpoint.device), resume=True)
        # What a run resumes from is some eight times its student.
        (workspace_of(out) / STATE_FILE).unlink(missing_ok=True)
        if not (seconds := _seconds_of(out)).exists():
            write_json(seconds, {"seconds": perf_counter() - start})
        return TrialRun(steps=steps, changes=self.changes(out))

    def courses(self, folder: Path) -> dict[str, Course]:
        """Metric → the course of the finished student in `folder`."""
        (plan, full), steps = _plan_of(folder, self.task), self.options.steps
        runs = [self.run(plan, count) for count in (steps, LONGER * steps)]
        changes = self.changes(folder)
        courses = {name: _course(runs, name, full, change) for name, change in changes.items()}
        return {name: course for name, course in courses.items() if course is not None}

    def seconds_a_step(self, plan: Plan) -> float:
        """Seconds a step of the plan's trials; the slower one, for one that was interrupted seems faster."""
        steps = (self.options.steps, LONGER * self.options.steps)
        files = {count: _seconds_of(trial_folder(self.task, plan, count)) for count in steps}
        return max(read_json(f)["seconds"] / count for count, f in files.items() if f.exists())

    def changes(self, folder: Path) -> dict[str, float]:
        """Metric → the change of the student in `folder` against the teacher on the dev pairs."""
        device = str(self.task.scorer.checkpoint.device)
        figures = self._figures(Scorer(open_checkpoint(folder, device=device, compact=True)))
        return {
            name: figures[name] - base for name, base in self.teacher.items() if name in figures
        }

    def _figures(self, scorer: Scorer) -> dict[str, float]:
        labels, dev = self.task.scorer.settings.labels, self.options.dev
        judged = judge_logits(scorer.fresh().logits(dev.texts), dev.pairs, labels)
        names = OF_ONE_LOGIT if labels.logits == 1 else FORECAST
        figures = {name: METRICS[name].value(judged) for name in names}
        return {name: value for name, value in figures.items() if value is not None}
