"""Do forecasts hold? Each finished student is forecast from all others, by trials of its own shape.

    python -m experiments.students.forecast TEACHER=STUDENT… --pairs-to-train FILE… --out runs/forecast

STUDENT is a folder of `qt-bert distill`, TEACHER that of its teacher. Both trials of each student go into
`--out`, and resume. `finished.toml`: each student's changes, as the package keeps them
(`qt_bert/planning/finished.toml`). Printed: the forecasts, and whether they hold; `--again` takes the students
of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.cli.terminal import table
from qt_bert.codec import decode
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write, read_json, sha256_file
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.forecast import Course, FinishedStudent, finished_students, forecast
from qt_bert.planning.task import PlanTask, Sample
from qt_bert.planning.trial import FORECAST, LONGER, OF_ONE_LOGIT, STEPS, Trainings, TrialOptions
from qt_bert.results.frontier import Forecast, StudentShape, shape_plan
from qt_bert.results.kept import KeptFile
from qt_bert.results.plan import Plan
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import graded_pairs
from qt_bert.shipped import DEV, shipped
from qt_bert.training.recipes import PairSource
from qt_bert.training.state import FACTS


@dataclass(frozen=True, kw_only=True)
class Tested:
    """One metric of one student: its course, and its forecast from all others."""

    student: FinishedStudent
    metric: str
    course: Course
    forecast: Forecast

    @property
    def inside(self) -> bool:
        return self.forecast.low <= (self.course.full or 0.0) <= self.forecast.high


def run(
    students: Sequence[tuple[Path, Path]],
    files: Sequence[Path],
    dev: Path,
    out: Path,
    steps: int = STEPS,
) -> list[FinishedStudent]:
    """Try the shapes of (teacher, student) folders; writes `finished.toml` in `out`.

    Raises ArgumentError for a student of another teacher, and as `Trainings` does.
    """
    found, trainings = [], dict[Path, Trainings]()
    for teacher, student in students:
        if teacher not in trainings:
            scorer = Scorer(open_checkpoint(teacher))
            pairs, _ = graded_pairs(dev, ReaderOptions(), scorer.settings.labels)
            sample = Sample.of(dev.name, sha256_file(dev), pairs)
            work = out / teacher.name
            task = PlanTask(scorer=scorer, discovery=sample, validation=sample, work=work)
            sources = tuple(map(PairSource, files))
            options = TrialOptions(steps=steps, sources=sources, dev=sample)
            trainings[teacher] = Trainings(task, options, EVERY)
        found.append(tried(trainings[teacher], student))
        with atomic_write(out / "finished.toml") as temporary:
            temporary.write_text(as_toml(found), encoding="utf-8")
    return found


EVERY = tuple(dict.fromkeys((*FORECAST, *OF_ONE_LOGIT)))


def tried(trainings: Trainings, folder: Path) -> FinishedStudent:
    """The finished student in `folder` after both trials of its shape and its full training."""
    plan, full = plan_of(folder, trainings.task)
    short, long = trainings.options.steps, LONGER * trainings.options.steps
    runs = [trainings.run(plan, steps).changes for steps in (short, long)]
    ends = trainings.changes(folder)
    return FinishedStudent(
        teacher=plan.teacher.name,
        shape=plan.budget.asked,
        steps=(short, long, full),
        changes={
            name: (runs[0][name], runs[1][name], value)
            for name, value in ends.items()
            if all(name in run for run in runs)
        },
    )


def plan_of(folder: Path, task: PlanTask) -> tuple[Plan, int]:
    """The plan that a finished student was trained by, and the steps of its training."""
    kept, facts = KeptFile.read(folder), folder / FACTS
    trainings = [read_json(facts)] if facts.is_file() else [{}]
    while "on_from" in trainings[0]:  # tuned on by `qt-bert train`
        trainings.insert(0, trainings[0]["on_from"])
    if kept is None or "plan" not in trainings[0].get("asked", {}):
        raise ArgumentError(f"{folder}: no student of `qt-bert distill`")
    if kept.teacher.sha256 != task.teacher.sha256:
        raise ArgumentError(
            f"{folder}: its teacher {kept.teacher.name} has other weights than "
            f"{task.teacher.name}; give a student of this model"
        )
    units = decode(dict[str, tuple[int, ...]], trainings[0]["asked"]["plan"].get("units", {}))
    width = (kept.layers[0].units or task.teacher.units) / task.teacher.units
    heads = len(kept.layers[0].heads) / task.teacher.heads
    shape = StudentShape(layers=len(kept.layers), units=round(width, 2), heads=round(heads, 2))
    steps = sum(int(training["planned_steps"]) for training in trainings)
    return shape_plan(task.teacher, shape, kept.layers, units), steps


def as_toml(students: Sequence[FinishedStudent]) -> str:
    """The students as the package keeps them."""
    lines = [
        "# Students that were trained fully: changes against their teachers after a short and a long trial and the",
        "# full training, on the dev pairs. Made by experiments/students/forecast.py.",
    ]
    for student in students:
        lines += [
            "",
            "[[students]]",
            f'teacher = "{student.teacher}"',
            f'shape = "{student.shape}"',
        ]
        lines += [f"steps = {list(student.steps)}", "[students.changes]"]
        lines += [f"{n} = {[round(v, 4) for v in values]}" for n, values in student.changes.items()]
    return "\n".join(lines) + "\n"


def left_out(students: Sequence[FinishedStudent]) -> list[Tested]:
    """The leave-one-out test, metric by metric. Raises ArgumentError for fewer than three students."""
    if len(students) < 3:
        raise ArgumentError(
            "give three finished students at least: each is forecast from the others"
        )
    rows = []
    for metric in dict.fromkeys(name for student in students for name in student.changes):
        of = [(s, course) for s in students if (course := s.course(metric)) is not None]
        if len(of) < 3:
            continue
        for student, course in of:
            ahead = forecast([other for _, other in of if other is not course], course)
            rows.append(Tested(student=student, metric=metric, course=course, forecast=ahead))
    return rows


def rows_of(tested: Sequence[Tested]) -> list[tuple[str, ...]]:
    """The rows of a table, its heading first."""
    rows: list[tuple[str, ...]] = [
        ("teacher", "shape", "metric", "short", "long", "full", "forecast", "95 % interval", "")
    ]
    for row in tested:
        course, ahead = row.course, row.forecast
        values = (course.short, course.long, course.full, ahead.value)
        changes = (f"{change or 0.0:+.3f}" for change in values)
        ends = f"[{ahead.low:+.3f}, {ahead.high:+.3f}]"
        rows.append(
            (
                *(row.student.teacher, row.student.shape, row.metric),
                *(*changes, ends, "inside" if row.inside else "outside"),
            )
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("students", nargs="*", metavar="TEACHER=STUDENT")
    parser.add_argument(
        "--again", action="store_true", help="only the test, of the package's students"
    )
    parser.add_argument("--pairs-to-train", type=Path, nargs="+")
    parser.add_argument("--dev", type=Path, help="graded pairs [default: the dev split that ships]")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    with one_line_faults():
        if options.again and (options.students or options.pairs_to_train or options.out):
            raise ArgumentError("--again takes the students of the package, and nothing else")
        if options.again:
            known = finished_students()
        else:
            if not (options.students and options.pairs_to_train and options.out):
                raise ArgumentError("give TEACHER=STUDENT…, --pairs-to-train and --out, or --again")
            if wrong := [text for text in options.students if "=" not in text]:
                raise ArgumentError(f"{wrong[0]}: write TEACHER=STUDENT, two folders")
            parted = (text.partition("=") for text in options.students)
            students = [(Path(teacher), Path(student)) for teacher, _, student in parted]
            dev = options.dev or shipped(DEV)
            known = tuple(run(students, options.pairs_to_train, dev, options.out, options.steps))
        tested = left_out(known)
    print(table(rows_of(tested), left=3))


if __name__ == "__main__":
    main()
