"""`qt-bert train`: fine-tune a classifier on graded pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.options import Overwrite, Resume
from qt_bert.cli.recipe_options import dev_of, over, recipe_of
from qt_bert.errors import ArgumentError
from qt_bert.shipped import PRETRAINED, shipped


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
    arch: Annotated[
        str | None,
        typer.Option(
            help="What is trained: cross-encoder, two-tower, bert+lstm; or lstm-attention, which "
            "takes no more than the tokenizer of --base. [default: cross-encoder]"
        ),
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
    from qt_bert.training.sources import one_for_each

    stored = recipe_of(recipe, data)
    sources = stored.pairs + one_for_each(
        pairs, grades, columns, no_header=no_header, max_rejects=max_rejects
    )
    if not sources:
        raise ArgumentError("nothing to train on: give --pairs FILE, or --recipe FILE")
    judged = dev_of(
        stored, dev, dev_columns, dev_grades, no_header=no_header, max_rejects=max_rejects
    )
    from qt_bert.encoder import resolve_folder
    from qt_bert.training.finetune import TuneSettings
    from qt_bert.training.recipes import typed
    from qt_bert.training.run_train import TrainJob, run_train

    asked = {
        "levels": levels,
        "max_length": max_length,
        "stop_on": stop_on,
        "architecture": arch,
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
    with opening.resumable():
        facts = run_train(job, out, settings, resume=resume, overwrite=overwrite)
    if facts:
        opening.say(json.dumps(facts["rows"], ensure_ascii=False))
        if "parameters" in facts:  # a folder finished by an older version does not say
            opening.say(f"{facts['architecture']}, {facts['parameters']:,} parameters")
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
