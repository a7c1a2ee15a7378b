"""What a row of a file is: a pair, or a reject with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from qt_bert.pairs.formats.rows import RawRow
from qt_bert.pairs.grades import GradeSet, LabelScheme
from qt_bert.pairs.pair import Pair, Reason, Reject


@dataclass(frozen=True)
class Judge:
    """Judges one row at a time, whatever stands around it.

    `grade_map` says how labels are read; without one they stay text. With `grade_required` a row
    without a good grade is a reject.
    """

    grade_map: LabelScheme | None = None
    grade_required: bool = False

    def judge(self, row: RawRow | Reject) -> Pair | Reject:
        """The pair that `row` is, or its reject; a reject stays as it is."""
        if isinstance(row, Reject):
            return row
        if reason := _fault(row):
            return Reject.of(row.line, reason, row.text)
        label = (row.grade or "").strip() or None
        grades = self._grades_of(label)
        if self.grade_required and label is None:
            return Reject.of(row.line, Reason.MISSING_GRADE, row.text)
        if self.grade_required and self.grade_map is not None and grades is None:
            return Reject.of(row.line, Reason.BAD_GRADE, row.text)
        id_ = row.id if row.id and not row.id.isspace() else str(row.line)
        return Pair(row.query, row.title, grades, id_, row.line, label, row.extra)

    def is_bad_grade(self, pair: Pair) -> bool:
        """Whether `pair` was accepted although its label is none that the scheme knows."""
        return self.grade_map is not None and pair.label is not None and pair.grades is None

    def _grades_of(self, label: str | None) -> GradeSet | None:
        if self.grade_map is None or label is None:
            return None
        try:
            return self.grade_map.grades_of(label)
        except ValueError:
            return None


def _fault(row: RawRow) -> Reason | None:
    if not row.query or row.query.isspace():
        return Reason.EMPTY_QUERY
    if not row.title or row.title.isspace():
        return Reason.EMPTY_TITLE
    if "\0" in row.query or "\0" in row.title:
        return Reason.NUL
    return None
