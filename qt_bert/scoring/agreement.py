"""`qt-bert agree`: how far the raters of a file agree, each a column of grades."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.data.columns import parse_columns
from qt_bert.data.pairs import GradeMap, GradeSet, Pair
from qt_bert.data.reader import PairReader, ReaderOptions, for_each, too_many
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.files import sha256_file
from qt_bert.scoring.slices import by_column
from qt_bert.stats.agreement import MARGIN, Ratings, agreement
from qt_bert.stats.intervals import RESAMPLES
from qt_bert.stats.judgements import name_set


def agree(
    path: str | Path,
    raters: Sequence[str],
    reader: ReaderOptions | None = None,
    *,
    judges: Sequence[str] = (),
    grades: Sequence[str] | None = None,
    by: Sequence[str] = (),
    most: int = 10,
    resamples: int = RESAMPLES,
    seed: int = 0,
    rejects_path: Path | None = None,
) -> dict[str, Any]:
    """How far the columns `raters` of a file agree: α, every two raters, slices, the pairs furthest apart.

    `judges` are those of the raters who shall stand for the others, an LLM. `grades` says what labels mean, once for all raters or once for each (default: grades 1–5). An empty
    cell is no rating. `most` pairs are listed. Raises ArgumentError for raters or columns that are not
    there, PairFileError for a file that cannot be read or labels that are no grades.
    """
    file, reader = Path(path), reader or ReaderOptions()
    meant = for_each(grades or [reader.grades or ""], raters, "--grades", "rater")
    maps = [GradeMap.parse(one) if one else GradeMap.identity() for one in meant]
    pairs, labels, rejected = _labels(file, raters, judges, reader, rejects_path)
    bad, sets = _read(file, raters, maps, pairs, labels, reader.max_rejects)
    ratings = Ratings.of(raters, sets, [pair.query for pair in pairs])
    distance = ratings.distance()
    apart = [row for row in np.argsort(-distance, kind="stable").tolist() if distance[row] > 0]
    counted = {"n_pairs": len(pairs), "n_queries": ratings.n_queries, "rejected": rejected}
    drawn = {"resamples": resamples, "seed": seed}
    return {
        "schema": 1,
        "pairs": {"name": file.name, "sha256": sha256_file(file), **counted},
        "rated": dict(zip(raters, (ratings.codes >= 0).sum(axis=0).tolist(), strict=True)),
        "bad_labels": bad,
        "labels": [name_set(one) for one in ratings.sets],
        **agreement(ratings, judges, **drawn),
        "slices": {
            column: {
                value: agreement(ratings.subset(rows), judges, **drawn)
                for value, rows in by_column(pairs, column).items()
            }
            for column in by
        },
        "furthest": [
            {name: getattr(pairs[row], name) for name in ("id", "line", "query", "title")}
            | {
                "labels": dict(zip(raters, labels[row], strict=True)),
                "distance": int(distance[row]),
            }
            for row in apart[: max(most, 0)]
        ],
        "settings": {**drawn, "margin": MARGIN},
    }


def _labels(
    path: Path,
    raters: Sequence[str],
    judges: Sequence[str],
    options: ReaderOptions,
    rejects_path: Path | None,
) -> tuple[list[Pair], list[list[str]], int]:
    """The pairs of a file, the label that each rater gives each, and the number of rejects."""
    if len(raters) < 2 or len(set(raters)) < len(raters):
        raise ArgumentError(f"--raters {','.join(raters)}: name two columns or more, each once")
    if unknown := [one for one in judges if one not in raters]:
        raise ArgumentError(f"--judge {unknown[0]}: no such rater; there are {', '.join(raters)}")
    if judges and len(set(raters) - set(judges)) < 2:
        raise ArgumentError(
            f"--judge {','.join(judges)}: name two raters or more besides, to know how far they agree"
        )
    columns = (parse_columns(options.columns) if options.columns else {}) | {"grade": raters[0]}
    reader = PairReader(
        path, columns=columns, max_rejects=options.max_rejects, rejects_path=rejects_path
    )
    pairs = list(reader)
    known = {name for pair in pairs for name in pair.extra}
    if missing := [one for one in raters[1:] if one not in known]:
        there = ", ".join(sorted(known))
        raise ArgumentError(f"--raters {missing[0]}: no such column in {path}; there are {there}")
    rows = [[pair.label, *(pair.extra.get(one) for one in raters[1:])] for pair in pairs]
    return pairs, [[(one or "").strip() for one in row] for row in rows], reader.rejected


def _read(
    path: Path,
    raters: Sequence[str],
    maps: Sequence[GradeMap],
    pairs: Sequence[Pair],
    labels: Sequence[Sequence[str]],
    max_rejects: float,
) -> tuple[dict[str, int], list[list[GradeSet | None]]]:
    """How many labels of each rater are no grades, and what the others mean [n][R]."""
    sets: list[list[GradeSet | None]] = [[None] * len(raters) for _ in pairs]
    bad: dict[str, list[str]] = {rater: [] for rater in raters}
    for pair, row, own in zip(pairs, labels, sets, strict=True):
        for place, label in enumerate(row):
            try:
                own[place] = maps[place].grades_of(label) if label else None
            except ValueError as error:
                bad[raters[place]].append(f"line {pair.line}: {error}")
    for rater, faults in bad.items():
        if too_many(len(faults), len(pairs), max_rejects):
            raise PairFileError(
                f"{path}: {len(faults):,} labels of {rater!r} are no grades ({faults[0]}); say what "
                "labels mean with --grades, once for all raters or once for each"
            )
    return {rater: len(faults) for rater, faults in bad.items()}, sets
