"""`qt-bert export`: a model as ONNX, checked against torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.show import differences_table
from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions
from qt_bert.shipped import GRADED, shipped

if TYPE_CHECKING:
    from qt_bert.encoder import Checkpoint
    from qt_bert.planning.export.int8 import GradedPairs
    from qt_bert.results.export import ExportFile, Int8Loss


@app.command(rich_help_panel=options.SMALLER)
def export(
    out: Annotated[Path, typer.Option(help="Folder of the exported model.")],
    model: options.Model = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="As ONNX, the one format there is.")] = True,
    int8: Annotated[
        bool,
        typer.Option(
            "--int8", help="Also with weights in eight bits; what that costs is measured."
        ),
    ] = False,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Graded pairs to measure --int8 on. [default: the test split that ships]"
        ),
    ] = None,
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    rejects: options.Rejects = None,
    model_grades: options.ModelGrades = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a model as ONNX: whole, pruned or distilled; held against torch, or not written at all."""
    if pairs is not None and not int8:
        raise ArgumentError("--pairs goes with --int8, whose cost is measured on them")
    path = opening.pairs_or_test(pairs) if int8 else None
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    if path is not None:
        asked.open(path)
    from qt_bert.encoder import open_checkpoint
    from qt_bert.planning.export.run_export import check_ready, export_onnx

    check_ready(out, overwrite)
    folder = model if model is not None else shipped(GRADED)
    checkpoint = open_checkpoint(folder, model_grades=model_grades, compact=True)
    checkpoint.check_heads()
    graded = None if path is None else _graded(path, asked, checkpoint, rejects)
    opening.say(f"{checkpoint.name}: tracing, then checking against torch")
    made = export_onnx(checkpoint, out, int8_on=graded, overwrite=overwrite)
    typer.echo(_as_json(made, out) if as_json else _as_text(made, out))


def _graded(
    path: Path, asked: ReaderOptions, checkpoint: Checkpoint, rejects: Path | None
) -> GradedPairs:
    from qt_bert.files import sha256_file
    from qt_bert.planning.export.int8 import GradedPairs
    from qt_bert.results.probe import PairsRef
    from qt_bert.scoring.judge import graded_pairs

    pairs, rejected = graded_pairs(path, asked, checkpoint.settings.labels, rejects_path=rejects)
    opening.tell_rejects(rejected, rejects)
    return GradedPairs(PairsRef(name=path.name, sha256=sha256_file(path)), pairs)


def _as_json(made: ExportFile, out: Path) -> str:
    from qt_bert.results.codec import encode

    return json.dumps({"out": str(out)} | encode(made), ensure_ascii=False)


def _as_text(made: ExportFile, out: Path) -> str:
    check = made.check
    limits = f"{check.cases[0].length} to {check.cases[-1].length} tokens"
    lines = [
        f"{file.name}: {file.stat().st_size / 1e6:,.1f} MB" for file in sorted(out.glob("*.onnx*"))
    ]
    lines += [
        f"largest difference from torch in a new process, {limits}, with padding: "
        f"{check.largest:.1e} (at most {check.bound:g})",
        f"inputs {', '.join(made.inputs)}; opset {made.opset}; in {out}",
    ]
    return "\n".join(lines if made.int8 is None else [*lines, "", _int8_table(made.int8)])


def _int8_table(loss: Int8Loss) -> str:
    pairs = loss.pairs
    head = f"int8 on {pairs.name}: {pairs.n_pairs:,} pairs, {pairs.n_queries:,} queries"
    changes = differences_table(loss.metrics, "float32", "int8")
    return f"{head}; largest change of a logit {loss.largest:.2g}\n{changes}"
