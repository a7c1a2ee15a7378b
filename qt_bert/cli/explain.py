"""`qt-bert explain`: why this grade?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.show import left_out, table

if TYPE_CHECKING:
    from qt_bert.scoring.explain import Explanation

BAR = 24


@app.command(rich_help_panel=options.SCORING)
def explain(
    query: Annotated[str, typer.Argument(help="What was typed.")],
    title: Annotated[str, typer.Argument(help="The page's title.")],
    model: options.Model = None,
    segmenter: Annotated[
        str, typer.Option(help="Cuts terms: jieba, jieba-search, rjieba.")
    ] = "jieba",
    userdict: Annotated[
        Path | None, typer.Option(help="Further words for the segmenter, one a line.")
    ] = None,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
    heads_out: options.HeadsOut = None,
    mode: options.HeadsOutMode = None,
    reference: options.Reference = None,
    as_json: options.AsJson = False,
) -> None:
    """One pair's grades, and the effect of leaving out each term of query and title."""
    from qt_bert.errors import ArgumentError
    from qt_bert.pairs import segmenter as make_segmenter

    if not query.strip() or not title.strip():
        raise ArgumentError("query and title must both hold text")
    without = opening.HeadsOut.asked(heads_out, mode, reference)
    cut = make_segmenter(segmenter, userdict=userdict)
    from qt_bert.scoring.explain import explain_pair

    scorer = opening.open_scorer(
        model,
        dtype=dtype,
        max_length=max_length,
        model_grades=model_grades,
        heads_out=without,
    )
    found = explain_pair(query, title, scorer, cut)
    opening.tell_truncation(scorer)
    typer.echo(_as_json(found) if as_json else _as_text(found))


def _as_json(found: Explanation) -> str:
    columns = {name: values[0] for name, values in found.outputs.columns().items()}
    outputs = {k: v if isinstance(v, str) else float(str(v)) for k, v in columns.items()}
    terms = [asdict(term) for term in found.terms]
    shown = {"query": found.query, "title": found.title, **outputs, "terms": terms}
    if found.left_out:
        shown |= found.left_out.describe() | {"guards": dict(found.left_out.guards)}
    return json.dumps(shown, ensure_ascii=False)


def _as_text(found: Explanation) -> str:
    out = found.outputs
    rows: list[tuple[str, ...]]
    lines = [f"query  {found.query}", f"title  {found.title}", ""]
    if found.left_out:
        lines.insert(2, left_out(found.left_out.describe()).strip())
    if out.probabilities is None:
        lines.append(f"score  {found.score:.4f}")
        unit = "score"
    else:
        unit = "expected grade" if out.labels.exact else "expected level"
        rows = [
            (name, f"{p:6.1%}", "█" * round(p * BAR))
            for name, p in zip(out.labels.names, out.probabilities[0], strict=True)
        ]
        lines.append(table([(r[0], r[1], r[2]) for r in reversed(rows)], left=3))
        predicted = (out.predicted or [""])[0]
        lines += ["", f"predicted {predicted}, {unit} {found.score:.2f}"]
    if found.terms:
        longest = max(abs(term.change) for term in found.terms) or 1.0
        rows = [("without", "in", unit, "change", "")]
        for term in found.terms:
            bar = ("+" if term.change > 0 else "−") * round(abs(term.change) / longest * 12)
            rows.append((term.term, term.side, f"{term.score:.2f}", f"{term.change:+.2f}", bar))
        lines += ["", table(rows, left=2)]
    return "\n".join(lines)
