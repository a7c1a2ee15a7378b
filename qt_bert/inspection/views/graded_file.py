"""A graded file that a visitor uploads: read as `qt-bert evaluate` reads it, at most 2,000 pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from qt_bert.encoder import ModelLabels
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.inspection.refused import RefusedFile
from qt_bert.inspection.sources import listed_rejects, shown_name, uploaded
from qt_bert.pairs import GradeMap, Pair, ReaderOptions
from qt_bert.pairs.columns import Columns, parse_columns
from qt_bert.pairs.pair import Reject
from qt_bert.pairs.sample import sample_queries, spread_over_queries
from qt_bert.results import Text
from qt_bert.scoring.judge import graded_pairs, judge_logits
from qt_bert.shipped import TEST, shipped

MOST_PAIRS = 2_000
MOST_ROWS_READ = 100_000
"""Pairs of a file that are read for the draw: what a server can hold for many visitors."""
MOST_REJECTS = 10_000
_MESSAGE_CHARACTERS = 600

Field = Literal["file", "columns", "grades"]


class FileFault(RefusedFile):
    """Why a file cannot be evaluated: beside which field it is to be said, and the rows at fault."""

    def __init__(self, field: Field, said: Text, rejects: Sequence[Reject] = ()) -> None:
        super().__init__(said)
        self.field: Field = field
        self.rejects = tuple(rejects)


@dataclass(frozen=True, kw_only=True)
class GradedFile:
    """The pairs to evaluate, drawn of a file of `n_pairs` pairs and `n_queries` queries.

    `unread`: the file goes on beyond the pairs that were read for the draw. `rejected` counts all
    rejects, `rejects` are the first of them.
    """

    name: str
    pairs: tuple[Pair, ...]
    n_pairs: int
    n_queries: int
    unread: bool
    rejected: int
    rejects: tuple[Reject, ...]

    @property
    def whole(self) -> bool:
        """Whether all pairs of the file are taken."""
        return len(self.pairs) == self.n_pairs and not self.unread


def read_graded(
    data: bytes, name: str, options: ReaderOptions, labels: ModelLabels, seed: int = 0
) -> GradedFile:
    """The pairs of an uploaded file, with labels as this model can be judged by.

    The file lies on disk only while it is read, in a folder that nobody else can open. Raises
    FileFault.
    """
    _check_options(options)
    rejects: tuple[Reject, ...] = ()
    try:
        with uploaded(data, name) as path:
            listed = path.with_name("rejects.tsv")
            try:
                return _read(path, shown_name(name), options, labels, seed, listed)
            except ArgumentError as error:
                raise PairFileError(str(error)) from error
            finally:
                rejects = listed_rejects(listed, MOST_REJECTS)
    except RefusedFile as error:
        field = _field_of(error.said.en)
        raise FileFault(field, _short(error.said), rejects) from error


def shipped_graded(labels: ModelLabels, seed: int = 0) -> GradedFile:
    """The test split that ships. Raises FileFault where this model cannot be judged by it."""
    path = shipped(TEST)
    try:
        return _read(path, path.name, ReaderOptions(), labels, seed)
    except (ArgumentError, PairFileError) as error:
        why = str(error).replace(f"{path.parent}/", "")
        raise FileFault(
            "file",
            _short(
                Text(
                    f"随包测试集不能用来评这个模型：{why}",
                    f"the test set that ships cannot judge this model: {why}",
                )
            ),
        ) from error


def _read(
    path: Path,
    name: str,
    options: ReaderOptions,
    labels: ModelLabels,
    seed: int,
    listed: Path | None = None,
) -> GradedFile:
    pairs, rejected = graded_pairs(
        path, options, labels, rejects_path=listed, most=MOST_ROWS_READ + 1
    )
    unread = len(pairs) > MOST_ROWS_READ
    del pairs[MOST_ROWS_READ:]
    drawn = draw(pairs, seed)
    _check_labels(drawn, labels)
    return GradedFile(
        name=name,
        pairs=tuple(drawn),
        n_pairs=len(pairs),
        n_queries=len({pair.query for pair in pairs}),
        unread=unread,
        rejected=rejected,
        rejects=listed_rejects(listed, MOST_REJECTS),
    )


def draw(pairs: Sequence[Pair], seed: int = 0, most: int = MOST_PAIRS) -> list[Pair]:
    """At most `most` pairs, in file order: whole queries, drawn by their text and `seed`.

    Where one query alone has more than half of them, as many queries as there can be instead.
    """
    if len(pairs) <= most:
        return list(pairs)
    largest = max(Counter(pair.query for pair in pairs).values())
    if 2 * largest > most:
        return spread_over_queries(pairs, most, seed)
    return sample_queries(pairs, most - largest + 1, seed)


def _check_options(options: ReaderOptions) -> None:
    """What can be said of the options before the file is opened. Raises FileFault."""
    try:
        given = parse_columns(options.columns) if options.columns is not None else {}
        Columns.resolve(given, header=not options.no_header)
    except ArgumentError as error:
        raise FileFault("columns", _short(Text(f"列名读不懂：{error}", str(error)))) from error
    try:
        if options.grades is not None:
            GradeMap.parse(options.grades)
    except ArgumentError as error:
        raise FileFault("grades", _short(Text(f"标注含义读不懂：{error}", str(error)))) from error


def _check_labels(pairs: Sequence[Pair], labels: ModelLabels) -> None:
    """ArgumentError where the labels do not fit the model, before it has scored anything."""
    judge_logits(np.zeros((len(pairs), labels.logits), np.float32), list(pairs), labels)


def _short(said: Text) -> Text:
    """A message that quotes the file no further than a reader wants."""
    most = _MESSAGE_CHARACTERS
    zh, en = (one if len(one) <= most else one[:most] + "…" for one in (said.zh, said.en))
    return Text(zh, en)


def _field_of(message: str) -> Field:
    """Beside which field an error stands: the one whose option it advises."""
    if "--grades" in message or "bad grade" in message or "missing grade" in message:
        return "grades"
    return "columns" if "--columns" in message or "--no-header" in message else "file"
