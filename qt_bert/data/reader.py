"""Read a file of pairs row by row; each row is a pair or a reject."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from qt_bert.data.columns import Columns, parse_columns
from qt_bert.data.formats import format_of, open_format
from qt_bert.data.lines import Location, RawRow, Readable
from qt_bert.data.pairs import GradeMap, Pair, Reason, Reject
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.files import atomic_write, remove_left
from qt_bert.progress import note_once

ALWAYS_TOLERATED = 10
CHECKED_EVERY = 10_000

_BREAKS = re.compile("[\t\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_HEADER = "line\treason\ttext\n"


@contextmanager
def reject_log(path: Path | None) -> Iterator[Callable[[Reject], None]]:
    """A function that adds a reject to a TSV file of `line`, `reason`, `text`.

    The file is written only where there are rejects, atomically however reading ends; without rejects
    the list of an earlier run is removed. Raises ArgumentError where it cannot be written, or is another file.
    """
    if path is not None and path.exists() and not _is_old_list(path):
        raise ArgumentError(f"{path} is there already, and no list of rejects; name another file")
    if path is not None:
        remove_left(path)
    open_file = ExitStack()
    handle: IO[str] | None = None

    def write(reject: Reject) -> None:
        nonlocal handle
        if path is None:
            return
        if handle is None:
            try:
                with ExitStack() as stack:
                    temporary = stack.enter_context(atomic_write(path))
                    handle = stack.enter_context(
                        open(
                            temporary,
                            "w",
                            encoding="utf-8",
                            errors="backslashreplace",
                            newline="\n",
                        )
                    )
                    open_file.push(stack.pop_all())
            except OSError as error:
                raise ArgumentError(
                    f"{path}: the rejects cannot be written here ({error})"
                ) from error
            handle.write(_HEADER)
        handle.write(f"{reject.line}\t{reject.reason}\t{one_line(reject.text)}\n")

    try:
        yield write
    finally:
        # Closed without the exception: the list is needed most when reading was stopped.
        open_file.close()
        if path is not None and handle is None and _is_old_list(path):
            path.unlink(missing_ok=True)


def _is_old_list(path: Path) -> bool:
    """Whether the file at `path` is a list of rejects or empty, and not another file of the user's."""
    if not path.is_file():
        return False
    with open(path, "rb") as handle:
        return handle.read(len(_HEADER)) in (b"", _HEADER.encode())


def one_line(text: str) -> str:
    """`text` with spaces for tabs and line breaks."""
    return _BREAKS.sub(" ", text)


def check_share(max_rejects: float) -> float:
    """`max_rejects`. Raises ArgumentError unless it is a share from 0 to 1."""
    if not 0 <= max_rejects <= 1:
        raise ArgumentError(f"--max-rejects {max_rejects}: give a share of the rows, from 0 to 1")
    return max_rejects


def too_many(rejected: int, rows: int, max_rejects: float) -> bool:
    """Whether more than ten rejects exceed the share `max_rejects` of `rows`."""
    return rejected > max(ALWAYS_TOLERATED, max_rejects * rows)


def describe(reasons: Mapping[str, int], first: Reject | None) -> str:
    """The reasons by frequency, and the first reject."""
    counts = ", ".join(
        f"{reason}: {count:,}" for reason, count in sorted(reasons.items(), key=lambda r: -r[1])
    )
    if first is None:
        return counts
    return f"{counts}; the first is line {first.line}, {one_line(first.text)[:80]!r}"


@dataclass(frozen=True)
class RowParser:
    """Parses single rows.

    `grade_map` maps labels to grades; without one they stay text. With `grade_required` a row without
    a valid grade is a reject.
    """

    grade_map: GradeMap | None = None
    grade_required: bool = False

    def parse(self, row: RawRow | Reject) -> Pair | Reject:
        """`row` as a pair, or its reject."""
        if isinstance(row, Reject):
            return row
        if reason := _fault(row):
            return Reject.of(row.line, reason, row.text)
        # A cell without outer spaces stays as it is: `Json` and `ArrowCell` know the file's type.
        stripped = (row.grade or "").strip()
        label = (row.grade if stripped == row.grade else stripped) or None
        grades = self.grade_map.get(label) if self.grade_map and label is not None else None
        if self.grade_required and label is None:
            return Reject.of(row.line, Reason.MISSING_GRADE, row.text)
        if self.grade_required and self.grade_map is not None and grades is None:
            reason = Reason.NAN if label == "NaN" else Reason.BAD_GRADE
            return Reject.of(row.line, reason, row.text)
        id_ = row.id if row.id and not row.id.isspace() else str(row.line)
        return Pair(row.query, row.title, grades, id_, row.line, label, row.extra)


def _fault(row: RawRow) -> Reason | None:
    if not row.query or row.query.isspace():
        return Reason.EMPTY_QUERY
    if not row.title or row.title.isspace():
        return Reason.EMPTY_TITLE
    return Reason.NUL if "\0" in row.query or "\0" in row.title else None


class PairReader:
    """The pairs of a TSV, CSV, JSON Lines or Parquet file, in file order.

    Each iteration streams the file and resets the counters: `rows_read` = `accepted` + `rejected`,
    `reasons` counts the rejects by reason, `bad_grades` the accepted pairs whose label the grade map
    lacks. Texts are not changed; a row with a blank query or title is a reject.

    Args:
        path: the file or remote object; its suffix gives the format, its bytes the encoding.
        columns: `query`, `title`, `grade`, `id` → the file's column name, or its position from 1; for
            defaults see `Columns.resolve`.
        header: whether the first line of a TSV or CSV file names the columns.
        grade_map: labels → grades; without one labels stay text.
        grade_required: reject rows whose grade is missing or bad.
        max_rejects: the largest share of rejects among the rows read; ten are always tolerated.
        rejects_path: where rejected rows are listed.
        refuse: returns a reject for a pair that the caller does not accept, else None.

    Raises:
        ArgumentError: invalid arguments.
        PairFileError: at construction or while iterating: an unreadable file, too many rejects, or no
            accepted row.
    """

    rows_read: int
    accepted: int
    bad_grades: int
    reasons: Counter[str]
    _first_reject: Reject | None

    def __init__(
        self,
        path: str | os.PathLike[str] | Readable,
        *,
        columns: Mapping[str, str | int] | None = None,
        header: bool = True,
        grade_map: GradeMap | None = None,
        grade_required: bool = False,
        max_rejects: float = 0.01,
        rejects_path: Path | None = None,
        refuse: Callable[[Pair], Reject | None] | None = None,
    ) -> None:
        self.path: Location = path if isinstance(path, Readable) else Path(path)
        self.grade_map = grade_map
        self.format = format_of(self.path)
        if rejects_path is not None and (
            isinstance(self.path, Path) and rejects_path.resolve() == self.path.resolve()
        ):
            raise ArgumentError(f"{rejects_path}: the rejects would overwrite the pairs")
        self._parser = RowParser(grade_map, grade_required)
        self._refuse = refuse
        self._max_rejects = check_share(max_rejects)
        self._rejects_path = rejects_path
        required = ("grade",) if grade_required else ()
        self._file = open_format(
            self.path, Columns.resolve(columns or {}, header=header, required=required)
        )
        self._start_counting()

    @property
    def encoding(self) -> str:
        """The text encoding: `utf-8`, `utf-8-sig` or `gb18030`."""
        return self._file.encoding

    @property
    def rejected(self) -> int:
        """The number of rejects so far."""
        return self.reasons.total()

    def __iter__(self) -> Generator[Pair, None, None]:
        self._start_counting()
        with reject_log(self._rejects_path) as log:
            for row in self.rows():
                self.rows_read += 1
                if isinstance(row, Pair):
                    self.accepted += 1
                    unknown = row.label is not None and row.grades is None
                    self.bad_grades += self.grade_map is not None and unknown
                    yield row
                else:
                    self.reasons[row.reason] += 1
                    self._first_reject = self._first_reject or row
                    log(row)
                if self.rows_read % CHECKED_EVERY == 0:
                    self._stop_at_too_many_rejects()
            self._stop_at_too_many_rejects()
            if not self.rows_read:
                raise PairFileError(f"{self.path}: the file has no rows")
            if not self.accepted:
                raise PairFileError(
                    f"{self.path}: not one of {self.rows_read:,} rows is a pair "
                    f"({describe(self.reasons, self._first_reject)})"
                )

    def rows(self) -> Iterator[Pair | Reject]:
        """All pairs and rejects in file order, without counting and with any number of rejects."""
        rows = map(self._parser.parse, self._file.rows())
        if (refuse := self._refuse) is None:
            return rows
        return ((refuse(row) or row) if isinstance(row, Pair) else row for row in rows)

    def _start_counting(self) -> None:
        self.rows_read = 0
        self.accepted = 0
        self.bad_grades = 0
        self.reasons = Counter()
        self._first_reject = None

    def _stop_at_too_many_rejects(self) -> None:
        if not too_many(self.rejected, self.rows_read, self._max_rejects):
            return
        listed = f"; all are listed in {self._rejects_path}" if self._rejects_path else ""
        raise PairFileError(
            f"{self.path}: {self.rejected:,} of the first {self.rows_read:,} rows are rejects, "
            f"more than --max-rejects {self._max_rejects:g} allows "
            f"({describe(self.reasons, self._first_reject)}){listed}"
        )


def read_pairs(path: str | os.PathLike[str], **options: Any) -> list[Pair]:
    """All pairs of a file; options and errors are those of `PairReader`."""
    return list(PairReader(path, **options))


@dataclass(frozen=True)
class ReaderOptions:
    """The command line's options for a file of pairs; the fields' docs are their help."""

    columns: str | None = None
    """The file's columns: query=q,title=t,grade=label (positions from 1 with --no-header)."""
    no_header: bool = False
    """The first line is a pair, not column names."""
    grades: str | None = None
    """What the labels mean: '0=1-2,1=3-4,2=5' (default: grades 1–5, 3-4 between two)."""
    max_rejects: float = 0.01
    """Largest share of rejected rows."""
    limit: int | None = field(default=None, metadata={"min": 1})
    """Use about this many pairs of each evaluated file, in whole queries."""

    def open(
        self,
        path: str | os.PathLike[str] | Readable,
        *,
        default_map: GradeMap | None = None,
        grade_required: bool = False,
        rejects_path: Path | None = None,
        refuse: Callable[[Pair], Reject | None] | None = None,
    ) -> PairReader:
        """A reader of `path`; `default_map` is its grade map without `--grades`. Raises ArgumentError
        for invalid options, PairFileError for the file."""
        return PairReader(
            path,
            columns=self._column_mapping(),
            header=not self.no_header,
            grade_map=self._grade_map(default_map),
            grade_required=grade_required,
            max_rejects=self.max_rejects,
            rejects_path=rejects_path,
            refuse=refuse,
        )

    def beside(self, path: str | os.PathLike[str], *, labelled: bool = True) -> ReaderOptions:
        """The options for a further file, which needs no `grade` unless `labelled`: the same columns or, where it
        lacks one, the usual names, which a line says. A joined title has no other name.

        Raises PairFileError for a file with neither.
        """
        mapping = self._column_mapping()
        if not labelled:
            mapping = {name: mapping[name] for name in ("query", "title") if name in mapping}
        named = replace(self, columns=",".join(f"{n}={c}" for n, c in mapping.items()) or None)
        usual = replace(self, columns=None)
        try:
            named._find_columns(path)
        except PairFileError as error:
            if named == usual or self.no_header or "+" in str(mapping.get("title")):
                raise
            try:
                usual._find_columns(path)
            except PairFileError:
                raise error from None
            note_once(f"{path}: read by query and title, having none of --columns")
            return usual
        return named

    def _find_columns(self, path: str | os.PathLike[str]) -> None:
        open_format(Path(path), self.resolve_columns()).find_columns()

    def note_abstract(self, pairs: Sequence[Pair], path: Location) -> None:
        """Print once that the column `abstract` of these pairs is not read, if they have one."""
        if "abstract" not in (self.columns or "") and any("abstract" in p.extra for p in pairs[:1]):
            note_once(f"{path}: abstract is not read; --columns title=title+abstract joins it")

    def resolve_columns(self) -> Columns:
        """The columns to read. Raises ArgumentError for invalid options."""
        return Columns.resolve(self._column_mapping(), header=not self.no_header)

    def row_parser(self) -> RowParser:
        """The parser of a reader with these options. Raises ArgumentError for invalid ones."""
        return RowParser(self._grade_map(None))

    def _column_mapping(self) -> dict[str, str | int]:
        return parse_columns(self.columns) if self.columns is not None else {}

    def _grade_map(self, default_map: GradeMap | None) -> GradeMap | None:
        return GradeMap.parse(self.grades) if self.grades is not None else default_map


def for_each(values: Sequence[str] | None, files: Sequence[Path], option: str) -> Sequence[str]:
    """A repeated option's value for each file ("": none); a single value is used for all.

    Raises ArgumentError naming the `option` where the numbers differ.
    """
    values = list(values or [""])
    if len(values) == 1:
        return values * len(files)
    if len(values) != len(files):
        raise ArgumentError(
            f"{option} was given {len(values)} times for {len(files)} files; give it once for each "
            "file, or once for all"
        )
    return values
