"""The leave-one-out test over finished students, and unlabelled pairs by the teacher's doubt."""

import tomllib
from dataclasses import replace

import pytest

from experiments.students import forecast, run
from qt_bert.codec import decode
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.planning.forecast import FinishedStudent
from qt_bert.training.finetune import run_tuning
from tests.planning.conftest import plan_of  # noqa: F401 (a fixture)
from tests.planning.distilling.conftest import job_of, settings, texts_file  # noqa: F401 (fixtures)


def test_each_student_is_forecast_from_the_others(job_of, settings, pair_file, write, tmp_path):  # noqa: F811
    students = []
    for seed in (0, 1, 2):
        job = job_of()
        run_tuning(job, tmp_path / f"s{seed}", replace(settings, max_steps=12, seed=seed))
        students.append((job.student.model, tmp_path / f"s{seed}"))
    rows = "".join(f"问{n // 2}\t题{n}\t{1 + n % 5}\n" for n in range(20))
    dev, out = write("dev.tsv", f"query\ttitle\tgrade\n{rows}"), tmp_path / "out"
    found = forecast.run(students, [pair_file], dev, out, steps=2)
    assert all(student.steps == (2, 8, 12) for student in found)
    assert all(student.shape == "layers=2,heads=0.5" for student in found)
    stored = tomllib.loads((out / "finished.toml").read_text("utf-8"))["students"]
    again = decode(tuple[FinishedStudent, ...], stored)
    for student, kept in zip(found, again, strict=True):
        assert set(kept.changes) == {"spearman", "accuracy", "qwk", "pairwise_accuracy"}
        assert kept.changes["qwk"] == pytest.approx(student.changes["qwk"], abs=5e-5)
    tested = forecast.left_out(found)
    assert len(tested) == 12 and len(forecast.rows_of(tested)) == 13
    with pytest.raises(ArgumentError, match="three finished"):
        forecast.left_out(found[:2])
    with pytest.raises(ArgumentError, match="no student"):
        forecast.run([(students[0][0], students[0][0])], [pair_file], dev, tmp_path / "no", steps=2)
    other = job_of(seed=5).student.model
    with pytest.raises(ArgumentError, match="other weights"):
        forecast.run([(other, students[0][1])], [pair_file], dev, tmp_path / "other", steps=2)


def test_pairs_that_the_teacher_doubts_are_a_rival(job_of, tmp_path):  # noqa: F811
    arms = run.order_arms(job_of(), 3, tmp_path)
    assert list(arms) == ["plan", "doubt"]
    for job in arms.values():
        assert [source.unlabelled for source in job.sources] == [False, True]
        assert len(list(ReaderOptions().open(job.sources[1].file))) == 3
    with pytest.raises(ArgumentError, match="--doubt 8: give fewer than the 8"):
        run.order_arms(job_of(), 8, tmp_path)
    with pytest.raises(ArgumentError, match="one output"):
        run.order_arms(job_of(labels=1), 3, tmp_path)
