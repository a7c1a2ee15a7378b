"""What a student keeps of its teacher and imitates, and the model it starts as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qt_bert.ablation.masks import MeanContexts
from qt_bert.encoder import Checkpoint
from qt_bert.encoder.checkpoint import smaller_checkpoint
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair
from qt_bert.planning.prune import important_units, plan_means, plan_units
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
            **({"units": encode(plan.units)} if plan.units else {}),
            **({"means": self._fold.sha256} if self._fold is not None else {}),
        }

    @property
    def _fold(self) -> MeanContexts | None:
        """What is folded into the output biases: nothing where a rival's heads leave zeros."""
        return self.means if self.plan.replacement == "mean" else None

    def start_of(self, teacher: Checkpoint, pairs: Sequence[Pair]) -> Checkpoint:
        """The student before it learns: `teacher` without what the plan takes out.

        Feed-forward units stay as in pruning: those that the plan names, else by their gradient
        importance on `pairs`. Raises ArgumentError for layers, heads or units that the teacher does
        not have, and for a layer map beyond its layers or the student's.
        """
        self._check_map()
        fold = self._fold.vectors if self._fold is not None else None
        whole = [replace(one, units=None) for one in self.kept]
        small = smaller_checkpoint(teacher, whole, fold=fold)
        if all(one.units is None for one in self.kept):
            return small
        units = plan_units(self.plan) or important_units(small, self.kept, pairs)
        return smaller_checkpoint(teacher, self.kept, units=units, fold=fold)

    def _check_map(self) -> None:
        layers = self.plan.teacher.layers
        for one in self.layer_map:
            if not (0 <= one.student < len(self.kept) and 0 <= one.imitates < layers):
                raise ArgumentError(
                    f"the plan lets layer {one.student} of {len(self.kept)} imitate the teacher's "
                    f"layer {one.imitates} of {layers}: layers count from 0"
                )
