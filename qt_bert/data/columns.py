"""Which column of a file is the query, the title, the grade and the id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from qt_bert.errors import ArgumentError, PairFileError

COLUMN_NAMES = ("query", "title", "grade", "id")
_NECESSARY = frozenset({"query", "title"})
_NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the columns of one file stand: 0-based field indices; `extra` keeps file order."""

    query: int
    title: int
    grade: int | None
    id: int | None
    extra: tuple[tuple[str, int], ...]
    width: int


@dataclass(frozen=True)
class Columns:
    """The columns asked for: our name → the file's name, or its position from 1.

    `required` are those whose absence is an error: query and title, and what the caller named.
    """

    wanted: Mapping[str, str | int]
    required: frozenset[str]
    header: bool

    @classmethod
    def resolve(
        cls,
        given: Mapping[str, str | int],
        *,
        header: bool = True,
        required: Iterable[str] = (),
    ) -> Columns:
        """Fill up `given` with the defaults.

        Names not given keep their default: their own name or, without a header, the order query,
        title, grade, id. A default grade or id gives way where its place is already taken.
        Raises ArgumentError for unknown names, two names for one column, and bad positions.
        """
        for name in given:
            if name not in COLUMN_NAMES:
                raise ArgumentError(
                    f"--columns: unknown name {name!r}; it maps {', '.join(COLUMN_NAMES)}"
                )
        wanted = {name: _target(name, target, header) for name, target in given.items()}
        for position, name in enumerate(COLUMN_NAMES, start=1):
            default: str | int = name if header else position
            if name not in wanted and (name in _NECESSARY or default not in wanted.values()):
                wanted[name] = default
        owners: dict[str | int, str] = {}
        for name, target in wanted.items():
            if target in owners:
                raise ArgumentError(
                    f"--columns: {owners[target]} and {name} would both be the column {target!r}; "
                    "name both"
                )
            owners[target] = name
        return cls(wanted, _NECESSARY | set(given) | set(required), header)

    def place(self, names: Sequence[str], where: str) -> Placement:
        """Find the wanted columns among `names`, the file's columns in order.

        Raises PairFileError, beginning with `where`, naming the columns there are, or the one
        that stands twice.
        """
        for name, times in Counter(names).items():
            if times > 1:
                raise PairFileError(f"{where}: {times} columns are called {name!r}; rename them")
        index = {name: _index_of(target, names) for name, target in self.wanted.items()}
        for name in COLUMN_NAMES:
            if index.get(name) is None and name in self.required:
                raise PairFileError(self._missing(name, names, where))
        taken = set(index.values())
        extra = tuple((name, i) for i, name in enumerate(names) if i not in taken)
        query, title = index["query"], index["title"]
        assert query is not None and title is not None
        return Placement(query, title, index.get("grade"), index.get("id"), extra, len(names))

    def _missing(self, name: str, names: Sequence[str], where: str) -> str:
        shown = ", ".join(repr(other[:40]) for other in names[:_NAMES_SHOWN])
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        advice = (
            f"name it with --columns {name}=NAME, or use --no-header if the first line is a pair"
            if self.header
            else f"give its position, from 1, with --columns {name}=N"
        )
        if len(names) == 1 and (mark := next((one for one in "\t;," if one in names[0]), None)):
            advice = f"its fields seem to stand between {mark!r}; .tsv has tabs, .csv commas"
        wanted = self.wanted.get(name, name)
        return f"{where}: no column {wanted!r} for the {name}; there are {shown}{more}; {advice}"


def parse_columns(spec: str) -> dict[str, str | int]:
    """Read `query=q,title=t,grade=label` into a mapping; ArgumentError where it is not that."""
    given: dict[str, str | int] = {}
    for entry in spec.split(","):
        name, equals, target = (part.strip() for part in entry.partition("="))
        if not equals or not name or not target:
            raise ArgumentError(
                f"--columns {spec!r}: {entry.strip()!r} is not of the form name=column, "
                "such as query=q"
            )
        if name in given:
            raise ArgumentError(f"--columns {spec!r}: {name!r} stands twice")
        given[name] = target
    return given


def _target(name: str, target: str | int, header: bool) -> str | int:
    if header and isinstance(target, str):
        return target
    text = str(target)
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 100_000):
        raise ArgumentError(
            f"--columns {name}={target}: a column without a name is given by its position, from 1"
        )
    return int(text)


def _index_of(target: str | int, names: Sequence[str]) -> int | None:
    if isinstance(target, int):
        return target - 1 if target <= len(names) else None
    return names.index(target) if target in names else None
