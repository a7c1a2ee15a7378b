"""Opening what scores, for commands and `load()`: a model, without some heads where named, an ONNX export, or
a column of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.scores import column_of
from qt_bert.errors import ArgumentError
from qt_bert.request import HeadsOutOptions, ModelOptions
from qt_bert.scoring.column import ColumnScorer
from qt_bert.shipped import DEV, shipped

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer
    from qt_bert.scoring.judge import PairScorer


def open_model(
    options: ModelOptions,
    heads_out: HeadsOutOptions | None = None,
    reader: ReaderOptions | None = None,
    *,
    by_head: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> Scorer:
    """The model, ready to score; `notify` gets warnings.

    The heads of `heads_out` are left out, its reference pairs read by `reader`. Unless single heads are
    needed (`by_head`), a pruned model is opened as small as it is stored. Raises ArgumentError for an
    invalid option, CheckpointError for a folder that cannot be opened.
    """
    from qt_bert.scoring.bulk import Scorer

    heads = None if heads_out is None else heads_out.heads_out
    scorer = Scorer.open(options, compact=not by_head and heads is None, notify=notify)
    if heads_out is None or heads is None:
        return scorer
    from qt_bert.ablation.request import leave_heads_out

    path, mode = heads_out.reference, heads_out.mode or "zero"
    columns = ReaderOptions() if path is None or reader is None else reader
    pairs = list(columns.open(shipped(DEV) if path is None else path))
    scorer = leave_heads_out(scorer, heads, mode, pairs)
    notify(f"{scorer.name} without {scorer.describe()['heads_out']} ({mode})")
    return scorer


def open_scorer(
    options: ModelOptions,
    heads_out: HeadsOutOptions | None = None,
    reader: ReaderOptions | None = None,
    *,
    notify: Callable[[str], None] = lambda line: None,
) -> PairScorer:
    """As `open_model`, where scores are enough: also a folder or file of `qt-bert export --onnx`, and a column,
    FILE:COLUMN, of a file whose queries and titles `reader` names."""
    if (column := column_of(options.model)) is not None:
        if heads_out is not None and heads_out.heads_out is not None:
            raise ArgumentError(
                f"{options.model} is a column of scores: it has no heads to leave out"
            )
        return ColumnScorer(*column, reader or ReaderOptions(), model_grades=options.model_grades)
    from qt_bert.planning.export_session import OnnxScorer
    from qt_bert.results.plan import EXPORT

    place = Path(options.model or "")
    if options.model is None or not (place.suffix == ".onnx" or (place / EXPORT).is_file()):
        return open_model(options, heads_out, reader, notify=notify)
    others = replace(options, max_length=None, model_grades=None, token_types=None)
    plain = ModelOptions(options.model, device="cpu" if options.device == "cpu" else "auto")
    if others != plain or (heads_out is not None and heads_out.heads_out is not None):
        raise ArgumentError(
            f"{options.model}: an ONNX export runs on the CPU as it was exported; only --max-length and "
            "--model-grades go with it"
        )
    scorer = OnnxScorer(
        options.model, max_length=options.max_length, model_grades=options.model_grades
    )
    had = "yes" if "token_type_ids" in scorer.export.inputs else "no"
    if options.token_types not in (None, had):
        raise ArgumentError(f"{options.model}: exported with --token-types {had}; export it again")
    return scorer


def split_seeds(models: str) -> list[str]:
    """The models of `A1,A2,A3`, one trained with several seeds. A part that is no path after a FILE:COLUMN is a
    further column of that file."""
    parts = [models] if Path(models).exists() else models.split(",")
    names: list[str] = []
    for part in parts:
        if names and column_of(names[-1]) and not (Path(part).exists() or column_of(part)):
            names[-1] += f",{part}"
        else:
            names.append(part)
    if not all(names):
        raise ArgumentError(f"{models!r}: an empty name among models separated by commas")
    return names
