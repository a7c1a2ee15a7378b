"""`qt-bert initialisations`: what pretraining and fine-tuning are each worth."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.options import Overwrite, Resume
from qt_bert.cli.recipe_options import dev_of, over, recipe_of
from qt_bert.shipped import DEV, PRETRAINED, TEST, TRAIN, shipped

if TYPE_CHECKING:
    from qt_bert.results.initialisations import Try


@app.command(rich_help_panel=options.TRAINING)
def initialisations(
    out: Annotated[Path, typer.Option(help="Folder of the record and of the models made for it.")],
    base: Annotated[
        str | None, typer.Option(help="Pretrained encoder. [default: the pretrained one]")
    ] = None,
    pairs: Annotated[
        list[Path] | None,
        typer.Option(help="Graded file to train on (repeat it). [default: the train split]"),
    ] = None,
    grades: Annotated[
        list[str] | None, typer.Option(help="What the labels of each --pairs mean, in order.")
    ] = None,
    columns: options.ColumnsOfEach = None,
    no_header: options.NoHeader = False,
    max_rejects: options.MaxRejects = 0.01,
    recipe: options.Recipe = None,
    data: options.DataFolder = Path("."),
    dev: Annotated[
        Path | None,
        typer.Option(help="Graded file that rates and steps are chosen on. [default: dev split]"),
    ] = None,
    dev_grades: options.DevGrades = "",
    dev_columns: options.DevColumns = "",
    test: Annotated[
        Path | None,
        typer.Option(help="Graded file that gives the figures. [default: the test split]"),
    ] = None,
    test_grades: Annotated[str, typer.Option(help="What the labels of --test mean.")] = "",
    test_columns: Annotated[str, typer.Option(help="Columns of --test.")] = "",
    rates: Annotated[
        list[float] | None,
        typer.Option("--lr", help="Peak rate to try (repeat it). [default: 7e-5 2e-4 6e-4]"),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="How many seeds the best rate of each start is run with.")
    ] = 3,
    epochs: options.Epochs = None,
    max_steps: Annotated[
        int | None, typer.Option(help="End a run after so many steps instead.")
    ] = None,
    slots: options.Slots = None,
    max_length: options.MaxLength = None,
    dtype: options.TrainingDtype = None,
    no_compile: options.NoCompile = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Tune four starts alike: pretrained and random weights, frozen and free; for `shift`."""
    from qt_bert.encoder import resolve_folder
    from qt_bert.training.finetune import TuneSettings
    from qt_bert.training.initialisations.job import RATES, RECIPE, StudyJob
    from qt_bert.training.initialisations.study import run_initialisations
    from qt_bert.training.recipes import typed
    from qt_bert.training.sources import PairSource, one_for_each

    stored = recipe_of(recipe, data)
    sources = stored.pairs + one_for_each(
        pairs, grades, columns, no_header=no_header, max_rejects=max_rejects
    )
    judged = dev_of(
        stored, dev, dev_columns, dev_grades, no_header=no_header, max_rejects=max_rejects
    )
    figures = PairSource(
        test or shipped(TEST),
        columns=test_columns,
        grades=test_grades,
        no_header=test is not None and no_header,
        max_rejects=max_rejects,
    )
    given = {
        "epochs": epochs,
        "max_steps": max_steps,
        "slots": slots,
        "dtype": dtype,
        "compile": False if no_compile else None,
    }
    tuning = asdict(RECIPE) | over(stored.settings, given)
    job = StudyJob(
        base=resolve_folder(base if base is not None else shipped(PRETRAINED)),
        sources=tuple(sources or [PairSource(shipped(TRAIN))]),
        discovery=judged or PairSource(shipped(DEV)),
        validation=figures,
        tuning=typed(TuneSettings, tuning, f"{stored.where} [settings]"),
        rates=tuple(rates or RATES),
        seeds=tuple(range(seeds)),
        max_length=max_length,
    )
    with opening.resumable():
        run_initialisations(job, out, resume=resume, overwrite=overwrite, said=_say)
    opening.say(f"record: {out}")


def _say(one: Try) -> None:
    rate = "" if one.rate is None else f", rate {one.rate:g}"
    figure = "not defined" if one.discovery is None else f"{one.discovery:.3f}"
    opening.say(f"{one.arm}, seed {one.seed}{rate}: {figure} on discovery, {one.seconds:.0f} s")
