"""The teacher of a plan, opened: a plan speaks of the heads of one model, and of no other."""

from __future__ import annotations

from pathlib import Path

from qt_bert.encoder import Checkpoint, open_checkpoint
from qt_bert.errors import ArgumentError
from qt_bert.results.plan import Plan


def open_teacher(plan: Plan, model: str | Path, *, dtype: str = "float32") -> Checkpoint:
    """The model in the folder `model`.

    Raises ArgumentError where `plan` was made for other weights, CheckpointError for a model without
    heads.
    """
    checkpoint = open_checkpoint(model, dtype=dtype)
    checkpoint.check_heads()
    if checkpoint.sha256 != plan.teacher.sha256:
        raise ArgumentError(
            f"this plan was made for {plan.teacher.name} (weights {plan.teacher.sha256[:12]}…), and "
            f"{checkpoint.folder} holds others ({checkpoint.sha256[:12]}…); give its folder by "
            "--model, or make a plan for this model with `qt-bert plan`"
        )
    return checkpoint


def check_apart(out: Path, model: Path) -> None:
    """Raise ArgumentError where writing the folder `out` anew would take `model` with it."""
    folder = model.resolve()
    if out.resolve() in (folder, *folder.parents):
        raise ArgumentError(f"--out {out} is, or holds, the model's own folder; choose another")
