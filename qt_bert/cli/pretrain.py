"""`qt-bert pretrain`: character MLM and segment pairs on plain text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.options import Overwrite, Resume
from qt_bert.cli.recipe_options import over
from qt_bert.errors import ArgumentError
from qt_bert.shipped import PRETRAINED, shipped

if TYPE_CHECKING:
    from qt_bert.training.run_pretrain import NewShape


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
    stack: Annotated[
        int | None,
        typer.Option(help="Repeat the layers of --init until there are so many, and go on."),
    ] = None,
    words: Annotated[
        int | None,
        typer.Option(help="A vocabulary of so many words of the text; rarer ones: characters."),
    ] = None,
    no_pairs: Annotated[
        bool, typer.Option("--no-pairs", help="Leave the segment-pair objective out.")
    ] = False,
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
        "pair_objective": False if no_pairs else None,
    }
    from qt_bert.training.recipes import Recipe, load_recipe, typed
    from qt_bert.training.sources import one_for_each

    stored = load_recipe(recipe, data) if recipe else Recipe()
    values = over(stored.settings, given)
    if "steps" not in values:
        raise ArgumentError("how long? give --steps N")
    from qt_bert.encoder import resolve_folder
    from qt_bert.training.pretrain import PretrainSettings
    from qt_bert.training.pretrain_batches import BatchShape
    from qt_bert.training.run_pretrain import run_pretrain

    where = f"{stored.where} [settings]"
    rows = values.pop("shape", {})
    if not isinstance(rows, dict):
        raise ArgumentError(f"{where}: shape must be a table, [settings.shape]")
    values["shape"] = typed(BatchShape, rows, f"{where} shape")
    settings = typed(PretrainSettings, values, where)
    with opening.resumable():
        facts = run_pretrain(
            resolve_folder(init if init is not None else shipped(PRETRAINED)),
            stored.text + list(text or []),
            stored.pairs
            + one_for_each(pairs, None, columns, no_header=no_header, max_rejects=max_rejects),
            out,
            settings,
            shape=_shape(layers, heads, hidden, settings.shape.long),
            words=words,
            stack=stack,
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
