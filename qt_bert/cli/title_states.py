"""`qt-bert title-states`: what an offline model makes of titles before the query comes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.pairs.options import ReaderOptions

if TYPE_CHECKING:
    from qt_bert.scoring.title_states.manifest import Manifest


@app.command("title-states", rich_help_panel=options.SCORING)
def title_states(
    titles: Annotated[
        Path,
        typer.Argument(help="A title a line (.txt), or a file of pairs: .tsv .csv .jsonl .parquet"),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the states.")],
    model: Annotated[
        str | None,
        typer.Option(help="Offline model: `qt-bert train --offline-layers` makes one."),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="float32, float16, or int8 with a scale for each token.")
    ] = "float32",
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    max_rejects: options.MaxRejects = 0.01,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Store the states of titles, so that `qt-bert score --title-states` need not compute them."""
    asked = ReaderOptions(columns, no_header, max_rejects=max_rejects)
    from qt_bert.scoring.title_states.quantising import check_format
    from qt_bert.scoring.title_states.titles import open_titles

    kind = check_format(dtype)
    open_titles(titles, asked)  # a file that cannot be read is said before the model is loaded
    from qt_bert.scoring.title_states.storing import REJECTS, store_titles

    scorer = opening.open_scorer(model)
    with opening.resumable():
        report = store_titles(
            titles, asked, scorer, out, dtype=kind, resume=resume, overwrite=overwrite
        )
    if report.already:
        opening.say(f"{out} is there already and complete; --overwrite redoes it")
        return
    opening.tell_rejects(report.manifest.rejected, out / REJECTS)
    for line in _told(report.manifest, out):
        opening.say(line)


def _told(manifest: Manifest, out: Path) -> list[str]:
    each = manifest.bytes / max(1, manifest.titles)
    block = manifest.of.offline
    lines = [
        f"{manifest.titles:,} titles of {manifest.rows:,} rows, equal ones once: "
        f"{manifest.tokens:,} tokens behind {block.layers} layers",
        f"{manifest.bytes / 1e6:,.1f} MB as {manifest.dtype}, {each:,.0f} bytes a title: {out}",
    ]
    if manifest.truncated:
        lines.insert(1, f"{manifest.truncated:,} titles were cut at {block.title_tokens} tokens")
    return lines
