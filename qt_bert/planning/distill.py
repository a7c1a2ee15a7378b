"""`qt-bert distill`: a student by a plan, and its loss, which imitates the teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from qt_bert.ablation.interventions import MeanZ
from qt_bert.codec import encode
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.files import check_apart
from qt_bert.models.checkpoint import Checkpoint, smaller_checkpoint
from qt_bert.models.families import Family
from qt_bert.planning.prune import (
    important_units,
    open_teacher,
    plan_means,
    plan_units,
    save_smaller,
)
from qt_bert.results.plan import LayerMatch, Plan
from qt_bert.training.batches import TrainingSet
from qt_bert.training.finetune import TuneJob, Tuner
from qt_bert.training.losses import Losses, LossWeights
from qt_bert.training.model import Trained
from qt_bert.training.packing import packed_layers, read_states
from qt_bert.training.steps import weights_dtype
from qt_bert.training.teachers import key_of

# What a student's loss is made of, by default.


IMITATION = LossWeights(soft=1.0, hidden=1.0)
"""The labels, the teacher's distribution and the outputs of its layers."""


def hidden_loss(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Mean squared error of two layers' outputs [..., hidden], each token's brought to mean 0 and
    variance 1, for every token [...]."""
    width = student.shape[-1:]
    return (F.layer_norm(student, width) - F.layer_norm(teacher, width)).square().mean(-1)


# A student beside its teacher: one loss for the training loop, of several parts.


Batch = Mapping[str, torch.Tensor]


class Distilled(Trained):
    """`model`, the student that is trained; `teacher`, frozen, on its device, in the number type of
    the products. Where a batch says what another teacher taught, `teacher` shows its layers alone.

    `layer_map` says which of the teacher's layers a student's layer imitates; layers it does not
    name imitate none.
    """

    def __init__(
        self,
        model: Any,
        teacher: Any,
        family: Family,
        *,
        layer_map: Sequence[LayerMatch],
        losses: Losses,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.losses, self.parts = losses, losses.weights.parts
        self.model = without_dropout(model)
        self.family = family
        self.layer_map = tuple(layer_map)
        # In a tuple it is no part of the module, so neither trained nor stored.
        self._teacher = (teacher.to(dtype).eval().requires_grad_(False),)

    def loss(self, batch: Batch) -> torch.Tensor:
        """The weighted parts of the loss, in the order of `parts`."""
        weights, shown = self.losses.weights, batch.get("taught")
        logits, states = self._outputs(self.model, batch)
        taught: list[torch.Tensor] = []
        if weights.hidden or (shown is None and weights.of_outputs):
            own, taught = self._taught(batch)
            shown = own if shown is None else shown
        found = list(self.losses.of(logits, batch, shown).values())
        if weights.hidden:
            found.append(weights.hidden * self._hidden(states, taught, batch))
        return torch.stack(found)

    @torch.compiler.disable
    @torch.no_grad()
    def _taught(self, batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """What the teacher gives; it is as fast uncompiled, and compiling it takes a minute."""
        return self._outputs(self._teacher[0], batch)

    def _outputs(self, model: Any, batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Float32 logits [examples, K] and every layer's output."""
        states = packed_layers(model, self.family, batch)
        read = read_states(model, self.family, states[-1].flatten(0, 1), batch)
        return self.family.head(model, read).float(), states

    def _hidden(
        self, states: Sequence[torch.Tensor], taught: Sequence[torch.Tensor], batch: Batch
    ) -> torch.Tensor:
        """Mean over the tokens of each example, then over the layers that imitate one."""
        losses = [
            hidden_loss(states[match.student].float(), taught[match.imitates].float())
            for match in self.layer_map
        ]
        if not losses:
            return batch["share"].new_zeros(())
        return (torch.stack(losses).mean(0) * batch["slot_share"]).sum()


def without_dropout(model: Any) -> Any:
    """`model` with every dropout at 0: training draws no random numbers but the data's order."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if "dropout" in name and type(value) is float:
                setattr(module, name, 0.0)
    return model


# What a student keeps of its teacher and imitates, and the model it starts as.


@dataclass(frozen=True)
class Student:
    """A student of the model in the folder `model`, for which `plan` was made.

    `means` are those of a plan that replaces heads by their mean head outputs.
    """

    model: Path
    plan: Plan
    means: MeanZ | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, plan: Path, model: Path) -> Student:
        """By a `plan.json`. Raises RunFolderError where it is none."""
        read = Plan.read(plan)
        return cls(model, read, plan_means(plan, read))

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
    def _fold(self) -> MeanZ | None:
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
        whole = [replace(one, units=None) for one in self.plan.kept]
        small = smaller_checkpoint(teacher, whole, fold=fold)
        if all(one.units is None for one in self.plan.kept):
            return small
        units = plan_units(self.plan) or important_units(small, self.plan.kept, pairs)
        return smaller_checkpoint(teacher, self.plan.kept, units=units, fold=fold)

    def _check_map(self) -> None:
        layers = self.plan.teacher.layers
        for one in self.plan.layer_map:
            if not (0 <= one.student < len(self.plan.kept) and 0 <= one.imitates < layers):
                raise ArgumentError(
                    f"the plan lets layer {one.student} of {len(self.plan.kept)} imitate the teacher's "
                    f"layer {one.imitates} of {layers}: layers count from 0"
                )


# `qt-bert distill`: a student from its teacher, by a plan.


@dataclass(frozen=True, kw_only=True)
class DistillJob(TuneJob):
    """A student of the teacher that its plan names; `max_length` 0 is the teacher's.

    The outputs of a `teacher` from outside take the place of those of the student's own.
    """

    default_loss = IMITATION

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
        weights = self.loss or IMITATION
        if not (weights.of_outputs or weights.hidden) and all(
            source.unlabelled for source in self.sources
        ):
            raise ArgumentError(
                "without the teacher a student needs labelled pairs: give --pairs FILE"
            )

    def key(self) -> dict[str, Any]:
        return {
            "plan": self.student.describe(),
            "loss": (self.loss or IMITATION).describe(),
            **({} if self.teacher is None else {"other_teacher": key_of(self.teacher)}),
        }

    def open(self, seed: int) -> Checkpoint:
        teacher = open_teacher(self.student.plan, self.student.model)
        longest = self.max_length or teacher.settings.max_length
        if longest > teacher.longest:
            raise ArgumentError(
                f"--max-length {longest}: the model has {teacher.longest} positions"
            )
        one_output = teacher.settings.labels.logits == 1
        if one_output and not set((self.loss or IMITATION).parts) - {"nll", "ordinal"}:
            raise ArgumentError(
                f"{teacher.name} has one output, which no grade is a target for: a student of it "
                "learns from the teacher, or which title is better; give the loss soft, margin or "
                "listwise"
            )
        return replace(teacher, settings=replace(teacher.settings, max_length=longest))

    def model(
        self, start: Checkpoint, data: TrainingSet, losses: Losses, dev: list[Pair], dtype: str
    ) -> tuple[Trained, Checkpoint]:
        student = self.student.start_of(start, dev)
        model = Distilled(
            student.model,
            start.model,
            student.family,
            layer_map=self.student.plan.layer_map,
            losses=losses,
            dtype=weights_dtype(dtype),
        )
        return model, student

    def facts(self, start: Checkpoint, data: TrainingSet, tuner: Tuner) -> dict[str, Any]:
        labelled = sum(bool(example.allowed.any()) for example in data.examples)
        return {
            "teacher": {"name": start.name, "sha256": start.sha256},
            "labelled": labelled,
            "unlabelled": len(data.examples) - labelled,
            "figure": tuner.figure,
        }

    def save(self, out: Path, model: Checkpoint, **how: Any) -> None:
        save_smaller(out, model, **how)
