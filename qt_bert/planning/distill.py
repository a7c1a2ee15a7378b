"""`qt-bert distill`: from a plan, pairs and a teacher to a student; its loss, in three parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import Checkpoint, smaller_checkpoint
from qt_bert.models.devices import device_name
from qt_bert.models.families import Family
from qt_bert.planning.prune import (
    important_units,
    open_teacher,
    plan_means,
    plan_units,
    save_smaller,
)
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import LayerMatch, Plan
from qt_bert.training.batches import BatchLayout, training_set
from qt_bert.training.finetune import Tuner, TuneSettings, check_settings
from qt_bert.training.losses import Losses, LossWeights
from qt_bert.training.packing import on_device, packed_layers, read_states
from qt_bert.training.recipes import PairSource, TeacherSource
from qt_bert.training.selection import check_metric, digest_of, judge_of, sources_and_dev
from qt_bert.training.state import close_workspace, finished_facts, open_workspace, training_texts
from qt_bert.training.steps import training_device, weights_dtype
from qt_bert.training.teachers import Teaching, check_teacher, key_of, loss_for

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


class Distilled(nn.Module):
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


# `qt-bert distill`: from a plan, pairs and a teacher to a saved student.


@dataclass(frozen=True)
class DistillJob:
    """What a student learns from, and how its run is judged.

    `student` is the teacher's folder and what the student keeps of it. `sources` hold labelled and
    unlabelled pairs. `dev` and `stop_on` are those of `TrainJob`; "" is QWK, or for a model with a
    single output Spearman's ρ. `max_length` 0 is the teacher's. `loss` None is `IMITATION`, or what
    another `teacher` can teach: its outputs take the place of those of the student's own.
    """

    student: Student
    sources: tuple[PairSource, ...]
    dev: PairSource | None = None
    loss: LossWeights | None = None
    max_length: int = 0
    stop_on: str = ""
    teacher: TeacherSource | None = None


def run_distill(
    job: DistillJob,
    out: Path,
    settings: TuneSettings,
    *,
    device: str = "cpu",
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Train a student into the folder `out`; returns what the run was and reached.

    `device` as `open_device` takes it; a run may go on on another.

    The folder gets the weights judged best, `kept.json`, `qt_bert.json`, `training.json` (plan,
    sources, settings, counts) and `training_log.jsonl`, with the parts of the loss apart. Raises
    PairFileError, ArgumentError, CheckpointError for what cannot be read or is another model's plan,
    ArgumentError where `out` is the teacher's folder, RunFolderError as `open_workspace` does.
    """
    check_job(job)
    check_settings(settings)
    check_apart(out, job.student.model)
    check_teacher(job.loss, job.teacher, out)
    asked = asdict(settings) | {
        "plan": job.student.describe(),
        "loss": (job.loss or IMITATION).describe(),
        "sources": [source.options_key for source in job.sources],
        "dev": job.dev.options_key if job.dev else None,
        "max_length": job.max_length,
        "stop_on": job.stop_on,
        **({} if job.teacher is None else {"other_teacher": key_of(job.teacher)}),
    }
    if resume and (finished := finished_facts(out, asked)) is not None:
        return finished
    place = training_device(device, settings.dtype)
    work = open_workspace(out, resume=resume, overwrite=overwrite)
    teacher = open_teacher(job.student.plan, job.student.model)
    longest = job.max_length or teacher.settings.max_length
    if longest > teacher.longest:
        raise ArgumentError(f"--max-length {longest}: the model has {teacher.longest} positions")
    labels = teacher.settings.labels
    if labels.logits == 1 and not set((job.loss or IMITATION).parts) - {"nll", "ordinal"}:
        raise ArgumentError(
            f"{teacher.name} has one output, which no grade is a target for: a student of it learns "
            "from the teacher, or which title is better; give the loss soft, margin or listwise"
        )
    sources, dev = sources_and_dev(job.sources, job.dev, levels_of(labels))
    teaching = Teaching.of(job.teacher, labels, work, place, settings.dtype)
    data = training_set(sources, teacher.pair_tokenizer(longest), labels, work, teaching)
    losses = Losses(loss_for(data, labels, job.loss, IMITATION), tuple(labels.values))
    student = job.student.start_of(teacher, dev)
    student = replace(student, settings=replace(student.settings, max_length=longest))
    for one in (teacher, student):
        on_device(one.model, place, settings.dtype)
    figure = job.stop_on or ("qwk" if labels.logits > 1 else "spearman")
    tuner = Tuner(
        Distilled(
            student.model,
            teacher.model,
            student.family,
            layer_map=job.student.layer_map,
            losses=losses,
            dtype=weights_dtype(settings.dtype),
        ),
        data.examples,
        BatchLayout.of(
            student.family,
            student.pad,
            longest,
            settings.slots,
            losses.by_query,
        ),
        settings,
        work,
        judge_of(replace(student, dtype=settings.dtype), dev, figure),
        figure=figure,
        identity={
            "plan": job.student.describe(),
            "loss": losses.weights.describe(),
            "data": data.sha256,
            "dev": digest_of(dev),
            "stop_on": job.stop_on,
            "max_length": student.settings.max_length,
        },
    )
    state = tuner.run()
    at = tuner.standing
    labelled = sum(bool(one.allowed.any()) for one in data.examples)
    facts = {
        "schema": 1,
        "teacher": {"name": teacher.name, "sha256": teacher.sha256},
        "rows": data.counts,
        "labelled": labelled,
        "unlabelled": len(data.examples) - labelled,
        "data_sha256": data.sha256,
        "truncated": data.truncated,
        "dev_pairs": len(dev),
        "planned_steps": len(tuner.plans),
        "steps": at.step,
        "figure": figure,
        "best": at.best,
        "best_step": at.best_step,
        "loss": losses.weights.describe(),
        **({} if teaching is None else {"taught_by": teaching.facts}),
        "device": device_name(place),
        "dtype": settings.dtype,
        "asked": asked,
    }
    texts = training_texts(work, facts)
    save_smaller(out, student, state=state, texts=texts, overwrite=True)  # it was opened for it
    close_workspace(out)
    return facts


def check_job(job: DistillJob) -> None:
    """Raise ArgumentError for invalid settings."""
    if job.stop_on:
        check_metric(job.stop_on)
    for source in job.sources:
        if source.auxiliary:
            raise ArgumentError(
                f"{source.file}: a student has no auxiliary outputs; take the file as unlabelled"
            )
    weights = job.loss or IMITATION
    if not (weights.of_outputs or weights.hidden) and all(
        source.unlabelled for source in job.sources
    ):
        raise ArgumentError("without the teacher a student needs labelled pairs: give --pairs FILE")


def levels_of(labels: ModelLabels) -> int | None:
    """How many ordered levels labels are read as for a model; None: as grades."""
    return labels.logits if labels.grades is None and labels.logits > 1 else None
