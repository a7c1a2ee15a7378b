"""`qt-bert check`: what is in a file of pairs, and what it shares with another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from qt_bert.cli import app, options
from qt_bert.pairs.options import ReaderOptions


@app.command(rich_help_panel=options.DATA)
def check(
    file: Annotated[Path, typer.Argument(help="File of pairs.")],
    against: Annotated[
        Path | None, typer.Option(help="Another file: count the queries and pairs both have.")
    ] = None,
    rejects: options.Rejects = None,
    against_columns: Annotated[
        str | None, typer.Option(help="Names of the other file's columns.")
    ] = None,
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    as_json: options.AsJson = False,
) -> None:
    """Rows, rejects, grades, lengths, duplicates, and what is shared with another file."""
    from qt_bert.pairs import check_file

    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    reader = asked.open(file, rejects_path=rejects)
    compared = ReaderOptions(against_columns, max_rejects=max_rejects)
    other = compared.open(against) if against else None
    report = check_file(reader, other)
    typer.echo(json.dumps(report.to_json(), ensure_ascii=False) if as_json else report.render())
