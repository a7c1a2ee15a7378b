"""`qt-bert compare`: two models on the same pairs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.show import figure, left_out, table
from qt_bert.pairs.options import ReaderOptions


@app.command(rich_help_panel=options.SCORING)
def compare(
    model_a: Annotated[str, typer.Argument(help="Model folder (or hub name).")],
    model_b: Annotated[str, typer.Argument(help="The other one.")],
    pairs: options.Pairs = None,
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    rejects: options.Rejects = None,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: Annotated[
        str | None, typer.Option(help="Which grades each logit of A means: '0=1-2,1=3-4,2=5'.")
    ] = None,
    model_grades_b: Annotated[str | None, typer.Option(help="The same for B.")] = None,
    heads_out: Annotated[
        str | None,
        typer.Option(
            help="Leave these heads of B out: 'L2H1 L3H7'; with A = B, what they are good for."
        ),
    ] = None,
    mode: options.HeadsOutMode = None,
    reference: options.Reference = None,
    most: Annotated[int, typer.Option(help="Pairs shown where the two differ most.")] = 10,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Paired intervals and tests of every metric, and the pairs where the two differ most."""
    path = opening.pairs_or_test(pairs)
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    asked.open(path)
    without = opening.HeadsOut.asked(heads_out, mode, reference, asked)
    from qt_bert.scoring.compare import compare_models

    scorers = [
        opening.open_scorer(
            model, dtype=dtype, max_length=max_length, model_grades=meant, heads_out=masked
        )
        for model, meant, masked in (
            (model_a, model_grades, None),
            (model_b, model_grades_b, without),
        )
    ]
    found = compare_models(
        path, asked, scorers[0], scorers[1], most=most, seed=seed, rejects_path=rejects
    )
    opening.tell_rejects(found["rejected"], rejects)
    for scorer in scorers:
        opening.tell_truncation(scorer)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    rows = [("metric", "A", "B", "B − A", "95 % interval", "p", "")]
    for name, d in found["metrics"].items():
        gap = f"[{figure(d['ci_low'])}, {figure(d['ci_high'])}]" if d["ci_low"] is not None else ""
        values = (figure(d[k]) for k in ("value_a", "value_b", "difference"))
        rows.append((name, *values, gap, figure(d["p"], 4), d["reason"] or ""))
    typer.echo(f"A = {model_a}\nB = {model_b}{left_out(found['b'])}")
    typer.echo(f"{path}: {found['n_pairs']:,} pairs\n")
    typer.echo(table(rows))
    pairs_rows = [("line", "grade", "A", "B", "query", "title")]
    for pair in found["most_different"]:
        shown = (figure(pair["a"], 2), figure(pair["b"], 2))
        pairs_rows.append((str(pair["line"]), pair["grade"], *shown, pair["query"], pair["title"]))
    if len(pairs_rows) > 1:
        typer.echo("\nwhere they differ most (expected grade, or the one score):")
        typer.echo(table(pairs_rows))
