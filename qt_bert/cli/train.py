"""`qt-bert pretrain`, `train` and `average`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qt_bert.cli import options, terminal
from qt_bert.errors import ArgumentError
from qt_bert.files import check_apart
from qt_bert.shipped import PRETRAINED, shipped
from qt_bert.training.recipes import (
    LossOptions,
    TrainingFiles,
    TrainingOptions,
    TuningOptions,
    typed,
)

if TYPE_CHECKING:
    from qt_bert.training.finetune import TuneJob


@options.command(options.TRAINING)
def pretrain(
    out: Annotated[Path, typer.Option(help="Folder of the finished model.")],
    files: Annotated[
        TrainingFiles, options.Without(("grades", "dev", "dev_grades", "dev_columns"))
    ],
    how: TrainingOptions,
    text: Annotated[
        list[Path] | None,
        typer.Option(help="Shard of text, .txt(.xz, .gz), one fragment a line (repeatable)."),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(help="Weights and tokenizer to start from. [default: the pretrained one]"),
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(help="Start from random weights with this many layers (--init: tokenizer)."),
    ] = None,
    heads: Annotated[int, typer.Option(help="Heads per layer of a random start.")] = 12,
    hidden: Annotated[int, typer.Option(help="Hidden size of a random start.")] = 192,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    stop_at: Annotated[
        int | None, typer.Option(help="End after this many steps of the schedule.")
    ] = None,
    warmup: Annotated[int | None, typer.Option(help="Warm-up steps. [default: 600]")] = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Pretrain by character MLM and segment-pair prediction, on text shards and pair files."""
    stored = files.stored()
    values = how.over(stored.settings, steps=steps, warmup=warmup)
    if "steps" not in values:
        raise ArgumentError("the number of steps is missing: give --steps N")
    from qt_bert.models.folder import resolve_folder
    from qt_bert.training.pretrain import BatchShape, NewShape, PretrainSettings, run_pretrain

    where = f"{stored.where} [settings]"
    rows = values.pop("shape", {})
    if not isinstance(rows, dict):
        raise ArgumentError(f"{where}: shape must be a table, [settings.shape]")
    values["shape"] = typed(BatchShape, rows, f"{where} shape")
    settings = typed(PretrainSettings, values, where)
    with terminal.resumable(out):
        facts = run_pretrain(
            resolve_folder(init if init is not None else shipped(PRETRAINED)),
            stored.text + list(text or []),
            files.sources(stored),
            out,
            settings,
            shape=None if layers is None else NewShape(layers, heads, hidden, settings.shape.long),
            device=how.device,
            stop_at=stop_at,
            resume=resume,
            overwrite=overwrite,
        )
    figures = facts.get("figures", {})
    loss = figures.get("mlm_loss")
    seen = f"{figures.get('tokens', 0):,} tokens ({figures.get('characters', 0):,} characters) seen"
    terminal.note(f"{seen}, MLM loss {loss}: {out}")


@options.command(options.TRAINING)
def train(
    out: Annotated[Path, typer.Option(help="Folder of the finished model.")],
    files: TrainingFiles,
    how: TuningOptions,
    what: LossOptions,
    types: options.TokenTypes,
    unlabelled: options.Unlabelled = None,
    base: Annotated[
        str | None, typer.Option(help="Encoder to start from. [default: the pretrained one]")
    ] = None,
    levels: Annotated[
        int | None, typer.Option(help="Train K ordered levels, labels 0 … K−1, instead of grades.")
    ] = None,
    stop_on: Annotated[str | None, typer.Option(help="Metric of the dev file. [qwk]")] = None,
    max_length: options.MaxLength = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Fine-tune on one or more graded files, each with its own labels; resumes after a kill."""
    from qt_bert.models.folder import resolve_folder
    from qt_bert.training.finetune import TrainJob

    tune(
        TrainJob,
        out,
        files,
        how,
        what,
        unlabelled,
        base=resolve_folder(base if base is not None else shipped(PRETRAINED)),
        levels=levels,
        stop_on=stop_on,
        max_length=max_length,
        reading=types.reading,
        resume=resume,
        overwrite=overwrite,
    )


OF_RECIPE = ("levels", "max_length", "stop_on")
"""The keys of a recipe's [job]."""


def tune(
    kind: type[TuneJob],
    out: Path,
    files: TrainingFiles,
    how: TuningOptions,
    what: LossOptions,
    unlabelled: list[Path] | None,
    *,
    steps: int | None = None,
    resume: bool,
    overwrite: bool,
    **fields: Any,
) -> None:
    """Run a job of this kind, from the recipe; `fields` that are not None override the recipe's."""
    stored = files.stored()
    sources = files.sources(stored, unlabelled)
    if not sources:
        raise ArgumentError("nothing to learn from: give --pairs, --unlabelled or --recipe FILE")
    from qt_bert.training.finetune import TuneSettings, run_tuning
    from qt_bert.training.losses import LossWeights

    if unknown := sorted(stored.job.keys() - OF_RECIPE):
        raise ArgumentError(
            f"{stored.where} [job]: unknown key {unknown[0]!r}; there are {', '.join(OF_RECIPE)}"
        )
    values = {
        **stored.job,
        **{name: value for name, value in fields.items() if value is not None},
        "sources": tuple(sources),
        "dev": files.judge(stored),
        "loss": LossWeights.read(
            what.loss, stored.loss, kind.default_loss, f"{stored.where} [loss]"
        ),
        "teacher": what.source(),
    }
    job = typed(kind, values, f"{stored.where} [job]")
    if how.epochs is not None and steps is not None:
        raise ArgumentError("--epochs and --steps: give one of them")
    recipe = {**kind.default_settings, **stored.settings}
    if how.epochs is not None or (
        "epochs" in stored.settings and "max_steps" not in stored.settings
    ):
        recipe.pop("max_steps", None)
    over = how.over(recipe, max_steps=steps)
    settings = typed(TuneSettings, over, f"{stored.where} [settings]")
    with terminal.resumable(out):
        facts = run_tuning(
            job, out, settings, device=how.device, resume=resume, overwrite=overwrite
        )
    read = ", ".join(f"{name} {number:,}" for name, number in facts["rows"].items())
    terminal.note(f"pairs to train on: {read}")
    if "parameters" in facts:  # absent for a student and in older folders
        terminal.note(f"{facts['parameters']:,} parameters")
    figure = facts.get("figure", job.stop_on)
    best = "not defined" if facts["best"] is None else f"{facts['best']:.4f}"
    terminal.note(f"best {figure} {best} at step {facts['best_step']}: {out}")


@options.command(options.TRAINING)
def average(
    models: Annotated[list[Path], typer.Argument(help="Two or more folders of one shape.")],
    out: Annotated[Path, typer.Option(help="Folder of the averaged model.")],
    types: options.TokenTypes,
    weights: Annotated[
        str | None,
        typer.Option(help="A weight of each model, such as 0.7,0.3. [default: equal weights]"),
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Average the weights of models tuned from one another or from one start, the start included."""
    from qt_bert.models.mixing import average_models, parse_weights

    for model in models:
        check_apart(out, model)
    shares = None if weights is None else parse_weights(weights, len(models))
    average_models(models, out, shares, reading=types.reading, overwrite=overwrite)
    terminal.note(f"mean of {len(models)} models: {out}")
