"""The reader's options, as every command that reads pairs takes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qt_bert.errors import ArgumentError
from qt_bert.pairs.columns import Columns, parse_columns
from qt_bert.pairs.formats.opening import Readable
from qt_bert.pairs.grades import GradeMap, LabelScheme
from qt_bert.pairs.judging import Judge
from qt_bert.pairs.reader import PairReader


@dataclass(frozen=True)
class ReaderOptions:
    """What `--columns`, `--no-header`, `--grades` and `--max-rejects` say, as they were written."""

    columns: str | None = None
    no_header: bool = False
    grades: str | None = None
    max_rejects: float = 0.01

    def open(
        self,
        path: str | os.PathLike[str] | Readable,
        *,
        default_map: LabelScheme | None = None,
        grade_required: bool = False,
        rejects_path: Path | None = None,
    ) -> PairReader:
        """A reader of `path` by these options; `default_map` reads the labels without `--grades`.

        Raises ArgumentError for options that cannot be meant, PairFileError for the file.
        """
        return PairReader(
            path,
            columns=self._given_columns(),
            header=not self.no_header,
            grade_map=self._grade_map(default_map),
            grade_required=grade_required,
            max_rejects=self.max_rejects,
            rejects_path=rejects_path,
        )

    def wanted_columns(self) -> Columns:
        """The columns that a reader by these options looks for; ArgumentError as for `open`."""
        return Columns.resolve(self._given_columns(), header=not self.no_header)

    def judge(self, default_map: LabelScheme | None = None) -> Judge:
        """How a reader by these options judges a row; ArgumentError as for `open`."""
        return Judge(self._grade_map(default_map))

    def _given_columns(self) -> dict[str, str | int]:
        return parse_columns(self.columns) if self.columns is not None else {}

    def _grade_map(self, default_map: LabelScheme | None) -> LabelScheme | None:
        return GradeMap.parse(self.grades) if self.grades is not None else default_map


def for_each(values: Sequence[str] | None, files: Sequence[Path], option: str) -> Sequence[str]:
    """The values of a repeated option: one for every file, or one for all; "" where there is none.

    Raises ArgumentError naming the `option` where their numbers do not match.
    """
    given = list(values or [""])
    if len(given) == 1:
        return given * len(files)
    if len(given) != len(files):
        raise ArgumentError(
            f"{option} was given {len(given)} times for {len(files)} files; give it once for each "
            "file, or once for all"
        )
    return given
