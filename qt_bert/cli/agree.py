"""`qt-bert agree`: how far raters agree, an LLM among them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from qt_bert.cli import options, terminal
from qt_bert.cli.terminal import figure, interval, table
from qt_bert.data.reader import ReaderOptions


@options.command(options.DATA)
def agree(
    file: Annotated[Path, typer.Argument(help="File of pairs with a column of grades a rater.")],
    raters: Annotated[str, typer.Option(help="Their columns, separated by commas: 人工,LLM.")],
    reader: Annotated[ReaderOptions, options.Without(("limit", "no_header"))],
    by: options.By = None,
    rejects: options.Rejects = None,
    resamples: options.Resamples = 2000,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """How far raters agree, an LLM among them: κ, Krippendorff's α, bias, the pairs furthest apart."""
    from qt_bert.scoring.agreement import agree as measure

    names = [one.strip() for one in raters.split(",")]
    found = measure(
        file, names, reader, by=by or (), resamples=resamples, seed=seed, rejects_path=rejects
    )
    terminal.note_rejects(found["rejected"], rejects)
    typer.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n\n".join(_shown(found)))


def _shown(found: Mapping[str, Any]) -> Iterator[str]:
    yield _figures(found["pairs"]["name"], {"all pairs": found})
    for two in found["between"]:
        rows = [(f"{two['a']} ↓ {two['b']} →", *found["labels"], "bias")]
        for label, counts in zip(found["labels"], two["confusion"], strict=True):
            rows.append((label, *map(str, counts), _cell(two["bias_by_label"].get(label))))
        yield table(rows)
    for column, slices in found["slices"].items():
        yield _figures(column, slices)
    if found["furthest"]:
        rows = [("line", *found["furthest"][0]["labels"], "query", "title")]
        for one in found["furthest"]:
            given = (label or "–" for label in one["labels"].values())
            rows.append((str(one["line"]), *given, one["query"], one["title"]))
        yield "furthest apart:\n" + table(rows)


def _figures(column: str, slices: Mapping[str, Any]) -> str:
    """A row for all raters and for every two of each slice, figures with their intervals."""
    rows: list[tuple[str, ...]]
    rows = [(column, "raters", "n", "α", "κ", "quadratic κ", "within one", "bias (b − a)")]
    for value, one in slices.items():
        rows.append((value, "all", "", _cell(one["alpha"]), "", "", "", ""))
        for two in one["between"]:
            cells, n = map(_cell, two["metrics"].values()), two["metrics"]["kappa"]["n"]
            rows.append((value, f"{two['a']}, {two['b']}", f"{n:,}", "", *cells))
    return table(rows, left=2)


def _cell(measured: dict[str, Any] | None) -> str:
    return f"{figure(measured['value'], 2)} {interval(measured, 2)}" if measured else ""
