"""`qt-bert sweep`: what the model does without some of its heads, variant by variant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qt_bert.cli import opening, options
from qt_bert.cli.opening import figure, interval, table
from qt_bert.run.inputs import ModelOptions, pairs_or_test

if TYPE_CHECKING:
    from qt_bert.ablation.folder import SweepFolder

SHOWN = 10
MAIN: tuple[str, ...] = ("accuracy", "pairwise_accuracy", "kl", "expected_grade")
"""Of these the first that is measured is shown: what is tested, or without labels a distance."""


@options.command(options.STUDY)
def sweep(
    out: Annotated[Path, typer.Option(help="Folder of the sweep.")],
    model: ModelOptions,
    reader: options.Reader,
    pairs: Annotated[
        Path | None,
        typer.Option(help="File of pairs, graded or not. [default: the test split that ships]"),
    ] = None,
    masks: Annotated[
        list[str] | None,
        typer.Option(
            help="What is left out at a time: single, layers, halves, random, a file in the form of "
            "variants.csv, or heads, 'L2H1 L3H7' (repeatable). [default: single]"
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="What a head is replaced by: zero, uniform, mean; or block: in it query and title "
            "cannot see each other."
        ),
    ] = "zero",
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Pairs to take mean head outputs from, in the columns of --pairs. [default: the dev "
            "split that ships, or the discovery half of --pairs]"
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws a step of halves and random.")] = 20,
    limit: Annotated[
        int | None, typer.Option(help="Take about so many pairs, whole queries drawn by --seed.")
    ] = None,
    rejects: options.Rejects = None,
    resamples: options.Resamples = 2000,
    seed: options.Seed = 0,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Run the model with heads left out: logits, effects with intervals, and checks, in a
    folder."""
    path = pairs_or_test(pairs)
    reader.open(path)
    from qt_bert.ablation.sweep import check_flags
    from qt_bert.api import sweep_pairs

    check_flags(out, resume=resume, overwrite=overwrite)
    scorer = model.open(by_head=True, told=opening.say)
    with opening.resumable(out):
        folder, rejected = sweep_pairs(
            scorer,
            path,
            reader,
            masks or ["single"],
            out,
            mode=mode,
            reference=reference,
            draws=draws,
            limit=limit,
            resamples=resamples,
            seed=seed,
            rejects=rejects,
            resume=resume,
            overwrite=overwrite,
        )
    opening.tell_rejects(rejected, rejects)
    opening.tell_truncation(scorer)
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
    variants, pairs, _ = folder.record.shape
    return "\n".join(
        [
            f"{folder.record.model['name']} on {folder.record.pairs.name}: {pairs:,} pairs, "
            f"{variants - 1:,} variants; unmasked {metric} {figure(changes[0].base)}",
            "",
            table(rows),
            "",
            f"logits, effects, equivalence checks: {folder.path}",
        ]
    )
