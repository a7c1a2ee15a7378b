"""The command line: one file a command, no logic of its own, torch imported only where it is used."""

from __future__ import annotations

import sys

from qt_bert.errors import QtBertError


def main() -> None:
    """Run the command; an input's fault is one line on standard error and exit status 2."""
    from qt_bert.cli.register import app

    try:
        app()
    except QtBertError as error:
        # messages of libraries within ours may have several lines
        print("error:", " ".join(str(error).splitlines()), file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()
            sys.exit(1)
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
