"""Do forecasts hold? Each finished student is forecast from all others, by trials of its own shape.

    python -m experiments.students.forecast TEACHER=STUDENT… --pairs-to-train FILE… --out runs/forecast

STUDENT is a folder of `qt-bert distill`, TEACHER that of its teacher. Both trials of each student go into
`--out`, and resume. `forecast.json`: each student's changes, its forecast, and whether it lies inside.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.command import one_line_faults
from qt_bert.cli.terminal import table
from qt_bert.codec import encode
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file, write_json
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.forecast import Course, leave_one_out
from qt_bert.planning.task import PlanTask, Sample
from qt_bert.planning.trial import STEPS, TrialOptions, courses_of
from qt_bert.results.frontier import Forecast
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import graded_pairs
from qt_bert.shipped import DEV, shipped
from qt_bert.training.recipes import PairSource


@dataclass(frozen=True, kw_only=True)
class Tested:
    """One metric of one student: its course, and its forecast from all others."""

    student: str
    metric: str
    course: Course
    forecast: Forecast
    inside: bool


def run(
    students: Sequence[tuple[Path, Path]],
    files: Sequence[Path],
    dev: Path,
    out: Path,
    steps: int = STEPS,
) -> list[Tested]:
    """The leave-one-out test over (teacher, student) folders; writes `forecast.json` in `out`.

    Raises ArgumentError for fewer than two students, and as `courses_of` does.
    """
    if len(students) < 2:
        raise ArgumentError("give at least two finished students: each is forecast from the others")
    courses: dict[str, dict[str, Course]] = {}
    for teacher, student in students:
        scorer = Scorer(open_checkpoint(teacher))
        pairs, _ = graded_pairs(dev, ReaderOptions(), scorer.settings.labels)
        sample = Sample.of(dev.name, sha256_file(dev), pairs)
        work = out / teacher.name
        task = PlanTask(scorer=scorer, discovery=sample, validation=sample, work=work)
        sources = tuple(map(PairSource, files))
        options = TrialOptions(steps=steps, sources=sources, dev=sample, finished=(student,))
        courses[str(student)] = courses_of(task, options)[0]
    rows = []
    for metric in dict.fromkeys(name for of in courses.values() for name in of):
        known = {student: of[metric] for student, of in courses.items() if metric in of}
        results = leave_one_out(list(known.values()), metric)
        for (name, course), (ahead, full) in zip(known.items(), results, strict=True):
            inside = ahead.low <= full <= ahead.high
            rows.append(
                Tested(student=name, metric=metric, course=course, forecast=ahead, inside=inside)
            )
    write_json(out / "forecast.json", encode({"steps": steps, "rows": rows}))
    return rows


def rows_of(tested: Sequence[Tested]) -> list[tuple[str, ...]]:
    """The rows of a table, its heading first."""
    rows: list[tuple[str, ...]] = [
        ("student", "metric", "short", "long", "full", "forecast", "95 % interval", "")
    ]
    for row in tested:
        course, ahead = row.course, row.forecast
        values = (course.short, course.long, course.full, ahead.value)
        changes = (f"{change or 0.0:+.3f}" for change in values)
        ends = f"[{ahead.low:+.3f}, {ahead.high:+.3f}]"
        rows.append(
            (row.student, row.metric, *changes, ends, "inside" if row.inside else "outside")
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; an input's fault is one line and exit status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("students", nargs="+", metavar="TEACHER=STUDENT")
    parser.add_argument("--pairs-to-train", type=Path, nargs="+", required=True)
    parser.add_argument("--dev", type=Path, help="graded pairs [default: the dev split that ships]")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    with one_line_faults():
        if wrong := [text for text in options.students if "=" not in text]:
            raise ArgumentError(f"{wrong[0]}: write TEACHER=STUDENT, two folders")
        parted = (text.partition("=") for text in options.students)
        students = [(Path(teacher), Path(student)) for teacher, _, student in parted]
        dev = options.dev or shipped(DEV)
        tested = run(students, options.pairs_to_train, dev, options.out, options.steps)
    print(table(rows_of(tested), left=2))


if __name__ == "__main__":
    main()
