"""`qt-bert distill`: from a plan, pairs and a teacher to a saved student."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from qt_bert.encoder import Checkpoint, ModelLabels
from qt_bert.encoder.offline import layers_apart
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair
from qt_bert.planning.distilling.distilled import Distilled
from qt_bert.planning.distilling.losses import LossWeights, check_weights
from qt_bert.planning.distilling.student import Student
from qt_bert.planning.saving import save_smaller
from qt_bert.planning.teacher import check_apart, open_teacher
from qt_bert.training.distributed import World, world
from qt_bert.training.finetune import Tuner, TuneSettings, check_settings
from qt_bert.training.finetune_batches import BatchLayout
from qt_bert.training.judged_on import check_metric, digest_of, judge_of, sources_and_dev
from qt_bert.training.labelled import TrainingSet, training_set
from qt_bert.training.sources import PairSource
from qt_bert.training.workspace import (
    close_workspace,
    finished_facts,
    is_finished,
    open_workspace,
    training_texts,
    workspace_of,
)


@dataclass(frozen=True)
class DistillJob:
    """What a student learns from, and how its run is judged.

    `student` is the teacher's folder and what the student keeps of it. `sources` hold labelled and
    unlabelled pairs. `dev` and `stop_on` are those of `TrainJob`; "" is QWK, or for a model with a
    single output Spearman's ρ. `max_length` 0 is the teacher's.
    """

    student: Student
    sources: tuple[PairSource, ...]
    dev: PairSource | None = None
    loss: LossWeights = field(default_factory=LossWeights)
    max_length: int = 0
    stop_on: str = ""


def run_distill(
    job: DistillJob,
    out: Path,
    settings: TuneSettings,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Train a student into the folder `out`; returns what the run was and reached.

    The folder gets the weights judged best, `kept.json`, `qt_bert.json`, `training.json` (plan,
    sources, settings, counts) and `training_log.jsonl`, with the parts of the loss apart. Raises
    PairFileError, ArgumentError, CheckpointError for what cannot be read or is another model's plan,
    ArgumentError where `out` is the teacher's folder, RunFolderError as `open_workspace` does.
    """
    check_job(job)
    check_settings(settings)
    check_apart(out, job.student.model)
    with world() as group:
        if resume and is_finished(out):
            return finished_facts(out, _asked(job, settings))
        if group.leads:
            open_workspace(out, resume=resume, overwrite=overwrite)
        group.wait()
        return _distil(job, out, settings, group)


def check_job(job: DistillJob) -> None:
    """Raise ArgumentError for what cannot be meant."""
    if job.stop_on:
        check_metric(job.stop_on)
    check_weights(job.loss)
    for source in job.sources:
        if source.auxiliary:
            raise ArgumentError(
                f"{source.file}: a student has no auxiliary outputs; take the file as unlabelled"
            )
    if job.loss.asks_the_teacher:
        return
    if all(source.unlabelled for source in job.sources):
        raise ArgumentError("without the teacher a student needs labelled pairs: give --pairs FILE")


def _distil(job: DistillJob, out: Path, settings: TuneSettings, group: World) -> dict[str, Any]:
    work = workspace_of(out)
    teacher = open_teacher(job.student.plan, job.student.model)
    longest = job.max_length or teacher.settings.max_length
    if longest > teacher.longest:
        raise ArgumentError(f"--max-length {longest}: the model has {teacher.longest} positions")
    labels = teacher.settings.labels
    if labels.logits == 1 and not job.loss.asks_the_teacher:
        raise ArgumentError(
            f"{teacher.name} has one output, which no grade is a target for: a student of it learns "
            "from the teacher; give the loss's `distribution` a weight"
        )
    sources, dev = sources_and_dev(job.sources, job.dev, levels_of(labels))
    data = training_set(sources, teacher.pair_tokenizer(longest), labels, work)
    student = job.student.start_of(teacher, dev)
    student = replace(student, settings=replace(student.settings, max_length=longest))
    figure = job.stop_on or ("qwk" if labels.logits > 1 else "spearman")
    tuner = Tuner(
        _model(job, teacher, student, settings),
        data.examples,
        BatchLayout.of(student.family, student.pad, longest, settings.slots, student.offline),
        settings,
        work,
        judge_of(replace(student, dtype=settings.dtype), dev, figure),
        group,
        figure=figure,
        identity=_identity(job, data, dev, student),
    )
    state = tuner.run()
    if not group.leads:
        return {}
    facts = _facts(teacher, data, dev, tuner, figure) | {"asked": _asked(job, settings)}
    texts = training_texts(work, facts)
    save_smaller(out, student, state=state, texts=texts, overwrite=True)  # it was opened for it
    close_workspace(out)
    return facts


def levels_of(labels: ModelLabels) -> int | None:
    """How many ordered levels labels are read as for a model; None: as grades."""
    return labels.logits if labels.grades is None and labels.logits > 1 else None


def _model(
    job: DistillJob, teacher: Checkpoint, student: Checkpoint, settings: TuneSettings
) -> Distilled:
    return Distilled(
        student.model,
        teacher.model,
        student.family,
        kept=job.student.kept,
        layer_map=job.student.layer_map,
        weights=job.loss,
        dtype=getattr(torch, settings.dtype),
        apart=(layers_apart(student.offline), layers_apart(teacher.offline)),
    )


def _asked(job: DistillJob, settings: TuneSettings) -> dict[str, Any]:
    """What a finished folder is compared with when it is asked to go on."""
    return asdict(settings) | {
        "plan": job.student.describe(),
        "loss": asdict(job.loss),
        "sources": [source.options_key for source in job.sources],
        "dev": job.dev.options_key if job.dev else None,
        "max_length": job.max_length,
        "stop_on": job.stop_on,
    }


def _identity(
    job: DistillJob, data: TrainingSet, dev: Sequence[Pair], student: Checkpoint
) -> dict[str, Any]:
    return {
        "plan": job.student.describe(),
        "loss": asdict(job.loss),
        "data": data.sha256,
        "dev": digest_of(dev),
        "stop_on": job.stop_on,
        "max_length": student.settings.max_length,
        **({} if student.offline is None else {"offline": student.offline.describe()}),
    }


def _facts(
    teacher: Checkpoint, data: TrainingSet, dev: Sequence[Pair], tuner: Tuner, figure: str
) -> dict[str, Any]:
    at = tuner.standing
    return {
        "schema": 1,
        "teacher": {"name": teacher.name, "sha256": teacher.sha256},
        "rows": data.counts,
        "labelled": sum(bool(e.allowed.any()) for e in data.examples),
        "unlabelled": sum(not e.allowed.any() for e in data.examples),
        "data_sha256": data.sha256,
        "truncated": data.truncated,
        "dev_pairs": len(dev),
        "planned_steps": len(tuner.plans),
        "steps": at.step,
        "figure": figure,
        "best": at.best,
        "best_step": at.best_step,
    }
