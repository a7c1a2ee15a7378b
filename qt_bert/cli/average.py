"""`qt-bert average`: one model from several of one shape."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qt_bert.cli import app, opening, options


@app.command(rich_help_panel=options.TRAINING)
def average(
    models: Annotated[list[Path], typer.Argument(help="Two or more folders of one shape.")],
    out: Annotated[Path, typer.Option(help="Folder of the averaged model.")],
    overwrite: options.Overwrite = False,
) -> None:
    """Average the weights of models tuned from one another or from one start."""
    from qt_bert.training.averaging import average_models

    average_models(models, out, overwrite=overwrite)
    opening.say(f"mean of {len(models)} models: {out}")
