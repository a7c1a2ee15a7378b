"""`qt-bert distill`: a student of a plan, trained to imitate its teacher."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from qt_bert.codec import encode
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.files import check_apart
from qt_bert.models.card import Reading
from qt_bert.models.checkpoint import Checkpoint, smaller_checkpoint
from qt_bert.models.folder import folder_sha256
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import important_units, open_teacher, plan_units, save_smaller
from qt_bert.results.frontier import StudentShape
from qt_bert.results.plan import Plan
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import DEV, shipped
from qt_bert.training.batches import TrainingSet, levels_of
from qt_bert.training.finetune import TuneJob, Tuner, TuningModel
from qt_bert.training.losses import Losses, LossWeights
from qt_bert.training.recipes import PairSource, TeacherSource
from qt_bert.training.teachers import key_of

IMITATION = LossWeights(soft=1.0)
"""The labels, and the teacher's distribution."""

RECIPE: dict[str, Any] = {
    "max_steps": 2000,
    "lr": 5e-4,
    "average": 0.998,
    "evaluations": 4,
    "patience": 0,
}
"""The settings of a student; a recipe's and the options' come before them."""


def without_dropout(model: Any) -> Any:
    """`model` with every dropout at 0: training is random in the order of the data alone."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if "dropout" in name and type(value) is float:
                setattr(module, name, 0.0)
    return model


@dataclass(frozen=True)
class Student:
    """The student by a `plan` for the model in the folder `model`."""

    model: Path
    plan: Plan

    def describe(self) -> dict[str, Any]:
        """The fields of the plan that training depends on, as plain data."""
        plan = self.plan
        return {
            "teacher": plan.teacher.sha256,
            "kept": encode(plan.kept),
            **({"units": encode(plan.units)} if plan.units else {}),
        }

    def start_of(self, teacher: Checkpoint, pairs: Sequence[Pair]) -> Checkpoint:
        """The student before training: `teacher` pruned by the plan.

        Narrower feed-forwards keep the units of the plan, else those of greatest gradient importance on
        `pairs`. Raises ArgumentError for layers, heads or units that the teacher lacks.
        """
        units = plan_units(self.plan) or important_units(teacher, self.plan.kept, pairs)
        return smaller_checkpoint(teacher, self.plan.kept, units=units)


CHOSEN_ON = 128
"""Pairs on which a shape's layers and units are chosen where there is no frontier."""


def student_of_shape(
    shape: str, model: Path, dev: PairSource | None, reading: Reading | None = None
) -> Student:
    """A student of the model in the folder `model` with this shape, its layers and units chosen on the dev
    pairs (default: those that ship). Raises ArgumentError as `StudentShape.parse` and `plan_for` do."""
    from qt_bert.planning.shapes import layer_order, plan_for
    from qt_bert.planning.task import PlanTask, Sample

    wanted, scorer = StudentShape.parse(shape), Scorer(open_checkpoint(model, reading=reading))
    source = dev or PairSource(shipped(DEV))
    pairs = source.read(levels=levels_of(scorer.settings.labels), labelled=True)
    sample = Sample.of(source.file.name, "", pairs)
    sample = sample.smaller(CHOSEN_ON, whole_queries=scorer.settings.labels.logits == 1, seed=0)
    with tempfile.TemporaryDirectory() as work:
        task = PlanTask(scorer=scorer, discovery=sample, validation=sample, work=Path(work))
        order = layer_order(task, min(wanted.layers, task.teacher.layers))
        return Student(model, plan_for(task, wanted, order))


@dataclass(frozen=True, kw_only=True)
class DistillJob(TuneJob):
    """Train a `student`; `max_length` 0 is that of its teacher. It learns the outputs of the plan's teacher, or of
    an outside `teacher`, which are computed once."""

    default_loss = IMITATION
    default_settings = RECIPE

    student: Student
    max_length: int = 0
    stop_on: str = ""

    def check(self, out: Path) -> None:
        check_apart(out, self.student.model)
        for source in self.sources:
            if source.auxiliary:
                raise ArgumentError(
                    f"{source.file}: a student has no auxiliary outputs; take the file as unlabelled"
                )
        if self.outputs_of is None and all(source.unlabelled for source in self.sources):
            raise ArgumentError(
                "without the teacher a student needs labelled pairs: give --pairs FILE"
            )

    @property
    def outputs_of(self) -> TeacherSource | None:
        if self.teacher is not None or not (self.loss or IMITATION).of_outputs:
            return self.teacher
        longest = self.max_length or None
        return TeacherSource(self.student.model, max_length=longest, reading=self.reading)

    def key(self) -> dict[str, Any]:
        return {
            "plan": self.student.describe(),
            "model": folder_sha256(self.student.model),
            "loss": (self.loss or IMITATION).describe(),
            **({} if self.teacher is None else {"other_teacher": key_of(self.teacher)}),
        }

    def open(self, seed: int) -> Checkpoint:
        teacher = open_teacher(self.student.plan, self.student.model, reading=self.reading)
        longest = self.max_length or teacher.settings.max_length
        if longest > teacher.longest:
            raise ArgumentError(
                f"--max-length {longest}: the model has {teacher.longest} positions"
            )
        one_output = teacher.settings.labels.logits == 1
        if one_output and not set((self.loss or IMITATION).parts) - {"nll", "ordinal"}:
            raise ArgumentError(
                f"{teacher.name} has one output, for which grades are no target: learn from the teacher "
                "(loss soft) or from the order of titles (margin, listwise)"
            )
        return replace(teacher, settings=replace(teacher.settings, max_length=longest))

    def model(
        self, start: Checkpoint, data: TrainingSet, losses: Losses, dev: list[Pair]
    ) -> tuple[TuningModel, Checkpoint]:
        student = self.student.start_of(start, dev)
        return TuningModel(without_dropout(student.model), student.family, {}, losses), student

    def facts(self, start: Checkpoint, data: TrainingSet, tuner: Tuner) -> dict[str, Any]:
        labelled = sum(not math.isnan(example.bounds[0]) for example in data.examples)
        return {
            "teacher": {"name": start.name, "sha256": start.sha256},
            "labelled": labelled,
            "unlabelled": len(data.examples) - labelled,
        }

    def save(self, out: Path, model: Checkpoint, **how: Any) -> None:
        save_smaller(out, model, **how)
