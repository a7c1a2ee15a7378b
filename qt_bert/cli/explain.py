"""`qt-bert explain`: the effects of terms and heads on the grade of one pair."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qt_bert.cli import options, terminal
from qt_bert.cli.terminal import left_out, table
from qt_bert.request import HeadsOutOptions, ModelOptions, Request

if TYPE_CHECKING:
    from qt_bert.ablation.explain import HeadEffect, Restoring
    from qt_bert.scoring.explain import Explanation

BAR, CHANGE_BAR = 24, 12
HEADS_SHOWN, RESTORING_SHOWN = 10, 3
NO_SHARES = (
    "Each head is left out alone. The effects do not add up to the grade, since heads compensate for each "
    "other."
)


@options.command(options.SCORING)
def explain(
    query: Annotated[str, typer.Argument(help="The query.")],
    title: Annotated[str, typer.Argument(help="The title.")],
    model: ModelOptions,
    without: HeadsOutOptions,
    segmenter: Annotated[str, typer.Option(help=options.docs_of(Request)["segmenter"])] = "jieba",
    userdict: Annotated[
        Path | None, typer.Option(help=options.docs_of(Request)["userdict"])
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """One pair's grades; how each term and each head changes them, and which heads restore a term."""
    from qt_bert.data.segmenters import segmenter as make_segmenter
    from qt_bert.errors import ArgumentError

    if not query.strip() or not title.strip():
        raise ArgumentError("query and title must both hold text")
    cut = make_segmenter(segmenter, userdict=userdict)
    from qt_bert.ablation.explain import explain_heads, restoring_heads
    from qt_bert.run.scorers import open_model
    from qt_bert.scoring.explain import explain_pair

    scorer = open_model(model, without, by_head=True, notify=terminal.note)
    explanation = explain_pair(query, title, scorer, cut)
    heads = restoring = None
    if scorer.left_out is None and scorer.checkpoint.family.fast:
        heads = explain_heads(query, title, scorer)
        if (term := explanation.most_telling) is not None:
            restoring = restoring_heads(query, title, scorer, term)
    terminal.note_counts(scorer)
    shown = (explanation, heads, restoring)
    typer.echo(_as_json(*shown) if as_json else _as_text(*shown))


def _as_json(
    explanation: Explanation, heads: list[HeadEffect] | None, restoring: Restoring | None
) -> str:
    columns = {name: values[0] for name, values in explanation.outputs.columns().items()}
    outputs = {k: v if isinstance(v, str) else float(str(v)) for k, v in columns.items()}
    terms = [asdict(term) for term in explanation.terms]
    effects = None if heads is None else [asdict(head) for head in heads]
    shown: dict[str, Any] = {"query": explanation.query, "title": explanation.title, **outputs}
    shown |= {"filler": explanation.filler, "terms": terms, "heads": effects}
    shown["restoring"] = None if restoring is None else asdict(restoring)
    if explanation.left_out:
        shown |= explanation.left_out.describe() | {"guards": dict(explanation.left_out.guards)}
    return json.dumps(shown, ensure_ascii=False)


def _as_text(
    explanation: Explanation, heads: list[HeadEffect] | None, restoring: Restoring | None
) -> str:
    unit = _unit(explanation)
    lines = [f"query  {explanation.query}", f"title  {explanation.title}"]
    if explanation.left_out:
        lines.append(left_out(explanation.left_out.describe()).strip())
    lines += ["", *_grades(explanation, unit)]
    if explanation.terms:
        terms = [((term.term, term.side), term.score, term.change) for term in explanation.terms]
        lines += ["", _changes((f"{explanation.filler} for", "in"), unit, terms)]
    lines += _heads(heads, restoring, unit, explanation.filler)
    return "\n".join(lines)


def _unit(explanation: Explanation) -> str:
    if explanation.outputs.probabilities is None:
        return "score"
    return "expected grade" if explanation.outputs.labels.exact else "expected level"


def _grades(explanation: Explanation, unit: str) -> list[str]:
    """Every grade with its probability, then the predicted and the expected grade; or the score."""
    out = explanation.outputs
    if out.probabilities is None:
        return [f"score  {explanation.score:.4f}"]
    rows = [
        (name, f"{p:6.1%}", "█" * round(p * BAR))
        for name, p in zip(out.labels.names, out.probabilities[0], strict=True)
    ]
    predicted = (out.predicted or [""])[0]
    return [table(rows[::-1], left=3), "", f"predicted {predicted}, {unit} {explanation.score:.2f}"]


def _heads(
    heads: list[HeadEffect] | None, restoring: Restoring | None, unit: str, filler: str
) -> list[str]:
    """The heads that restore the most important term, and those with the largest effects."""
    from qt_bert.scoring.explain import LEAST_TELLING

    if not heads:
        return []
    terms = f"No term moves the {unit} by {LEAST_TELLING} or more."
    if restoring:
        terms = _restoring(restoring, unit, filler)
    shown = [((head.head,), head.score, head.change) for head in heads[:HEADS_SHOWN]]
    return ["", terms, "", _changes(("without head",), unit, shown), "", NO_SHARES]


def _restoring(restoring: Restoring, unit: str, filler: str) -> str:
    """The heads that restore most of the change of one term."""
    term, shown = restoring.term, restoring.heads[:RESTORING_SHOWN]
    rows = [("head put back", unit, "restores")]
    rows += [(head.head, f"{head.score:.2f}", f"{head.share:.0%}") for head in shown]
    return (
        f"{filler} for {term.term} in the {term.side} changes most ({term.change:+.2f}). Heads "
        f"put back one at a time, as they are in the whole pair:\n{table(rows)}"
    )


def _changes(
    names: tuple[str, ...], unit: str, rows: Sequence[tuple[tuple[str, ...], float, float]]
) -> str:
    """A table of the part left out, the score without it, and the change as a number and a bar."""
    longest = max(abs(change) for *_, change in rows) or 1.0
    shown = [(*names, unit, "change", "")]
    for name, score, change in rows:
        bar = ("+" if change > 0 else "−") * round(abs(change) / longest * CHANGE_BAR)
        shown.append((*name, f"{score:.2f}", f"{change:+.2f}", bar))
    return table(shown, left=len(names))
