"""What a student keeps of its teacher and imitates, and the model it starts as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qt_bert.ablation.masks import MeanContexts
from qt_bert.encoder import Checkpoint
from qt_bert.encoder.checkpoint import smaller_checkpoint
from qt_bert.pairs import Pair
from qt_bert.planning.prune import important_units, plan_means
from qt_bert.results.codec import encode
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import LayerMatch, Plan


@dataclass(frozen=True)
class Student:
    """A student of the model in the folder `model`, for which `plan` was made.

    `means` are those of a plan that replaces heads by their mean contexts.
    """

    model: Path
    plan: Plan
    means: MeanContexts | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, plan: Path, model: Path) -> Student:
        """By a `plan.json`. Raises RunFolderError where it is none."""
        read = Plan.read(plan)
        return cls(model, read, plan_means(plan, read))

    @property
    def kept(self) -> tuple[KeptLayer, ...]:
        """The teacher's layers and heads it starts from."""
        return self.plan.kept

    @property
    def layer_map(self) -> tuple[LayerMatch, ...]:
        """Which of its layers imitates which of the teacher's; a layer may imitate none."""
        return self.plan.layer_map

    def describe(self) -> dict[str, Any]:
        """All of the plan that training depends on, as plain data."""
        plan = self.plan
        return {
            "teacher": plan.teacher.sha256,
            "kept": encode(plan.kept),
            "layer_map": encode(plan.layer_map),
            "replacement": plan.replacement,
        }


def start_of(teacher: Checkpoint, student: Student, pairs: Sequence[Pair]) -> Checkpoint:
    """The student before it learns: its teacher without what the plan takes out.

    Feed-forward units stay by their gradient importance on `pairs`, as in pruning. Raises
    ArgumentError for layers, heads or units that the teacher does not have.
    """
    fold = student.means.vectors if student.means is not None else None
    whole = [replace(one, units=None) for one in student.kept]
    small = smaller_checkpoint(teacher, whole, fold=fold)
    if all(one.units is None for one in student.kept):
        return small
    units = important_units(small, student.kept, pairs)
    return smaller_checkpoint(teacher, student.kept, units=units, fold=fold)
