"""A pair of a query and a title; labels as sets of grades; rejects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import nan

from qt_bert.errors import ArgumentError

GRADES = (1, 2, 3, 4, 5)

GradeSet = tuple[int, ...]
"""The distinct grades that a label may mean, ascending: one for an exact grade, several for a coarse
label. For a model with other than five outputs, one of its levels."""

_WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
_GRADE_RANGE = re.compile(r"([1-5])(?:-([1-5]))?")


@dataclass(frozen=True)
class GradeMap:
    """`sets`: label text → the grades it may mean. `1.0` reads as `1`; `01` is another label."""

    sets: Mapping[str, GradeSet]

    @property
    def ordered(self) -> list[GradeSet]:
        """The different sets, by mean grade."""
        return sorted(
            set(self.sets.values()), key=lambda grades: (sum(grades) / len(grades), grades)
        )

    @classmethod
    def parse(cls, spec: str) -> GradeMap:
        """Parse `0=1,1=2,2=3-4,3=5`: label = a grade, a range `a-b`, or a union `a+b`, `1+3-4`.

        Raises ArgumentError for an empty specification, a repeated or missing label, and anything
        but grades 1 to 5 in ascending ranges.
        """
        sets: dict[str, GradeSet] = {}
        for entry in spec.split(","):
            label, equals, meaning = (part.strip() for part in entry.partition("="))
            if not equals or not label or not meaning:
                raise _bad_spec(spec, f"{entry.strip()!r} is not of the form label=grades")
            if label in sets:
                raise _bad_spec(spec, f"the label {label!r} stands twice")
            sets[label] = _parse_grades(spec, meaning)
        return cls(sets)

    @classmethod
    def identity(cls) -> GradeMap:
        """`1` to `5`, `1-2` to `4-5` (between two), `pos` (4 and 5) and `neg` (1 to 3)."""
        sets: dict[str, GradeSet] = {str(grade): (grade,) for grade in GRADES}
        sets |= {f"{low}-{high}": (low, high) for low, high in pairwise(GRADES)}
        return cls(sets | {"pos": (4, 5), "neg": (1, 2, 3)})

    @classmethod
    def levels(cls, n: int) -> GradeMap:
        """The labels `0` to n − 1 as levels 1 to n (level i is output i − 1), for models with other than
        five outputs; of two levels also `neg` and `pos`."""
        two: dict[str, GradeSet] = {"neg": (1,), "pos": (2,)} if n == 2 else {}
        return cls({str(level): (level + 1,) for level in range(n)} | two)

    def get(self, label: str) -> GradeSet | None:
        """The grades `label` may mean; None for an unknown label."""
        text = label.strip()
        if text not in self.sets and (number := _WHOLE_NUMBER.fullmatch(text)):
            text = number[1]
        return self.sets.get(text)

    def grades_of(self, label: str) -> GradeSet:
        """As `get`. Raises ValueError for an unknown label."""
        if (grades := self.get(label)) is None:
            raise ValueError(f"the label {label.strip()[:40]!r} is none of {', '.join(self.sets)}")
        return grades


def _parse_grades(spec: str, meaning: str) -> GradeSet:
    grades: set[int] = set()
    for part in meaning.split("+"):
        match = _GRADE_RANGE.fullmatch(part.strip())
        if match is None:
            raise _bad_spec(
                spec, f"{part.strip()!r} is neither a grade 1-5 nor a range such as 3-4"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise _bad_spec(spec, f"the range {part.strip()!r} runs backwards")
        grades.update(range(first, last + 1))
    return tuple(sorted(grades))


def _bad_spec(spec: str, reason: str) -> ArgumentError:
    return ArgumentError(f"--grades {spec!r}: {reason}; write for instance '0=1,1=2,2=3-4,3=5'")


def number_of(label: str) -> float:
    """A label such as `3`, `3.67` or `-1e-2` as a number; NaN for any other text."""
    written = re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", label)
    return float(label) if written else nan


EXCERPT_CHARACTERS = 200


class Reason(StrEnum):
    """Why a row is rejected, as the rejects file has it."""

    EMPTY_QUERY = "empty query"
    EMPTY_TITLE = "empty title"
    MISSING_GRADE = "missing grade"
    BAD_GRADE = "bad grade"
    TOO_FEW_FIELDS = "too few fields"
    TOO_MANY_FIELDS = "too many fields"
    UNDECODABLE = "undecodable bytes"
    NUL = "NUL character"
    SURROGATE = "lone surrogate"
    BAD_JSON = "bad JSON"
    NOT_AN_OBJECT = "not a JSON object"
    MISSING_QUERY = "missing query"
    MISSING_TITLE = "missing title"
    QUERY_NOT_TEXT = "query is not text"
    TITLE_NOT_TEXT = "title is not text"
    NAN = "NaN is no text and no grade"
    NOT_A_LIST = "pos or neg is not a list of titles"
    UNCLOSED_QUOTE = "unclosed quote"
    HEADER = "the header again"


class Json(str):
    """A JSON Lines value that is no text, as in the file; "" is null."""

    __slots__ = ()

    @property
    def literal(self) -> str:
        """The value as JSON."""
        return str(self) or "null"


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a title as in the file, with outer whitespace.

    `grades`: what the label may mean (None: no label, a bad one, or no grade map). `id`: the file's,
    or the line number. `line`: from 1, header and empty lines included; in Parquet the row, from 1.
    `extra`: the other columns in file order, as text; `Json` and `ArrowCell` keep the file's type.
    """

    query: str
    title: str
    grades: GradeSet | None
    id: str
    line: int
    label: str | None
    extra: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reject:
    """A rejected row: line number, `Reason`, start of its text."""

    line: int
    reason: str
    text: str

    @classmethod
    def of(cls, line: int, reason: str, text: str) -> Reject:
        """A reject with `text` cut to 200 characters."""
        return cls(line, str(reason), text[:EXCERPT_CHARACTERS])
