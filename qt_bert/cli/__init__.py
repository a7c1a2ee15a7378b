"""The command line: one file a command, no logic of its own, torch imported only where it is used."""

from __future__ import annotations

import sys

import typer

from qt_bert.errors import QtBertError

app = typer.Typer(
    name="qt-bert",
    help="Explain and shrink the Chinese BERT models that decide whether a title answers a query.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def main() -> None:
    """Run the command; an input's fault is one line on standard error and exit status 2."""
    from qt_bert.cli import register  # noqa: F401 - declares the commands

    try:
        app()
    except QtBertError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()
            sys.exit(1)
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
