"""One pair of a query and a title, and one row that is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from qt_bert.pairs.grades import GradeSet

EXCERPT_CHARACTERS = 200


class Reason(StrEnum):
    """Why a row is rejected: the stable codes of the rejects file."""

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


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a title as the file has them, outer whitespace included.

    `grades` is what the label may mean (None: no label, a bad one, or no scheme to read it by).
    `id` is the file's, or the line number where it has none. `line` counts physical lines from 1,
    a header included; in Parquet it is the row number from 1. `extra` holds the other columns in
    file order.
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
    """A row that is no pair: its line number, a `Reason`, and the start of its text."""

    line: int
    reason: str
    text: str

    @classmethod
    def of(cls, line: int, reason: Reason, text: str) -> Reject:
        """A reject with `text` cut to 200 characters."""
        return cls(line, reason.value, text[:EXCERPT_CHARACTERS])
