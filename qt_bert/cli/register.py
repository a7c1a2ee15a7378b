"""Importing this module declares every command, in the order in which `--help` shows them."""

from qt_bert.cli import (  # noqa: F401, I001 - the order is the help's
    evaluate,
    score,
    explain,
    train,
    sweep,
    report,
    plan,
    serve,
)
from qt_bert.cli.options import app as app
