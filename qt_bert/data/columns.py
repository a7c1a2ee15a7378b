"""The columns of a file that hold query, title, grade and id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qt_bert.errors import ArgumentError, PairFileError

COLUMN_NAMES = ("query", "title", "grade", "id")
_NECESSARY = frozenset({"query", "title"})
_NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Placement:
    """Field indices, from 0, of the columns of one file; `extra` in file order, `title` joined of several."""

    query: int
    title: tuple[int, ...]
    grade: int | None
    id: int | None
    extra: tuple[tuple[str, int], ...]
    width: int

    def title_of(self, cells: Sequence[Any]) -> Any:
        """The title among the cells of a row."""
        return join_fields([cells[place] for place in self.title])


@dataclass(frozen=True)
class Columns:
    """`targets`: query, title, grade, id → the file's column name, or its position from 1.

    The absence of a `required` one is an error: query, title, and those that the caller named.
    """

    targets: Mapping[str, str | int]
    required: frozenset[str]
    header: bool

    @classmethod
    def resolve(
        cls,
        mapping: Mapping[str, str | int],
        *,
        header: bool = True,
        required: Iterable[str] = (),
    ) -> Columns:
        """Complete `mapping` with the defaults.

        The default is the same name or, without a header, the order query, title, grade, id. A
        default grade or id is dropped where its column is already taken.
        Raises ArgumentError for unknown names, two names for one column, and bad positions.
        """
        for name in mapping:
            if name not in COLUMN_NAMES:
                raise ArgumentError(
                    f"--columns: unknown name {name!r}; it maps {', '.join(COLUMN_NAMES)}"
                )
        targets = {name: _target(name, target, header) for name, target in mapping.items()}
        for position, name in enumerate(COLUMN_NAMES, start=1):
            default: str | int = name if header else position
            if name not in targets and (name in _NECESSARY or default not in targets.values()):
                targets[name] = default
        owners: dict[str | int, str] = {}
        for name, target in targets.items():
            if target in owners:
                raise ArgumentError(
                    f"--columns: {owners[target]} and {name} would both be the column {target!r}; "
                    "name both"
                )
            owners[target] = name
        return cls(targets, _NECESSARY | set(mapping) | set(required), header)

    def place(self, names: Sequence[str], where: str) -> Placement:
        """Find the columns among `names`, the file's columns in order.

        Raises PairFileError, beginning with `where`, for a missing or repeated column.
        """
        for name, times in Counter(names).items():
            if times > 1:
                raise PairFileError(f"{where}: {times} columns are called {name!r}; rename them")
        parts = [self.targets["title"]] if self.targets["title"] in names else self.title_parts
        titles = [_index_of(part, names) for part in parts]
        index = {name: _index_of(target, names) for name, target in self.targets.items()}
        index["title"] = None if None in titles else titles[0]
        for name in COLUMN_NAMES:
            if index.get(name) is None and name in self.required:
                raise PairFileError(self._missing(name, names, where))
        taken = set(index.values())
        extra = tuple((name, i) for i, name in enumerate(names) if i not in taken)
        query, title = index["query"], tuple(place for place in titles if place is not None)
        assert query is not None
        return Placement(query, title, index.get("grade"), index.get("id"), extra, len(names))

    @property
    def title_parts(self) -> list[str | int]:
        """The columns that the title is joined of: `title=title+abstract`."""
        parts = str(self.targets["title"]).split("+")
        return [_target("title", part.strip(), self.header) for part in parts]

    def _missing(self, name: str, names: Sequence[str], where: str) -> str:
        shown = ", ".join(repr(other[:40]) for other in names[:_NAMES_SHOWN])
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        advice = (
            f"name it with --columns {name}=NAME, or use --no-header if the first line is a pair"
            if self.header
            else f"give its position, from 1, with --columns {name}=N"
        )
        if len(names) == 1 and (mark := next((c for c in "\t;," if c in names[0]), None)):
            advice = f"its fields seem to be separated by {mark!r}; .tsv has tabs, .csv commas"
        target = self.targets.get(name, name)
        return f"{where}: no column {target!r} for the {name}; there are {shown}{more}; {advice}"


def join_fields(cells: Sequence[Any]) -> Any:
    """The texts with a space between, without empty ones; the first cell where it is no text."""
    if len(cells) == 1 or not isinstance(cells[0], str):
        return cells[0]
    return " ".join(cell for cell in cells if isinstance(cell, str) and cell)


def parse_columns(spec: str) -> dict[str, str | int]:
    """Parse `query=q,title=t,grade=label`. Raises ArgumentError for another form."""
    mapping: dict[str, str | int] = {}
    for entry in spec.split(","):
        name, equals, target = (part.strip() for part in entry.partition("="))
        if not equals or not name or not target:
            raise ArgumentError(
                f"--columns {spec!r}: {entry.strip()!r} is not of the form name=column, "
                "such as query=q"
            )
        if name in mapping:
            raise ArgumentError(f"--columns {spec!r}: {name!r} stands twice")
        mapping[name] = target
    return mapping


def _target(name: str, target: str | int, header: bool) -> str | int:
    if isinstance(target, str) and (header or (name == "title" and "+" in target)):
        return target
    text = str(target)
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) > 0):
        raise ArgumentError(
            f"--columns {name}={target}: a column without a name is given by its position, from 1"
        )
    return int(text)


def _index_of(target: str | int, names: Sequence[str]) -> int | None:
    if isinstance(target, int):
        return target - 1 if target <= len(names) else None
    return names.index(target) if target in names else None
