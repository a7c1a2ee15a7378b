"""`qt-bert make-pairs`: more training pairs, by rule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.options import Overwrite
from qt_bert.cli.show import table


@app.command(rich_help_panel=options.TRAINING)
def make_pairs(
    out: Annotated[Path | None, typer.Option(help="TSV of the made pairs.")] = None,
    recipe: options.Recipe = None,
    data: options.DataFolder = Path("."),
    per_rule: Annotated[
        int | None, typer.Option(help="Pairs of each rule. [default: 4000]")
    ] = None,
    seed: options.TrainingSeed = None,
    list_rules: Annotated[
        bool, typer.Option("--list", help="Show the rules and the grades they stand for.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Make training pairs of known grades: directions swapped, numbers changed, words shuffled …"""
    from qt_bert.errors import ArgumentError
    from qt_bert.training.rules import describe_rules

    if list_rules:
        rows = [("rule", "grades", "")]
        rows += [(r.name, r.grades, r.en) for r in describe_rules()]
        typer.echo(table(rows, left=3))
        return
    if recipe is None or out is None:
        raise ArgumentError("give --recipe FILE and --out FILE (or --list)")
    from qt_bert.training.recipes import load_recipe, typed
    from qt_bert.training.run_make_pairs import MakeSettings, run_make_pairs

    stored = load_recipe(recipe, data)
    asked = {"per_rule": per_rule, "seed": seed}
    values = stored.settings | {name: value for name, value in asked.items() if value is not None}
    settings = typed(MakeSettings, values, f"{recipe} [settings]")
    counts = run_make_pairs(
        stored.pairs, stored.text, stored.forbidden, out, settings, overwrite=overwrite
    )
    for name, count in counts.items():
        opening.say(f"{count:7,}  {name}")
    opening.say(f"{counts.total():,} pairs made: {out}")
