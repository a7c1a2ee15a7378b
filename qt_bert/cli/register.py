"""Importing this module declares every command, in the order in which `--help` shows them."""

from qt_bert.cli import (  # noqa: F401, I001 - the order is the help's
    check,
    score,
    evaluate,
    compare,
    explain,
    calibrate,
    make_pairs,
    pretrain,
    train,
    average,
    initialisations,
    baselines,
    sweep,
    report,
    probe,
    plan,
    prune,
    distill,
    export,
    serve,
)
