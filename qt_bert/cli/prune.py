"""`qt-bert prune`: the heads, layers and feed-forward units that a plan lets go, really removed."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.pairs.options import ReaderOptions
from qt_bert.progress import progress
from qt_bert.shipped import DEV, GRADED, shipped

if TYPE_CHECKING:
    from qt_bert.encoder import Checkpoint
    from qt_bert.pairs import Pair
    from qt_bert.planning.prune import Pruned


@app.command(rich_help_panel=options.SMALLER)
def prune(
    plan: options.PlanFile,
    out: Annotated[Path, typer.Option(help="Folder of the smaller model.")],
    model: options.Model = None,
    units: Annotated[
        str | None,
        typer.Option(
            help="Feed-forward units each layer keeps, too: a share with a point (0.5), or a number."
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Graded pairs to weigh feed-forward units on and to hold the pruned model against "
            "the masked one. [default: the dev split that ships]"
        ),
    ] = None,
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    rejects: options.Rejects = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Save the model that a plan keeps, smaller and faster, and equal to the masked one."""
    path = pairs if pairs is not None else shipped(DEV)
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    asked.open(path)
    from qt_bert.planning.prune import narrowed, plan_means
    from qt_bert.planning.prune import prune as run
    from qt_bert.planning.teacher import open_teacher
    from qt_bert.results.plan import Plan

    chosen = Plan.read(plan)
    chosen = chosen if units is None else narrowed(chosen, units)
    teacher = open_teacher(chosen, model if model is not None else shipped(GRADED))
    weighs = any(one.units is not None for one in chosen.kept) and not chosen.units
    read = _pairs(path, asked, teacher, weighs, rejects)
    with progress(len(read), "weighing units", "pairs", quiet=not weighs) as shown:
        made = run(
            teacher,
            chosen,
            read,
            out,
            means=plan_means(plan, chosen),
            overwrite=overwrite,
            shown=shown,
        )
    typer.echo(json.dumps(asdict(made), default=str) if as_json else _as_text(made))


def _pairs(
    path: Path, asked: ReaderOptions, teacher: Checkpoint, weighs: bool, rejects: Path | None
) -> list[Pair]:
    """All pairs with their labels where units are weighed; otherwise a few, labels or none."""
    if weighs:
        from qt_bert.scoring.judge import graded_pairs

        labels = teacher.settings.labels
        pairs, rejected = graded_pairs(path, asked, labels, rejects_path=rejects)
        opening.tell_rejects(rejected, rejects)
        return pairs
    from qt_bert.planning.prune import CHECKED

    return list(islice(asked.open(path), CHECKED))


def _as_text(made: Pruned) -> str:
    before, after = made.parameters
    opened = "qt_bert and plain transformers" if made.plain else "qt_bert"
    return (
        f"{made.folder}: {after:,} of {before:,} parameters ({after / before:.0%}), opened by "
        f"{opened}; logits within {made.difference:.1e} of the masked model's"
    )
