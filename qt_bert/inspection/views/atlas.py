"""The head atlas, the card of one head, and the routes that a run found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qt_bert.figures import Graph, HeatMap
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.studied import Studied
from qt_bert.inspection.views.shared import study_commands
from qt_bert.models.heads import Head
from qt_bert.results.head_sets import SetWords, set_words
from qt_bert.results.heads import (
    HeadTable,
    atlas_figure,
    base_of,
    marked,
    offered,
    place_of,
    values_of,
)
from qt_bert.results.probe import set_label
from qt_bert.results.quantities import Quantity
from qt_bert.text import Label, Text, in_language, interval, number, shortest

# The head atlas: what heads can be coloured by, and the card of one head.


@dataclass(frozen=True)
class Colouring:
    """One quantity that the atlas can be coloured by, and its figure."""

    name: str
    title: Text
    figure: HeatMap


@dataclass(frozen=True)
class Evidence:
    """One quantity of a head: value, interval and q where there are any, place among all heads.

    `outlined` says whether the atlas outlines it; `beside` are further scores with their names.
    """

    title: Text
    unit: Label
    means: Text
    value: float
    digits: int
    interval: tuple[float, float] | None
    q: float | None
    rank: int
    of: int
    outlined: bool
    base: Text
    beside: tuple[tuple[Text, float], ...]

    @property
    def measured(self) -> Text:
        """Value, unit, interval, q and place in one line."""
        value = number(self.value, self.digits)
        ends = f" {interval(*self.interval, self.digits)}" if self.interval else ""
        q = "" if self.q is None else f"，q = {shortest(self.q)}"
        return Text(
            f"{value} {in_language(self.unit, 'zh')}{ends}{q}；第 {self.rank} / {self.of}",
            f"{value} {in_language(self.unit, 'en')}{ends}{q.replace('，', ', ')}; "
            f"place {self.rank} of {self.of}",
        )

    @property
    def more(self) -> Text:
        """The further scores, and the base."""
        zh, en = (
            ", ".join(f"{in_language(name, k)} {shortest(value)}" for name, value in self.beside)
            for k in ("zh", "en")
        )
        parts = [(zh.replace(", ", "，"), self.base.zh), (en, self.base.en)]
        return Text(*("; ".join(filter(None, one)) for one in parts))


@dataclass(frozen=True)
class Card:
    """What is known of one head: the named sets it belongs to, and the evidence of every probe."""

    head: Head
    sets: tuple[SetWords, ...]
    evidence: tuple[Evidence, ...]


def colourings(studied: Studied) -> tuple[Colouring, ...]:
    """Every quantity that the results hold numbers for, with its map."""
    return tuple(
        Colouring(quantity.name, quantity.title, atlas_figure(quantity, table))
        for quantity, table in offered(studied.tables)
    )


def card(studied: Studied, head: Head) -> Card:
    """The card of a head."""
    sets = tuple(
        set_words(name)._replace(name=set_label(name, studied.stability))
        for name, heads in studied.sets.items()
        if head in heads
    )
    return Card(head, sets, tuple(_evidence(studied, head)))


def what_it_does(found: Card) -> Text:
    """In words, from the sets it belongs to."""
    if not found.sets:
        return Text(
            "没有一个探针选出它：下面的数值说明它像什么、要不要紧。",
            "No probe named it: the numbers below say what it resembles, and whether it matters.",
        )
    said = {words.does.zh: words.does for words in found.sets if words.does.zh}.values()
    return Text("".join(one.zh for one in said), " ".join(one.en for one in said))


def _evidence(studied: Studied, head: Head) -> Iterator[Evidence]:
    for quantity, table in offered(studied.tables):
        scores = table.rows().get(str(head), {})
        value = quantity.value(scores)
        if value is not None:
            place, of = _rank(quantity, table, head)
            yield Evidence(
                title=quantity.title,
                unit=quantity.unit,
                means=quantity.means,
                value=value,
                digits=quantity.digits,
                interval=quantity.interval(scores),
                q=quantity.q(scores),
                rank=place,
                of=of,
                outlined=place_of(str(head)) in marked(quantity, table),
                base=base_of(table),
                beside=_beside(quantity, scores),
            )


def _rank(quantity: Quantity, table: HeadTable, head: Head) -> tuple[int, int]:
    """Place among all heads from 1, and how many there are; equals share the better place."""
    sizes = {
        place: abs(value) if quantity.scale == "diverging" else value
        for place, value in values_of(quantity, table).items()
    }
    own = sizes[head]
    return 1 + sum(size > own for size in sizes.values()), len(sizes)


def _beside(quantity: Quantity, scores: dict[str, float | None]) -> tuple[tuple[Text, float], ...]:
    found = ((title, scores.get(name)) for name, title in quantity.beside.items())
    return tuple((title, value) for title, value in found if value is not None)


# The routes from the matching heads to the reader that a run found, as the report draws them.


PROBE = "routes"
TITLE = Text("匹配头到阅读头的路径", "Routes from the matching heads to the reader")
NO_RUN = Text(
    "路径图来自一次完整的研究，这里没有打开。先跑研究，再用它打开此页：",
    "The graph of routes is of a whole study, and none is open here. Run one, then open the page on it:",
)


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The graphs of a run; `said` is the probe's summary, where it ran.

    `commands` make the graphs, where no run with the probe is open; then there are none.
    """

    graphs: tuple[Graph, ...] = ()
    said: Text | None = None
    commands: tuple[str, ...] = ()


def routes(inspected: Inspected, studied: Studied | None) -> Routes:
    """What the run that is open has of the probe `routes`.

    A graph whose outcome the set does not move measurably is not drawn; the summary says so.
    """
    table = None if studied is None else studied.table(PROBE)
    said = None if table is None else table.summary
    figures = None if studied is None or studied.figures is None else studied.figures.get(PROBE)
    if figures is None:
        return Routes(said=said, commands=study_commands(inspected))
    return Routes(graphs=tuple(one for one in figures if isinstance(one, Graph)), said=said)
