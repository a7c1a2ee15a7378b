"""The parts of the page: sections, and the kinds of blocks in them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from qt_bert.figures import Figure
from qt_bert.text import Label, Text

# Blocks. Every kind has one template, `templates/blocks/KIND.html.j2`.


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with the ends of its 95 % interval, any of them missing.

    `unit` follows it; `digits` are its own where the values of a column differ in kind.
    """

    value: float | None
    low: float | None
    high: float | None
    unit: Label = ""
    digits: int | None = None


Tone = Literal["good", "bad", "open"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A short word in a frame coloured by its meaning."""

    text: Text
    tone: Tone


@dataclass(frozen=True, slots=True)
class Link:
    """A link to the section `anchor`."""

    text: Text
    anchor: str


Cell = str | int | float | None | Text | Interval | Badge | Link


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `name` heads it in CSV files, `title` on the page; `digits` after the point.

    `least`: smaller values are shown as `< 0.0001`; `whole`: texts are never shortened; `optional`: the
    page omits it when empty; `filed`: it is in the CSV file alone.
    """

    name: str
    title: Label
    digits: int = 3
    least: bool = False
    whole: bool = False
    optional: bool = False
    filed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells, also written as `tables/NAME.csv`.

    `grouped` draws the first column as a heading over the rows that share it; `folded` hides the table
    until its title is clicked; the page shows the first `shown` rows (None: all).
    """

    kind: ClassVar[str] = "table"
    name: str
    title: Text
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: Text | None = None
    grouped: bool = False
    folded: bool = False
    shown: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A paragraph, or, `preformatted`, text shown as it is."""

    kind: ClassVar[str] = "text"
    body: Label
    title: Text | None = None
    preformatted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureBlock:
    """A figure, drawn as SVG."""

    kind: ClassVar[str] = "figure"
    figure: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One headline number; `base` names the data behind it."""

    title: Label
    value: Interval
    base: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A pair, its label, the model's grade and its probability for each level.

    `level`: the label where it is one of the levels. `score`: the score of a model of one logit, which
    has no levels. `moved_by`: the terms with the largest effect (term, side, change); `carried_by`: the
    heads that restore the effect of the first.
    """

    query: str
    title: str
    grade: str
    level: str | None
    predicted: str
    expected: float | None
    levels: tuple[str, ...]
    probabilities: tuple[float, ...]
    score: float | None = None
    moved_by: tuple[tuple[str, Text, float], ...] = ()
    carried_by: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Pairs with their grade distributions."""

    kind: ClassVar[str] = "examples"
    title: Text
    note: Text
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Headings, each with a few sentences."""

    kind: ClassVar[str] = "listing"
    rows: tuple[tuple[Text, tuple[Text, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Blocks that are hidden until their title is clicked."""

    kind: ClassVar[str] = "folded"
    title: Text
    blocks: tuple[Block, ...]


Block = Table | Prose | FigureBlock | Examples | Listing | Folded


def filled(*blocks: Block | None) -> tuple[Block, ...]:
    """The blocks without None and without tables that have no rows."""
    return tuple(
        block
        for block in blocks
        if block is not None and (not isinstance(block, Table) or block.rows)
    )


def columns(**words: str) -> tuple[Column, ...]:
    """Plain columns: name → the key in `words.toml` of its heading."""
    return tuple(Column(name, wording(word)) for name, word in words.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page; `name` is its anchor. Sections of the `appendix` are folded, after all others."""

    name: str
    title: Text
    blocks: tuple[Block, ...]
    appendix: bool = False


def wording(name: str, /, **facts: Any) -> Text:
    """The text `name`, filled from `facts`. Raises KeyError for an unknown text or field."""
    texts = _texts()[name]
    return Text(*(_filled(texts[language], facts, language) for language in ("zh", "en")))


def _filled(template: str, facts: dict[str, Any], language: str) -> str:
    plain = {name: getattr(value, language, value) for name, value in facts.items()}
    return template.format(**plain)


@cache
def _texts() -> dict[str, dict[str, str]]:
    path = Path(__file__).with_name("words.toml")
    texts: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return texts
