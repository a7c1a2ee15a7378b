"""`qt-bert agree`: how far raters agree, and whether an LLM may stand for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from qt_bert.cli import opening, options
from qt_bert.cli.opening import figure, interval, table
from qt_bert.data.reader import ReaderOptions

_FIGURES = ("agreement", "kappa", "quadratic_kappa", "alpha", "within_one", "bias")
_NAMES = ("same", "κ", "quadratic κ", "95 % interval", "α", "within one", "bias (b − a)")


@options.command(options.DATA)
def agree(
    file: Annotated[Path, typer.Argument(help="File of pairs with a column of grades a rater.")],
    raters: Annotated[str, typer.Option(help="Their columns, separated by commas: 人工,LLM.")],
    reader: Annotated[ReaderOptions, options.Without(("limit", "grades", "no_header"))],
    judge: Annotated[
        list[str] | None,
        typer.Option(help="Whether this rater, an LLM, may stand for the others (repeatable)."),
    ] = None,
    grades: Annotated[
        list[str] | None,
        typer.Option(
            help="What the labels mean: '0=1-2,1=3-4,2=5'; once for all raters, or once for each in "
            "their order. [default: labels are grades 1–5]"
        ),
    ] = None,
    by: options.By = None,
    most: Annotated[int, typer.Option(help="Pairs shown where raters lie furthest apart.")] = 10,
    rejects: options.Rejects = None,
    resamples: options.Resamples = 2000,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """How far raters agree: κ, Krippendorff's α, bias, and whether an LLM may stand for the others."""
    from qt_bert.scoring.agreement import agree as measure

    found = measure(
        file, [one.strip() for one in raters.split(",")], reader, judges=judge or (), grades=grades,
        by=by or (), most=most,
        resamples=resamples, seed=seed, rejects_path=rejects,
    )  # fmt: skip
    opening.tell_rejects(found["pairs"]["rejected"], rejects)
    for rater, count in found["bad_labels"].items():
        if count:
            opening.say(f"{rater}: {count:,} labels are no grades and count as none")
    typer.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n\n".join(_shown(found)))


def _shown(found: Mapping[str, Any]) -> Iterator[str]:
    from qt_bert.stats.agreement import RELIABLE, TENTATIVE

    pairs, alpha, labels = found["pairs"], found["alpha"], found["labels"]
    counts = ", ".join(f"{rater} {count:,}" for rater, count in found["rated"].items())
    yield f"{pairs['name']}: {pairs['n_pairs']:,} pairs, {pairs['n_queries']:,} queries; {counts}"
    yield (
        f"Krippendorff's α (ordinal) of all raters: {figure(alpha['value'])} {interval(alpha)} "
        f"(reliable from {RELIABLE}, tentative from {TENTATIVE})"
    )
    yield _between([((), one) for one in found["between"]], ())
    if found["judges"]:
        margin = f"margin {found['settings']['margin']}"
        rows = [("judge", "κ² with raters", "theirs", "difference", "95 % interval", margin)]
        for one in found["judges"]:
            change = one["difference"]
            values = (figure(value) for value in (one["own"], one["rest"], change["value"]))
            answer = {True: "may stand for them", False: "may not", None: "open"}[one["stands"]]
            rows.append((one["rater"], *values, interval(change), answer))
        yield table(rows, sentence=True)
    for one in found["between"]:
        rows = [(f"{one['a']} ↓ {one['b']} →", *labels, "bias", "95 % interval")]
        for label, row, bias in zip(labels, one["confusion"], one["bias_by_label"], strict=True):
            rows.append((label, *map(str, row), figure(bias["value"], 2), interval(bias, 2)))
        yield table(rows)
    for column, slices in found["slices"].items():
        yield _between([((v,), one) for v, s in slices.items() for one in s["between"]], (column,))
    if found["furthest"]:
        rows = [("line", *found["rated"], "query", "title")]
        for one in found["furthest"]:
            given = (label or "–" for label in one["labels"].values())
            rows.append((str(one["line"]), *given, one["query"], one["title"]))
        yield "furthest apart:\n" + table(rows)


def _between(rows: Iterable[tuple[Sequence[str], Mapping[str, Any]]], before: Sequence[str]) -> str:
    """A row for every two raters, behind further cells; the interval is quadratic κ's."""
    shown: list[Sequence[str]] = [(*before, "a", "b", "n", *_NAMES, "")]
    for cells, one in rows:
        metrics = one["metrics"]
        values = [figure(metrics[name]["value"]) for name in _FIGURES]
        kappa = metrics["quadratic_kappa"]
        values.insert(3, interval(kappa))
        reason = kappa["reason"] or ""
        shown.append((*cells, one["a"], one["b"], f"{kappa['n']:,}", *values, reason))
    return table(shown, left=2 + len(before))
