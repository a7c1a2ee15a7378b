"""`qt-bert sweep`: the model with heads left out, variant by variant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qt_bert.cli import options, terminal
from qt_bert.cli.terminal import figure, interval, table
from qt_bert.request import ModelOptions, SweepOptions, pairs_or_test

if TYPE_CHECKING:
    from qt_bert.ablation.folder import SweepFolder

SHOWN = 10
MAIN: tuple[str, ...] = ("accuracy", "pairwise_accuracy", "kl", "expected_grade")
"""The first of these that was measured is shown: a tested metric, or without labels a distance."""


@options.command(options.STUDY)
def sweep(
    out: Annotated[Path, typer.Option(help="Folder of the sweep.")],
    model: ModelOptions,
    variants: SweepOptions,
    rejects: options.Rejects = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Run the model with heads left out: logits, effects with intervals, and checks, in a folder."""
    variants.reader.open(pairs_or_test(variants.pairs))
    from qt_bert.ablation.request import sweep_pairs
    from qt_bert.ablation.sweep import check_flags
    from qt_bert.run.scorers import open_model

    check_flags(out, resume=resume, overwrite=overwrite)
    scorer = open_model(model, by_head=True, notify=terminal.note)
    with terminal.resumable(out):
        folder, rejected = sweep_pairs(
            scorer, variants, out, rejects=rejects, resume=resume, overwrite=overwrite
        )
    terminal.note_rejects(rejected, rejects)
    terminal.note_counts(scorer)
    typer.echo(_as_json(folder) if as_json else _as_text(folder))


def _as_json(folder: SweepFolder) -> str:
    from qt_bert.codec import encode

    effects: list[dict[str, Any]] = [row._asdict() for row in folder.effects]
    return json.dumps(
        {"out": str(folder.path), **encode(folder.record), "effects": effects}, ensure_ascii=False
    )


def _as_text(folder: SweepFolder) -> str:
    """The variants that change the main metric most."""
    measured = {row.metric for row in folder.effects}
    metric = next(name for name in MAIN if name in measured)
    changes = [row for row in folder.effects if row.metric == metric]
    changes.sort(key=lambda row: -abs(row.absolute or 0))
    rows = [("variant", metric, "change", "95 % interval", "q")]
    for row in changes[:SHOWN]:
        values = (figure(row.value), figure(row.absolute))
        rows.append((row.name, *values, interval(row._asdict()), figure(row.q)))
    number, pairs, _ = folder.record.shape
    return "\n".join(
        [
            f"{folder.record.model['name']} on {folder.record.pairs.name}: {pairs:,} pairs, "
            f"{number - 1:,} variants; unmasked {metric} {figure(changes[0].base)}",
            "",
            table(rows),
            "",
            f"logits, effects, equivalence checks: {folder.path}",
        ]
    )
