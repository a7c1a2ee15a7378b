"""`qt-bert pretrain`, `train` and `average`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.options import Overwrite, Resume
from qt_bert.errors import ArgumentError
from qt_bert.files import check_apart
from qt_bert.shipped import PRETRAINED, shipped

if TYPE_CHECKING:
    from qt_bert.training.recipes import PairSource, Recipe
    from qt_bert.training.run_pretrain import NewShape


# What `train` and `distill` share: a recipe's values under those given, and the file that judges.


def recipe_of(recipe: Path | None, data: Path) -> Recipe:
    """The recipe in a file, or an empty one."""
    from qt_bert.training.recipes import Recipe, load_recipe

    return load_recipe(recipe, data) if recipe else Recipe()


def dev_of(
    stored: Recipe,
    dev: Path | None,
    columns: str,
    grades: str,
    *,
    no_header: bool,
    max_rejects: float,
) -> PairSource | None:
    """The file given by `--dev`, else the recipe's."""
    from qt_bert.training.recipes import PairSource

    if dev is None:
        return stored.dev
    return PairSource(
        dev, columns=columns, grades=grades, no_header=no_header, max_rejects=max_rejects
    )


def over(stored: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The recipe's values under those given on the command line."""
    return stored | {name: value for name, value in given.items() if value is not None}


# `qt-bert pretrain`: character MLM and segment pairs on plain text.


@app.command(rich_help_panel=options.TRAINING)
def pretrain(
    out: Annotated[Path, typer.Option(help="Folder of the finished model.")],
    text: Annotated[
        list[Path] | None,
        typer.Option(help="Shard of text, .txt(.xz, .gz), one fragment a line (repeatable)."),
    ] = None,
    pairs: Annotated[
        list[Path] | None,
        typer.Option(help="File of pairs that belong together (repeatable); labels are not read."),
    ] = None,
    columns: options.ColumnsOfEach = None,
    no_header: options.NoHeader = False,
    max_rejects: options.MaxRejects = 0.01,
    recipe: options.Recipe = None,
    data: options.DataFolder = Path("."),
    init: Annotated[
        str | None,
        typer.Option(help="Weights and tokenizer to go on from. [default: the pretrained one]"),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="Start at random with so many layers (--init: tokenizer).")
    ] = None,
    heads: Annotated[int, typer.Option(help="Heads a layer of a random start.")] = 12,
    hidden: Annotated[int, typer.Option(help="Hidden size of a random start.")] = 192,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    stop_at: Annotated[
        int | None, typer.Option(help="End after so many steps of the schedule.")
    ] = None,
    lr: options.Rate = None,
    warmup: Annotated[int | None, typer.Option(help="Warm-up steps. [default: 600]")] = None,
    dtype: options.TrainingDtype = None,
    seed: options.TrainingSeed = None,
    no_compile: options.NoCompile = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Character MLM plus segment-pair prediction on text shards and pair files."""
    given = {
        "steps": steps,
        "lr": lr,
        "warmup": warmup,
        "dtype": dtype,
        "seed": seed,
        "compile": False if no_compile else None,
    }
    from qt_bert.training.recipes import Recipe, load_recipe, one_for_each, typed

    stored = load_recipe(recipe, data) if recipe else Recipe()
    values = over(stored.settings, given)
    if "steps" not in values:
        raise ArgumentError("how long? give --steps N")
    from qt_bert.models.folder import resolve_folder
    from qt_bert.training.pretrain import BatchShape, PretrainSettings
    from qt_bert.training.run_pretrain import run_pretrain

    where = f"{stored.where} [settings]"
    rows = values.pop("shape", {})
    if not isinstance(rows, dict):
        raise ArgumentError(f"{where}: shape must be a table, [settings.shape]")
    values["shape"] = typed(BatchShape, rows, f"{where} shape")
    settings = typed(PretrainSettings, values, where)
    with opening.resumable(out):
        facts = run_pretrain(
            resolve_folder(init if init is not None else shipped(PRETRAINED)),
            stored.text + list(text or []),
            stored.pairs
            + one_for_each(pairs, None, columns, no_header=no_header, max_rejects=max_rejects),
            out,
            settings,
            shape=_shape(layers, heads, hidden, settings.shape.long),
            stop_at=stop_at,
            resume=resume,
            overwrite=overwrite,
        )
    figures = facts.get("figures", {})
    loss = figures.get("mlm_loss")
    seen = f"{figures.get('tokens', 0):,} tokens ({figures.get('characters', 0):,} characters) seen"
    opening.say(f"{seen}, MLM loss {loss}: {out}")


def _shape(layers: int | None, heads: int, hidden: int, positions: int) -> NewShape | None:
    from qt_bert.training.run_pretrain import NewShape

    return None if layers is None else NewShape(layers, heads, hidden, positions)


# `qt-bert train`: fine-tune a classifier on graded pairs.


@app.command(rich_help_panel=options.TRAINING)
def train(
    out: Annotated[Path, typer.Option(help="Folder of the finished model.")],
    pairs: Annotated[
        list[Path] | None, typer.Option(help="Graded file (repeat it for several).")
    ] = None,
    grades: Annotated[
        list[str] | None,
        typer.Option(help="What the labels of each --pairs mean, in the same order."),
    ] = None,
    columns: options.ColumnsOfEach = None,
    no_header: options.NoHeader = False,
    max_rejects: options.MaxRejects = 0.01,
    recipe: options.Recipe = None,
    data: options.DataFolder = Path("."),
    base: Annotated[
        str | None, typer.Option(help="Encoder to start from. [default: the pretrained one]")
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help="Graded file for early stopping (default: a tenth of the queries)."),
    ] = None,
    dev_grades: options.DevGrades = "",
    dev_columns: options.DevColumns = "",
    levels: Annotated[
        int | None, typer.Option(help="Train K ordered levels, labels 0 … K−1, instead of grades.")
    ] = None,
    epochs: options.Epochs = None,
    lr: options.Rate = None,
    slots: options.Slots = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many readings without a better one; 0: never.")
    ] = None,
    stop_on: Annotated[str | None, typer.Option(help="Metric of the dev file. [qwk]")] = None,
    max_length: options.MaxLength = None,
    offline_layers: Annotated[
        int | None,
        typer.Option(
            help="Train an offline model, whose lowest K layers read query and title apart; 0: a plain "
            "one. [default: as --base]"
        ),
    ] = None,
    title_start: Annotated[
        int | None,
        typer.Option(
            help="Position at which its titles begin. [default: as --base, else behind 95 % of the "
            "queries that judge the run]"
        ),
    ] = None,
    title_tokens: Annotated[
        int | None,
        typer.Option(
            help="Tokens that it reads of a title. [default: as --base, else all that fit]"
        ),
    ] = None,
    layers_above: Annotated[
        str | None,
        typer.Option(
            help="Layers of --base, one for each layer above the offline ones, which start as these: "
            "'0,1,2,4,5,11', the layers that a plan keeps. The offline ones then start by handing on "
            "what they get. [default: every layer starts as itself]"
        ),
    ] = None,
    dtype: options.TrainingDtype = None,
    seed: options.TrainingSeed = None,
    no_compile: options.NoCompile = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Fine-tune on one or more graded files, each with its own labels; goes on after a kill."""
    given = {
        "epochs": epochs,
        "lr": lr,
        "slots": slots,
        "patience": patience,
        "dtype": dtype,
        "seed": seed,
        "compile": False if no_compile else None,
    }
    from qt_bert.training.recipes import one_for_each

    stored = recipe_of(recipe, data)
    sources = stored.pairs + one_for_each(
        pairs, grades, columns, no_header=no_header, max_rejects=max_rejects
    )
    if not sources:
        raise ArgumentError("nothing to train on: give --pairs FILE, or --recipe FILE")
    judged = dev_of(
        stored, dev, dev_columns, dev_grades, no_header=no_header, max_rejects=max_rejects
    )
    from qt_bert.models.folder import resolve_folder
    from qt_bert.training.finetune import TuneSettings
    from qt_bert.training.recipes import typed
    from qt_bert.training.run_train import TrainJob, run_train

    asked = {
        "levels": levels,
        "max_length": max_length,
        "stop_on": stop_on,
        "offline_layers": offline_layers,
        "title_start": title_start,
        "title_tokens": title_tokens,
        "layers_above": layers_above,
    }
    paths = {
        "base": resolve_folder(base if base is not None else shipped(PRETRAINED)),
        "sources": tuple(sources),
        "dev": judged,
    }
    job = typed(TrainJob, over(stored.job, asked) | paths, f"{stored.where} [job]")
    settings = typed(TuneSettings, over(stored.settings, given), f"{stored.where} [settings]")
    check_apart(out, job.base)
    with opening.resumable(out):
        facts = run_train(job, out, settings, resume=resume, overwrite=overwrite)
    if facts:
        opening.say(json.dumps(facts["rows"], ensure_ascii=False))
        if "parameters" in facts:  # a folder finished by an older version does not say
            opening.say(f"{facts['parameters']:,} parameters")
        if "offline" in facts:
            opening.say(_block(facts["offline"]))
        best = "not defined" if facts["best"] is None else f"{facts['best']:.4f}"
        opening.say(f"best {job.stop_on} {best} at step {facts['best_step']}: {out}")


def _block(offline: dict[str, Any]) -> str:
    return (
        f"offline layers: the lowest {offline['layers']}; titles begin at position "
        f"{offline['title_start']} ({offline['title_start_from']}) and keep up to "
        f"{offline['title_tokens']} tokens"
    )


@app.command(rich_help_panel=options.TRAINING)
def average(
    models: Annotated[list[Path], typer.Argument(help="Two or more folders of one shape.")],
    out: Annotated[Path, typer.Option(help="Folder of the averaged model.")],
    overwrite: options.Overwrite = False,
) -> None:
    """Average the weights of models tuned from one another or from one start."""
    from qt_bert.training.selection import average_models

    for one in models:
        check_apart(out, one)

    average_models(models, out, overwrite=overwrite)
    opening.say(f"mean of {len(models)} models: {out}")
