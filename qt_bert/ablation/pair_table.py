"""`pairs.csv`: the pairs of a sweep, in the order of its logits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_write
from qt_bert.pairs import GradeSet, Pair

COLUMNS = ("id", "line", "query", "title", "grades")


def write_pairs(path: Path, pairs: Sequence[Pair]) -> None:
    """Write one row a pair, atomically; `grades` is empty without a label, else as `spell_grades`."""
    import csv

    import pandas as pd

    rows = [(p.id, p.line, p.query, p.title, spell_grades(p.grades)) for p in pairs]
    with atomic_write(path) as temporary:
        # Every text is quoted, so that one with any kind of line break inside reads back as it is.
        pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(
            temporary, index=False, quoting=csv.QUOTE_NONNUMERIC
        )


def read_pairs(path: Path) -> list[Pair]:
    """The pairs that `write_pairs` stored, without labels and further columns.

    Raises RunFolderError for a file that is missing or something else.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)[list(COLUMNS)]
        return [
            Pair(query, title, read_grades(grades), id_, int(line), None, {})
            for id_, line, query, title, grades in table.itertuples(index=False)
        ]
    except (OSError, ValueError, KeyError) as error:
        raise RunFolderError(
            f"{path}: not the pairs of a sweep ({error}); run the sweep again with --overwrite"
        ) from error


def spell_grades(grades: GradeSet | None) -> str:
    """`3`, `1-2` for neighbours, `1+3-4` for others, nothing for no label."""
    runs = groupby(enumerate(grades or ()), lambda place: place[1] - place[0])
    spans = [[grade for _, grade in run] for _, run in runs]
    return "+".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)


def read_grades(text: str) -> GradeSet | None:
    """The grades that `spell_grades` wrote. Raises ValueError for another text."""
    if not text:
        return None
    grades: list[int] = []
    for part in text.split("+"):
        first, _, last = part.partition("-")
        grades += range(int(first), int(last or first) + 1)
    return tuple(grades)
