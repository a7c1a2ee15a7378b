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


@dataclass(frozen=True, slots=True)
class Badge:
    """A short word in a frame coloured by its meaning."""

    text: Text
    tone: Literal["good", "bad", "open"]


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads to the section `anchor`."""

    text: Text
    anchor: str


Cell = str | int | float | None | Text | Interval | Badge | Link


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `name` heads it in CSV files, `title` on the page; `digits` after the point.

    Under `least`, what is smaller than the last digit is shown as such: `< 0.0001`; under `whole`, a
    text of any length is shown in full. The page leaves out an `optional` column that is empty, and one
    that is `filed`: it stands in the CSV file alone.
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

    `grouped` draws the first column as a heading over the rows that share it; `folded` hides the
    table behind its title until it is opened. Of a long table the page may show the first `shown` rows.
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
class Cards:
    """A row of cards."""

    kind: ClassVar[str] = "cards"
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A pair, its label, the model's answer and its probability for each level.

    `score` is the answer of a model of one logit, which has no levels. `moved_by` are the terms that
    move it most, each with its text and the change; `carried_by` says which heads carry the first.
    """

    query: str
    title: str
    grade: str
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
    """Headings, each with a few sentences behind it."""

    kind: ClassVar[str] = "listing"
    rows: tuple[tuple[Text, tuple[Text, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Blocks behind a title, until it is opened."""

    kind: ClassVar[str] = "folded"
    title: Text
    blocks: tuple[Block, ...]


Block = Table | Prose | FigureBlock | Cards | Examples | Listing | Folded


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
    """A part of the page; `name` is its anchor."""

    name: str
    title: Text
    blocks: tuple[Block, ...]


def wording(name: str, /, **facts: Any) -> Text:
    """The text `name`, its fields filled from `facts`, of which bilingual ones are localised.

    Raises KeyError where there is no such text, or a field has no fact.
    """
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
