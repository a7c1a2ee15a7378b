"""The command line: one file a command, no logic of its own, torch imported only where it is used."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from qt_bert.errors import ArgumentError, QtBertError


def main() -> None:
    """Run the command; an input's fault is one line on standard error and exit status 2."""
    from qt_bert.cli.register import app

    if isinstance(sys.stdout, TextIOWrapper):  # a folder's name, or a terminal, may not be UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        for argument in sys.argv[1:]:  # no file of results could hold it, which may be hours away
            if (shown := argument.encode("utf-8", "backslashreplace").decode()) != argument:
                raise ArgumentError(f"{shown}: no {sys.getfilesystemencoding()} name; rename it")
        app()
    except QtBertError as error:
        # messages of libraries within ours may have several lines
        print("error:", " ".join(str(error).splitlines()), file=sys.stderr)
        sys.exit(2)
    except (OSError, RuntimeError) as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()
            sys.exit(1)
        if isinstance(error, RuntimeError) and not str(error).startswith("Symlink loop"):
            raise  # before Python 3.13, pathlib's error of a loop is no OSError
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
