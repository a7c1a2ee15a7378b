"""Made pairs as a file that a training command reads."""

from __future__ import annotations

import os
from collections.abc import Iterable

from qt_bert.files import atomic_write
from qt_bert.training.rules.catalogue import grade_label
from qt_bert.training.rules.gate import MadePair

_SETS = ((1,), (2,), (3,), (4,), (5,), (1, 2), (2, 3), (3, 4), (4, 5))

MADE_GRADES = ",".join(f"{grade_label(grades)}={grade_label(grades)}" for grades in _SETS)
"""What the labels of `write_made` mean, as a specification for `GradeMap.parse`."""

COLUMNS = ("query", "title", "grade", "rule")


def write_made(path: str | os.PathLike[str], made: Iterable[MadePair]) -> int:
    """Write pairs as TSV with the columns query, title, grade, rule; return how many.

    The grade is a label of `MADE_GRADES`, such as `2` or `4-5`. The file appears whole or not at
    all. Texts hold no tab or line break: `make_pairs` turns them into spaces.
    """
    rows = 0
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as out:
        print(*COLUMNS, sep="\t", file=out)
        for pair in made:
            label = grade_label(pair.grades)
            print(pair.query, pair.title, label, pair.rule, sep="\t", file=out)
            rows += 1
    return rows
