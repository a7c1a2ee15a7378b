"""Where training pairs come from: a file, how its columns and labels read, and what it is for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.pairs import GradeMap, LevelMap, Pair, PairReader, ReaderOptions
from qt_bert.pairs.grades import LabelScheme
from qt_bert.pairs.options import for_each


@dataclass(frozen=True)
class PairSource:
    """One file of pairs as a training command reads it.

    `columns`, `grades` (`0=1-2,1=3-4,2=5`), `no_header` and `max_rejects` are the reader's options;
    `always` is the set of grades (`4-5`) every row of a file without labels stands for; `labels`
    keeps rows of these labels only; `unlabelled` takes the texts alone, whatever labels there are,
    for what a teacher says of them; `exclude` drops rows whose query stands in one of
    these files; `auxiliary` trains the labels through an output of their own of that name, which
    the finished model drops; `weight` scales the loss; `tenth` keeps a tenth of the queries, by
    hash, `alone` or leaves it `left out` ("" keeps all).
    """

    file: Path
    columns: str = ""
    grades: str = ""
    always: str = ""
    labels: tuple[str, ...] = ()
    unlabelled: bool = False
    exclude: tuple[Path, ...] = ()
    auxiliary: str = ""
    weight: float = 1.0
    tenth: str = ""
    no_header: bool = False
    max_rejects: float = 0.01

    def read(
        self,
        *,
        levels: int | None = None,
        labelled: bool = False,
        rejects_path: Path | None = None,
    ) -> list[Pair]:
        """The rows this source gives; `levels` = K reads labels as 0 … K − 1 instead of grades.

        `labelled` rejects rows without a readable label (an auxiliary source: without any). Raises
        PairFileError as the reader does.
        """
        options = ReaderOptions(
            self.columns or None, self.no_header, self.grades or None, self.max_rejects
        )
        scheme: LabelScheme = LevelMap.parse(str(levels)) if levels else GradeMap.identity()
        reader = options.open(
            self.file,
            default_map=scheme,
            grade_required=labelled and not (self.always or self.auxiliary or self.unlabelled),
            rejects_path=rejects_path,
        )
        barred = {query for other in self.exclude for query in _queries(other)}
        fixed = GradeMap.parse(f"any={self.always}").sets["any"] if self.always else None
        return [
            replace(pair, grades=fixed) if fixed or self.unlabelled else pair
            for pair in reader
            if (not self.labels or pair.label in self.labels)
            and pair.query not in barred
            and not (labelled and self.auxiliary and pair.label is None)
            and (not self.tenth or _in_tenth(pair.query) == (self.tenth == "alone"))
        ]

    @property
    def options_key(self) -> str:
        """What the rows depend on beside the bytes of the files."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        files = [sha256_file(path) for path in (self.file, *self.exclude)]
        return repr((files, {k: v for k, v in kept.items() if k not in ("file", "exclude")}))


def _in_tenth(query: str) -> bool:
    """About one query in ten, whatever file it stands in."""
    return hashlib.sha256(query.encode()).digest()[0] < 26


@cache
def _queries(path: Path) -> frozenset[str]:
    return frozenset(pair.query for pair in PairReader(path))


def one_for_each(
    files: Sequence[Path] | None,
    grades: Sequence[str] | None,
    columns: Sequence[str] | None,
    *,
    no_header: bool = False,
    max_rejects: float = 0.01,
) -> list[PairSource]:
    """Sources of repeated options: one specification for every file, or one for all.

    Raises ArgumentError where their numbers do not match, or a file is missing.
    """
    names = list(files or ())
    read = [
        for_each(values, names, what)
        for values, what in ((grades, "--grades"), (columns, "--columns"))
    ]
    for name in names:
        if not name.exists():
            raise ArgumentError(f"--pairs {name}: no such file")
    return [
        PairSource(name, grades=grade, columns=column, no_header=no_header, max_rejects=max_rejects)
        for name, grade, column in zip(names, *read, strict=True)
    ]


def unlabelled_of(
    files: Sequence[Path] | None, *, no_header: bool = False, max_rejects: float = 0.01
) -> list[PairSource]:
    """Sources of texts alone. Raises ArgumentError where a file is missing."""
    for name in files or ():
        if not name.exists():
            raise ArgumentError(f"--unlabelled {name}: no such file")
    return [
        PairSource(name, unlabelled=True, no_header=no_header, max_rejects=max_rejects)
        for name in files or ()
    ]
