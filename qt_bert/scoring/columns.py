"""The file's own columns beside the outputs of `score`: none is lost, none is overwritten."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from qt_bert.errors import PairFileError
from qt_bert.pairs import Pair, ReaderOptions
from qt_bert.pairs.formats.opening import Location
from qt_bert.pairs.pair import Reason

_FIXED = ("id", "query", "title")


@dataclass(frozen=True)
class InputColumns:
    """What a file has beside query, title and id: a label or none, and further columns in order."""

    label: bool
    extra: tuple[str, ...]

    @classmethod
    def of(cls, pairs: Sequence[Pair], path: Location, options: ReaderOptions) -> InputColumns:
        """The columns of the file at `path`, whose first window is `pairs`."""
        label = any(p.label is not None for p in pairs) or has_grade_column(path, options)
        return cls(label, tuple(dict.fromkeys(name for p in pairs for name in p.extra)))

    @classmethod
    def union(cls, several: Iterable[InputColumns]) -> InputColumns:
        """The columns of several files: a label where one has it, further columns as they first come.

        A row of a file that lacks a column leaves it empty.
        """
        files = list(several)
        extra = dict.fromkeys(name for file in files for name in file.extra)
        return cls(any(file.label for file in files), tuple(extra))

    def table(
        self, pairs: Sequence[Pair], outputs: dict[str, list[Any]], where: str
    ) -> dict[str, list[Any]]:
        """One window of the output: id, query, title, the file's columns, then `outputs`.

        A column whose name is taken is called `input_` + name. Raises PairFileError, beginning
        with `where`, at a row with a column that the first window had not.
        """
        self._refuse_late(pairs, where)
        table: dict[str, list[Any]] = {n: [getattr(p, n) for p in pairs] for n in _FIXED}
        if self.label:
            table["grade"] = ["" if p.label is None else p.label for p in pairs]
        for name in self.extra:
            shown = _free(name, table.keys() | outputs.keys())
            table[shown] = [p.extra.get(name) or "" for p in pairs]
        return table | outputs

    def _refuse_late(self, pairs: Sequence[Pair], where: str) -> None:
        known = set(self.extra)
        for pair in pairs:
            late = next((name for name in pair.extra if name not in known), None)
            if pair.label is not None and not self.label:
                late = "grade"
            if late is not None:
                raise PairFileError(
                    f"{where}, line {pair.line}: the column {late!r} is not in the first rows, "
                    "which name the columns of the output; give every row the same columns"
                )


def has_grade_column(path: Location, options: ReaderOptions) -> bool:
    """Whether a TSV, CSV or Parquet file has the column, even where no row fills it.

    JSON Lines has keys and no columns: False.
    """
    try:
        reader = options.open(path, grade_required=True)
    except PairFileError:  # Parquet names its columns as it is opened
        return False
    if reader.format == "jsonl":
        return False
    try:
        return next(iter(reader), None) is not None
    except PairFileError:  # no column, or rows without a grade and nothing else
        return any(reader.reasons[one] for one in (Reason.MISSING_GRADE, Reason.BAD_GRADE))


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"input_{name}"
    return name
