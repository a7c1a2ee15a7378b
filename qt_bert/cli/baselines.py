"""`qt-bert baselines`: other ways to grade a pair, trained alike and set side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.options import Overwrite, Resume
from qt_bert.cli.show import figure, table
from qt_bert.errors import ArgumentError
from qt_bert.shipped import PRETRAINED, shipped

if TYPE_CHECKING:
    from qt_bert.results.baselines import Baselines, BaselinesRecord


@app.command(rich_help_panel=options.TRAINING)
def baselines(
    recipe: Annotated[
        Path,
        typer.Option(help="TOML: [pretraining], [settings], [trials], [[pairs]], [dev], [models]."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the table and of the models made for it.")],
    data: options.DataFolder = Path("."),
    base: Annotated[
        str | None,
        typer.Option(help="Pretrained BERT of the cross-encoder. [default: the pretrained one]"),
    ] = None,
    pairs: options.Pairs = None,
    discovery: Annotated[
        Path | None,
        typer.Option(
            help="Graded file that heads are chosen on. [default: the dev split that ships, or the "
            "discovery half of --pairs]"
        ),
    ] = None,
    layers: Annotated[int, typer.Option(help="Layers of the models pretrained anew.")] = 12,
    heads: Annotated[int, typer.Option(help="Their heads a layer.")] = 12,
    hidden: Annotated[int, typer.Option(help="Their hidden size.")] = 192,
    words: Annotated[
        int | None,
        typer.Option(help="Words that become tokens of the word model. [default: 20000]"),
    ] = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Pretrain for minutes, tune all architectures alike, judge and time them in one table."""
    from qt_bert.encoder import resolve_folder
    from qt_bert.probes.split import PairFiles
    from qt_bert.study.baselines.job import COMMONEST_WORDS, BaselinesJob
    from qt_bert.study.baselines.run import run_baselines
    from qt_bert.training.recipes import load_recipe
    from qt_bert.training.run_pretrain import NewShape

    stored, path = load_recipe(recipe, data), opening.pairs_or_test(pairs)
    positions = stored.job.get("max_length")
    if not isinstance(positions, int):
        raise ArgumentError(f"{recipe} [job]: give max_length, the tokens a pair may take")
    job = BaselinesJob(
        base=resolve_folder(base if base is not None else shipped(PRETRAINED)),
        recipe=stored,
        files=PairFiles(pairs=path, discovery=discovery or opening.discovery_of(path)),
        shape=NewShape(layers, heads, hidden, positions),
        words=COMMONEST_WORDS if words is None else words,
    )
    with opening.resumable():
        found = run_baselines(job, out, said=opening.say, resume=resume, overwrite=overwrite)
    plain = json.dumps(_plain(found.record), ensure_ascii=False) if as_json else _table(found)
    typer.echo(plain)
    opening.say(f"table: {out}")


def _plain(record: BaselinesRecord) -> object:
    from qt_bert.results.codec import encode

    return encode(record)


def _table(found: Baselines) -> str:
    """Every model by ρ on validation, then what the short pretrainings saw."""
    from qt_bert.evaluation.intervals import RESAMPLES
    from qt_bert.probes.compared.table import RHO, Table

    measured, record = Table(found, RESAMPLES, seed=0).measured, found.record
    rows = [("model", "ρ", "95 % interval", "rate", "parameters", "pairs seen", "pairs/s")]
    for one in record.rows:
        value, low, high = measured[one.name][RHO]
        between = "–" if low is None else f"[{figure(low)}, {figure(high)}]"
        rate = "–" if one.rate is None else f"{one.rate:g}"
        sizes = (f"{one.parameters:,}", f"{one.pairs_seen:,}", f"{one.pairs_per_second:,.0f}")
        rows.append((one.name, figure(value), between, rate, *sizes))
    seen = [
        f"{one.name}: {one.steps:,} steps, {one.characters:,} characters seen, {one.seconds:,.0f} s"
        for one in record.pretraining
    ]
    return "\n".join([table(rows), "", *seen])
